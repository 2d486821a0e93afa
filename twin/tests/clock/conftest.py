"""The kernels of the clock's tests, compiled once."""

from pathlib import Path

import pytest

from twin.tests import builds, harness


@pytest.fixture(scope="session")
def kernels():
    sources = sorted(Path(__file__).parent.glob("*.cc"))
    return harness.Library(builds.shared(*sources, name="clock_kernels"))
