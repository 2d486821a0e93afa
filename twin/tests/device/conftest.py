import pytest

from twin.tests import builds, harness

HERE = builds.ROOT / "twin" / "tests" / "device"


def _library(name):
    return harness.Library(builds.shared(HERE / f"{name}.cc", name=f"device_{name}"))


@pytest.fixture(scope="session")
def copies():
    """The kernels of copies.cc."""
    return _library("copies")


@pytest.fixture(scope="session")
def faults_memory():
    """The kernels of faults_memory.cc."""
    return _library("faults_memory")


@pytest.fixture(scope="session")
def faults_sync():
    """The kernels of faults_sync.cc."""
    return _library("faults_sync")


@pytest.fixture(scope="session")
def cores_library():
    """The kernels of cores.cc."""
    return _library("cores")


@pytest.fixture(scope="session")
def basics():
    """The kernels of basics.cc."""
    return _library("basics")


@pytest.fixture(scope="session")
def faults_tiles():
    """The kernels of faults_tiles.cc."""
    return _library("faults_tiles")


@pytest.fixture(scope="session")
def idioms():
    """The kernels of idioms.cc."""
    return _library("idioms")


@pytest.fixture(scope="session")
def others():
    """The kernels of others.cc, the two halves of one of them, and one with a Matmul object."""
    sources = [HERE / f"others{part}.cc" for part in ("", "_cube", "_matmul", "_vector")]
    return harness.Library(builds.shared(*sources, name="device_others"))
