"""Traffic of the kernels through global memory, as the twin counts it, to the byte.

Forward passes read every block of keys and of values once for each tile. A gradient reads one
operand of its products again, because the first of them was two steps before: keys for dq, queries
and dO for dk and dv.
"""

import numpy as np
import pytest

from tests.common.draw import Draw
from tests.common.parity import flash_grad, selected, selected_grad

TILE, STEP, STATISTIC = 128, 512, 32


@pytest.mark.parametrize(("s1", "s2"), [(256, 1024), (128, 512), (512, 512), (1024, 256)])
def test_gradient_of_full_attention(flash_runner, s1, s2):
    heads, dim = 2, 128
    case = flash_grad(Draw(0, "float16"), "BNSD", 1, heads, heads, s1, s2, dim)
    _, counts = flash_runner.run(case, 2)
    row, part, pairs = dim * 2, TILE * dim * 4, heads * s1 * s2
    # Dvec of O and dO, the first of the numbers of the maximum and of the sum, and the gradient of
    # the sum, where there is one.
    statistics_read = 2 + (case.named()["softmax_sum_grad"] is not None)
    rows_done = heads * s1 * (2 * row + statistics_read * STATISTIC)
    # For dq: keys twice and values once per tile of queries.
    query_tiles, key_steps = heads * s1 // TILE, -(-s2 // STEP)
    by_queries = query_tiles * (2 * TILE + 3 * s2) * row
    # For dk and dv: queries and dO twice per tile of keys.
    key_tiles, query_steps = heads * s2 // TILE, -(-s1 // STEP)
    by_keys = key_tiles * (2 * TILE + 4 * s1) * row
    # S and dP in float twice; dS once for dq, P and dS for dk and dv.
    handed_over = 2 * 2 * pairs * 4 + 3 * pairs * 2
    # A step adds to the sums of its tile, which are read once.
    parts = (query_tiles * key_steps + 2 * key_tiles * query_steps) * part
    sums = (query_tiles + 2 * key_tiles) * part
    # Maximum, sum and Dvec of a row, for every step of its tile and for every tile of keys.
    statistics = 3 * 4 * heads * s1 * (key_steps + s2 // TILE)
    assert counts.gm_read == rows_done + by_queries + by_keys + handed_over + sums + statistics
    placeholders = 2 + 4  # dpse and dsink, which nobody asked for
    results = heads * (s1 + 2 * s2) * row + heads * s1 * 3 * 4 + placeholders
    assert counts.gm_written == handed_over + parts + results


GROUP, DIM, VALUE_DIM, BLOCK, COUNT, QUERIES, KEYS = 16, 64, 32, 16, 4, 32, 512
TILE_QUERIES = 16


def selections():
    """Every query of a tile selects the same blocks, or each half of a tile its own."""
    query, block = np.arange(QUERIES)[:, None, None], np.arange(COUNT)
    return np.broadcast_to(block, (QUERIES, 1, COUNT)), query // 8 * 8 + block


def blocks_of_tiles(indices):
    """Blocks that the tiles read, and blocks that anybody reads."""
    tiles = indices.reshape(-1, TILE_QUERIES * COUNT)
    return sum(len(set(tile)) for tile in tiles), len(set(indices.flat))


def counts_of(runner, build, indices):
    case = build(
        *(Draw(0, "float16"), [QUERIES], [KEYS], GROUP, 1, DIM, VALUE_DIM, COUNT),
        select=BLOCK,
        indices=indices,
    )
    return runner.run(case, 2)[1]


def test_selected_attention(selected_runner):
    """Every block that a tile's queries select, once; what the cores hand over, once each."""
    for indices in selections():
        counts = counts_of(selected_runner, selected, indices)
        rows, pairs = QUERIES * GROUP, QUERIES * GROUP * COUNT * BLOCK
        tensors = (rows * DIM + blocks_of_tiles(indices)[0] * BLOCK * (DIM + VALUE_DIM)) * 2
        handed_over = pairs * (4 + 2) + rows * VALUE_DIM * 4
        lists = counts.gm_read - tensors - handed_over
        assert 0 < lists <= 3 * 128 * QUERIES
        results = rows * (VALUE_DIM * 2 + 2 * STATISTIC) + 2 * 128 * QUERIES
        assert counts.gm_written == handed_over + results


def test_gradient_of_selected_attention(selected_runner):
    """More blocks: for dq their keys twice and values once per tile, for dk and dv both once."""
    few, many = selections()
    once, more = (counts_of(selected_runner, selected_grad, i) for i in (few, many))
    tiles, selected_blocks = (
        b - a for a, b in zip(blocks_of_tiles(few), blocks_of_tiles(many), strict=True)
    )
    sums = BLOCK * (DIM + VALUE_DIM) * 4  # dk and dv of a block
    for_dq = BLOCK * (2 * DIM + VALUE_DIM) * 2
    for_block = BLOCK * (DIM + VALUE_DIM) * 2 + sums + 128 * QUERIES  # the lists are searched again
    assert more.gm_read - once.gm_read == tiles * for_dq + selected_blocks * for_block
    assert more.gm_written - once.gm_written == selected_blocks * sums
