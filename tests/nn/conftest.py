"""The settings of the operators' tests hold here too."""

from tests.ops.conftest import pynative_mode, scratch_directory  # noqa: F401
