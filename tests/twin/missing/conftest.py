import pytest

from tests.twin import builds, harness

HERE = builds.ROOT / "tests" / "twin" / "missing"


@pytest.fixture(scope="session")
def kernels():
    """The kernels of this folder."""
    return harness.Library(builds.shared(HERE / "cube.cc", HERE / "vector.cc", name="missing"))
