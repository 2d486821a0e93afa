"""The kernels narrow nowhere in braces, which CANN's compiler refuses."""

import pytest

from tests.twin import builds

RUNNERS = ("runner", "flash_runner", "selected_runner", "compress_attention_runner")


@pytest.mark.parametrize("runner", RUNNERS)
def test_fields_as_cann_declares_them(runner):
    source = builds.ROOT / "tests" / "ascendc" / f"{runner}.cc"
    builds.accepted(source, ("-DTWIN_FIELDS_AS_CANN",))
