"""The tests of this folder choose MindSpore's mode and the target; the defaults come back."""

import mindspore as ms
import pytest

import mindspore_nsa


@pytest.fixture(autouse=True, scope="module")
def default_target():
    with mindspore_nsa.target("cpu"):
        yield


@pytest.fixture(autouse=True)
def default_mode():
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)
