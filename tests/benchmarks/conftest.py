"""The cases choose MindSpore's mode; its default comes back after each test."""

from tests.ops.conftest import pynative_mode  # noqa: F401
