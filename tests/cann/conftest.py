"""Tests here call operators in this process, too: one leaves an error inside a gradient."""

from tests.ops.conftest import pynative_mode  # noqa: F401
