"""Sizes that other kernels of these operators refuse, and ours need not."""

import ctypes

import numpy as np
import pytest

from tests.common.draw import Draw
from tests.common.parity import (
    causal_compress_attention,
    compress,
    compress_attention_grad,
    compress_grad,
    flash,
    flash_grad,
    selected,
    selected_grad,
)

from .attention_checks import check_call
from .checks import check_agreement
from .checks import check_call as compress_call

CALLS = ((2, 0), (7, 1))


@pytest.mark.parametrize("make", (flash, flash_grad))
@pytest.mark.parametrize("layout", ("BSND", "SBH", "TND"))
def test_more_than_256_heads(flash_runner, make, layout):
    """Their rows are more elements apart than a transfer's stride counts."""
    ends = {"seq_q": [5, 20], "seq_kv": [9, 33]} if layout == "TND" else {}
    case = make(Draw(1, "float16"), layout, 2, 516, 4, 20, 33, 128, mode=3, **ends)
    check_call(flash_runner, case, CALLS)


@pytest.mark.parametrize("make", (flash, flash_grad))
def test_a_million_keys_and_more(flash_runner, make):
    keys = 2**20 + 700
    case = make(Draw(2, "float16"), "BSND", 1, 1, 1, 5, keys, 16, mode=4, pre=600, next_tokens=0)
    check_call(flash_runner, case, [(24, 0)])


def test_a_bias_of_two_entries_with_longer_rows_than_a_gap_counts(flash_runner):
    """A row of dpse is more than 65535 data blocks after the one before it."""
    keys = 2**19 + 700
    case = flash_grad(
        *(Draw(5, "float16"), "BNSD", 2, 1, 1, 3, keys, 16), mode=4, pre=600, next_tokens=0,
        pse=(1, 1, 3, keys),
    )  # fmt: skip
    check_call(flash_runner, case, [(24, 0)])


def test_more_tiles_than_an_int32_counts(flash_runner):
    """Are refused by tiling: 65536 heads of 32768 tiles of 128 queries."""
    tiles = flash_runner.library.flash_tiles
    tiles.argtypes, tiles.restype = [ctypes.c_int64] * 2, ctypes.c_int64
    assert tiles(2**16, 2**22 - 128) == 2**31 - 2**16
    assert tiles(2**16, 2**22) == -1


@pytest.mark.parametrize("make", (flash, flash_grad))
@pytest.mark.parametrize(("dtype", "d", "dv"), [("float16", 16, 512), ("bfloat16", 40, 200)])
def test_values_longer_than_keys(flash_runner, make, dtype, d, dv):
    case = make(Draw(d, dtype), "BSND", 1, 4, 2, 150, 290, d, dv, mode=3)
    check_call(flash_runner, case, CALLS)


@pytest.mark.parametrize(("d", "dv"), [(16, 449), (384, 512)])
@pytest.mark.parametrize("pse", ((1, 2, 70, 600), "slopes"))
def test_long_values_of_float_with_every_bias(flash_runner, d, dv, pse):
    """The UB has room for fewer queries than the cube."""
    draw = Draw(d, "float32")
    case = flash(
        *(draw, "BNSD", 1, 2, 1, 70, 600, d, dv), pse=pse, pse_type=2 if pse == "slopes" else 1,
        mask=draw.mask(70, 600), keep_prob=0.8,
    )  # fmt: skip
    check_call(flash_runner, case, CALLS)


def test_values_longer_than_compressed_keys(compress_attention_runner, flash_runner):
    sizes = ([70, 300], 16, 1, 48, 256)
    case = causal_compress_attention(Draw(3, "bfloat16"), *sizes, count=3)
    check_call(compress_attention_runner, case, CALLS)
    check_call(flash_runner, compress_attention_grad(Draw(3, "bfloat16"), *sizes), CALLS)


@pytest.mark.parametrize("make", (selected, selected_grad))
def test_more_than_128_heads_of_selected_blocks(selected_runner, make):
    case = make(Draw(5, "float16"), [30], [300], 144, 9, 16, 32, 4)
    check_call(selected_runner, case, CALLS)


@pytest.mark.parametrize("make", (selected, selected_grad))
@pytest.mark.parametrize(("n1", "n2", "d", "dv"), [(512, 64, 128, 16), (256, 256, 256, 256)])
def test_more_elements_of_a_query_than_a_stride_counts(selected_runner, make, n1, n2, d, dv):
    """Query, gradient and keys: 65536 from token to token."""
    case = make(Draw(7, "float16"), [5], [40], n1, n2, d, dv, 2, select=16)
    check_call(selected_runner, case, CALLS)


@pytest.mark.parametrize("make", (selected, selected_grad))
def test_a_long_segment_of_selected_blocks(selected_runner, make):
    """More than 131072 keys, the last block among those selected."""
    queries, keys = 5, 131072 + 9000
    blocks = -(-keys // 64)
    indices = np.random.default_rng(4).integers(0, blocks, (queries, 1, 4))
    indices[::2, :, 1] = blocks - 1
    case = make(Draw(4, "float16"), [queries], [keys], 2, 1, 16, 32, 4, indices=indices)
    check_call(selected_runner, case, [(24, 0)])


@pytest.mark.parametrize("make", (compress, compress_grad))
@pytest.mark.parametrize(("heads", "dim", "size"), [(300, 48, 32), (4096, 256, 16)])
def test_more_than_128_heads_of_compressed_tokens(runner, make, heads, dim, size):
    """Up to as many as the gap between two rows of a head tile can skip."""
    case = make(Draw(6, "float16"), seq=[40], heads=heads, dim=dim, l=size, s=16)
    check_agreement(case, compress_call(runner, case, 7, seeds=(0,)))
