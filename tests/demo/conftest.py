"""The tests of this folder choose MindSpore's mode; its default comes back after each."""

import mindspore as ms
import pytest


@pytest.fixture(autouse=True)
def default_mode():
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)
