import pytest

from twin.tests import builds, harness

HERE = builds.ROOT / "twin" / "tests" / "missing"


@pytest.fixture(scope="session")
def kernels():
    """The kernels of this folder."""
    return harness.Library(builds.shared(HERE / "cube.cc", HERE / "vector.cc", name="missing"))
