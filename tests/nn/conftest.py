"""The settings of the operators' tests hold here too; the modes of tests of caches."""

import mindspore as ms
import pytest

from tests.ops.conftest import pynative_mode, scratch_directory  # noqa: F401


# A graph is compiled for each of them; what a decorated function adds to it, a few tests show.
@pytest.fixture(params=["pynative", "graph", pytest.param("jit", marks=pytest.mark.soak)])
def mode(request):
    ms.set_context(mode=ms.GRAPH_MODE if request.param == "graph" else ms.PYNATIVE_MODE)
    yield request.param
    ms.set_context(mode=ms.PYNATIVE_MODE)
