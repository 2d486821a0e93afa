"""Settings of the tests that use MindSpore."""

import mindspore as ms
import pytest
from mindspore.common.api import _pynative_executor


@pytest.fixture(autouse=True, scope="session")
def scratch_directory(tmp_path_factory):
    """MindSpore writes its analysis of errors into the current directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("mindspore"))
        yield


@pytest.fixture(autouse=True)
def pynative_mode():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)
    # After an error inside a gradient call MindSpore takes the next one for a second derivative.
    _pynative_executor.clear_res()
