"""The driver and the faulty kernels of the vector tests, compiled once."""

from pathlib import Path

import pytest

from twin.tests import builds, harness
from twin.tests.vector.call import Driver


@pytest.fixture(scope="session")
def driver():
    """Runs one vector API on an image of the unified buffer."""
    sources = sorted((Path(__file__).parent / "driver").glob("*.cc"))
    return Driver(builds.shared(*sources, name="vector_driver"))


@pytest.fixture(scope="session")
def fault_kernels():
    source = Path(__file__).parent / "faults" / "faults.cc"
    return harness.Library(builds.shared(source, name="vector_faults"))
