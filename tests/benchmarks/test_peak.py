"""The loops that bound a kernel's speed make the products that they are said to make."""

import platform

import pytest

from benchmarks import peak
from mindspore_nsa import _native

HERE = (
    ("neon",) if platform.machine() == "aarch64" else ("avx2", "avx512", "avx512bf16", "avx512amx")
)


@pytest.mark.parametrize("isa", [isa for isa in HERE if isa in _native.available_isas()])
def test_products(isa):
    """Small integers are exact, so a product left out or merged with another one shows."""
    found = {steps: peak.products(isa, steps, 3, 3.0, 2.0) for steps in (1, 5)}
    flops = peak.load(isa).nsa_peak_flops()
    assert found == {steps: 3 * steps * flops / 2 * 6 for steps in found}


@pytest.mark.parametrize("isa", HERE)
def test_every_loop_compiles(isa):
    assert peak.load(isa).nsa_peak_flops() % 32 == 0
