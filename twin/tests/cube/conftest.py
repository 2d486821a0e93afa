"""The kernels of the cube tests, compiled once."""

from pathlib import Path

import numpy as np
import pytest

from twin.tests import builds, harness


@pytest.fixture(scope="session")
def kernels():
    sources = sorted(Path(__file__).parent.glob("*.cc"))
    return harness.Library(builds.shared(*sources, name="cube_kernels"))


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture
def cube(kernels):
    """Runs a kernel on one AIC and gives back its result array, `out`."""

    def run(kernel, inputs, out, numbers, more=()):
        buffers = [(harness.INPUT, np.ascontiguousarray(x)) for x in inputs]
        buffers.append((harness.INOUT, out))
        buffers += [(harness.INPUT, np.ascontiguousarray(x)) for x in more]
        report = kernels.launch(kernel, buffers, numbers, type=harness.AIC_ONLY)
        assert report.ok, report.error
        return out

    return run
