"""Traffic and products of FlashAttentionScore, as the twin counts them."""

import pytest

from tests.common.draw import Draw
from tests.common.parity import flash

TILE, STEP = 128, 512


@pytest.mark.parametrize(("s1", "s2"), [(256, 1024), (128, 512)])
def test_bytes_of_a_full_attention(flash_runner, s1, s2):
    """Per tile every query, key and value is read once; what the cores hand over, once each."""
    heads, dim = 2, 128
    case = flash(Draw(0, "float16"), "BNSD", 1, heads, heads, s1, s2, dim)
    _, counts = flash_runner.run(case, 2)
    tiles, steps = heads * s1 // TILE, s2 // STEP
    tensors = tiles * (TILE + 2 * s2) * dim * 2
    scores, probabilities = tiles * TILE * s2 * 4, tiles * TILE * s2 * 2
    parts = tiles * steps * TILE * dim * 4
    assert counts.gm_read == tensors + scores + probabilities + parts
    results = heads * s1 * (dim * 2 + 2 * 32)
    assert counts.gm_written == scores + probabilities + parts + results


def test_a_causal_mask_leaves_out_what_it_hides(flash_runner):
    """Keys that no query of a tile sees are neither loaded nor multiplied."""
    size = 1024
    full = flash(Draw(0, "float16"), "BNSD", 1, 1, 1, size, size, 64)
    causal = flash(Draw(0, "float16"), "BNSD", 1, 1, 1, size, size, 64, mode=3)
    every, seen = (flash_runner.run(case, 1)[1] for case in (full, causal))
    tiles = size // TILE
    part = sum(i + 1 for i in range(tiles)) / tiles**2
    assert seen.repeats["M"] == pytest.approx(every.repeats["M"] * part, rel=0.01)
