"""Operations and bytes of the benchmarks, against counting one by one."""

import numpy as np
import pytest

from benchmarks import counts, workloads
from mindspore_nsa.reference import masks
from mindspore_nsa.reference.nsa_selected_attention import times_gathered


@pytest.mark.parametrize("tokens", [1, 2, 63, 64, 97])
def test_causal_pairs(tokens):
    assert counts.causal_pairs(tokens) == sum(j <= i for i in range(tokens) for j in range(tokens))


@pytest.mark.parametrize(
    "tokens, block, stride", [(1, 4, 2), (31, 32, 16), (97, 32, 16), (9, 3, 3)]
)
def test_compressed_pairs(tokens, block, stride):
    rows = max(0, (tokens - block) // stride + 1)
    visible = masks.compressed_causal(tokens, rows, block, stride, 0)
    by_hand = sum(c * stride + block - 1 <= i for i in range(tokens) for c in range(rows))
    assert counts.compressed_pairs(tokens, block, stride) == by_hand == visible.sum()


@pytest.mark.parametrize("tokens, select, count", [(1, 4, 2), (50, 8, 3), (97, 16, 16)])
def test_selected_pairs(tokens, select, count):
    rng = np.random.default_rng(0)
    indices = workloads.choose_blocks(rng, tokens, 2, select, count)
    gathered = times_gathered(indices, tokens, select, True, 0)
    by_hand = 0
    for i in range(tokens):
        for block in indices[i].ravel():
            keys = range(block * select, (block + 1) * select) if block >= 0 else ()
            by_hand += sum(j <= i for j in keys)
    assert counts.selected_pairs(indices, select, tokens) == by_hand == gathered.sum()


def test_chosen_blocks():
    tokens, select, count = 1100, 16, 16
    indices = workloads.choose_blocks(np.random.default_rng(0), tokens, 1, select, count)
    for i, row in enumerate(indices[:, 0]):
        own = i // select
        real = row[row >= 0].tolist()
        assert {0, max(own - 1, 0), own} <= set(real) <= set(range(own + 1))
        assert len(real) == len(set(real)) == min(count, own + 1)
    assert len({tuple(row) for row in indices[-select:, 0]}) > 1


def test_flops_of_a_pair():
    # One pair, D = 3, Dv = 2. Forward: score, output; backward: score, dV, dP, dQ, dK.
    assert counts.attention_flops(1, 3, 2, "forward") == 2 * 3 + 2 * 2
    assert counts.attention_flops(1, 3, 2, "backward") == 2 * (3 + 2 + 2 + 3 + 3)


def test_work_of_the_workloads():
    def operations(build, pairs, heads):
        work = build(200, "float32", heads=heads, kv_heads=2, dim=8).work
        assert work == {"forward": 2 * 16 * pairs * heads, "backward": 2 * 40 * pairs * heads}

    operations(workloads.flash, 200 * 201 // 2, 4)
    operations(workloads.compress_attention, sum(max(0, (i - 15) // 16) for i in range(200)), 4)
    # 200 tokens are 4 blocks, which everyone selects.
    operations(workloads.selected, 200 * 201 // 2, 4)


def test_bytes_of_compress():
    # 64 tokens: 3 windows; 4 bytes an element, a list of one int64.
    workload = workloads.compress(64, "float32", heads=2, dim=8)
    inputs = 4 * (64 * 2 * 8 + 32 * 2) + 8
    rows = 4 * 3 * 2 * 8
    gradients = 4 * (64 * 2 * 8 + 32 * 2)
    assert workload.work == {"forward": inputs + rows, "backward": rows + inputs + gradients}
