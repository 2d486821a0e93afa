"""FlashAttentionScoreGrad in Ascend C, on the twin, against the float64 reference."""

import numpy as np
import pytest

from mindspore_nsa.testing.case import INPUTS
from mindspore_nsa.testing.dtypes import decode
from tests.common.draw import Draw
from tests.common.flash_cases import compress_attention_grad_of
from tests.common.parity import causal_compress_attention, flash_grad

from .attention_cases import flash_parity, lengths, make_grad_case
from .attention_checks import CALLS, calls_of, check_call
from .flash_runner import dims
from .launch import raw

# The first, which find the planted faults, and what they have too few of: compressed and many keys.
CONFIGURATIONS = (
    *(*range(100), 102, 104, 111, 112, 116, 126, 127, 129, 134, 136, 144, 149, 162, 167, 171, 172),
    *(230, 242),
)
CHUNK = 30


@pytest.mark.parametrize("name", flash_parity("flash_grad"))
def test_parity(flash_runner, name):
    case = flash_parity("flash_grad")[name]()
    check_call(flash_runner, case, CALLS)


@pytest.mark.parametrize("first", range(0, len(CONFIGURATIONS), CHUNK))
def test_random_configurations(flash_runner, first):
    for number in CONFIGURATIONS[first : first + CHUNK]:
        check_call(flash_runner, make_grad_case(number), calls_of(number))


def test_the_cases_cover_what_matters():
    """Every layout, mode and bias; several steps and blocks; compressed keys; empty segments."""
    cases = [make_grad_case(number) for number in CONFIGURATIONS]
    attrs = [case.attrs for case in cases]
    assert {a["input_layout"] for a in attrs} == {"BSH", "SBH", "BSND", "BNSD", "TND"}
    assert {a["sparse_mode"] for a in attrs} == set(range(9))
    assert sum(a["compress_block_size"] > 0 for a in attrs) > 15
    biased = [c for c in cases if c.named()["real_shift"] is not None]
    assert {c.attrs["pse_type"] for c in biased} == {0, 1, 2, 3}
    shapes = [(raw(c.named()["real_shift"]).shape, dims(c)) for c in biased if c.attrs["pse_grad"]]
    batches = [(shape, size) for shape, size in shapes if len(shape) == 4]
    assert len(shapes) > 30 and len(shapes) - len(batches) > 5
    for over_queries in (False, True):
        for over_entries in (False, True):
            shared = [
                (shape[2] < size["s1"], shape[0] < size["batch"]) == (over_queries, over_entries)
                for shape, size in batches
            ]
            assert sum(shared) > 2, (over_queries, over_entries)
    for name in ("drop_mask", "attn_mask", "prefix", "sink", "q_offset"):
        assert sum(case.named()[name] is not None for case in cases) > 5, name
    sizes = [dims(case) for case in cases]
    assert {s["n1"] // s["n2"] for s in sizes} >= {1, 2, 3, 4, 16}
    segments = [lengths(case) for case in cases]
    assert sum(max(k for _, k in s) > 512 for s in segments) > 20
    assert sum(max(q for q, _ in s) > 128 for s in segments) > 20
    assert sum(any(q == 0 and k > 0 for q, k in s) for s in segments) > 5


@pytest.mark.parametrize("pse_type", (0, 1))
@pytest.mark.parametrize(
    ("dtype", "batch", "heads", "s1", "s2", "d", "rest"),
    [
        # Several tiles and steps; rows of the sum that come in parts, and several at once.
        ("float16", 3, 1, 150, 2100, 16, dict(mode=3)),
        ("bfloat16", 2, 2, 300, 97, 64, dict(mode=5, prefix=[97, 1])),
        ("float32", 3, 2, 20, 530, 40, dict(keep_prob=0.8)),
        # Tiles without a visible key, in all entries and in one.
        ("float16", 2, 1, 400, 130, 32, dict(mode=5, prefix=[0, 130])),
        ("float16", 2, 1, 400, 130, 32, dict(mode=3)),
        ("bfloat16", 2, 1, 17, 16, 512, {}),
        # Enough tiles of keys for the cores: the heads of a group share them.
        ("float16", 192, 2, 20, 24, 16, {}),
    ],
)
@pytest.mark.parametrize("rows", ("a matrix", "a row"))
def test_gradient_of_a_bias_of_a_whole_batch(
    flash_runner, rows, dtype, batch, heads, s1, s2, d, rest, pse_type
):
    shape = (1, heads, s1 if rows == "a matrix" else 1, s2)
    draw = Draw(s2, dtype)
    case = flash_grad(
        *(draw, "BNSD", batch, heads, 1, s1, s2, d), pse=shape, pse_type=pse_type, **rest
    )
    check_call(flash_runner, case, [(2, 0), (24, 1)])


def test_gradient_of_a_row_of_bias_of_every_segment(flash_runner):
    """Segments without queries have zeros; one is longer than a step of queries."""
    case = flash_grad(
        *(Draw(5, "float16"), "TND", 3, 4, 2, 720, 330, 32),
        mode=3,
        pse=(4 * 330,),
        seq_q=[600, 600, 720],
        seq_kv=[140, 200, 330],
    )
    check_call(flash_runner, case, [(2, 0), (24, 1)])
    outputs, _ = flash_runner.run(case, 2)
    assert not decode(outputs[3])[4 * 140 : 4 * 200].any()


@pytest.mark.parametrize(
    ("dtype", "d", "dv"), [("bfloat16", 512, 512), ("float32", 512, 512), ("float16", 256, 200)]
)
def test_long_head_dimensions(flash_runner, dtype, d, dv):
    """Tiles have fewer rows and keys then."""
    case = flash_grad(Draw(d, dtype), "BSND", 1, 2, 1, 100, 190, d, dv)
    check_call(flash_runner, case, [(2, 0), (7, 1)])


@pytest.mark.parametrize(
    ("dtype", "layout", "batch", "n2", "group", "s1", "s2", "d", "dv"),
    [
        # A part for each head; two parts of two heads; one part of two.
        ("float16", "BSND", 1, 1, 16, 140, 250, 192, 128),
        ("float16", "SBH", 2, 24, 4, 20, 130, 16, 16),
        ("bfloat16", "BNSD", 1, 100, 2, 9, 130, 16, 16),
        # Several rows of the results at a time; as many parts as the buffer holds.
        ("bfloat16", "BNSD", 2, 1, 2, 70, 128, 128, 128),
        ("float32", "BSH", 1, 1, 3, 70, 100, 40, 24),
        ("float16", "BSND", 1, 1, 32, 5, 60, 512, 512),
    ],
)
def test_parts_of_the_heads_of_a_tile_of_keys(
    flash_runner, dtype, layout, batch, n2, group, s1, s2, d, dv
):
    draw = Draw(s2, dtype)
    case = flash_grad(draw, layout, batch, group * n2, n2, s1, s2, d, dv, mode=3)
    check_call(flash_runner, case, [(2, 0), (24, 1)])


def test_steps_that_see_a_part_of_a_tile_of_keys(flash_runner):
    """Later heads of a tile, and later queries of compressed keys."""
    draw = Draw(9, "float16")
    causal = flash_grad(draw, "BNSD", 1, 384, 192, 40, 40, 16, mode=3)
    compressed = compress_attention_grad_of(
        causal_compress_attention(draw, [1300], 4, 2, 32, 32), draw
    )
    for case in (causal, compressed):
        check_call(flash_runner, case, [(2, 0), (24, 1)])


def test_more_queries_than_a_step(flash_runner):
    """A tile of keys has several steps over the queries of each of its heads."""
    case = flash_grad(Draw(3, "bfloat16"), "BNSD", 1, 3, 1, 1100, 130, 32, mode=3)
    check_call(flash_runner, case, [(2, 0), (7, 1)])


def test_more_tiles_of_queries_than_of_keys(flash_runner):
    """Some cores end with the steps of a tile of queries: no products lie between their sums."""
    case = flash_grad(Draw(4, "float16"), "BNSD", 1, 8, 1, 40, 520, 32)
    check_call(flash_runner, case, [(24, 0), (7, 1)])


def test_prefixes_that_end_with_the_first_key_of_a_tile(flash_runner):
    """All queries see that key, and few of them the others of its tile."""
    case = flash_grad(Draw(7, "float16"), "BNSD", 2, 1, 1, 260, 260, 32, mode=5, prefix=[129, 257])
    check_call(flash_runner, case, [(2, 0), (7, 1)])


def test_a_few_keys_behind_the_last_segment(flash_runner):
    """Compressed keys that belong to no segment have gradients of 0."""
    draw, spare = Draw(8, "float16"), 5
    forward = causal_compress_attention(draw, [200], 4, 2, 32, 32)
    for name in ("key", "value"):
        place = INPUTS[forward.op].index(name)
        more = draw.tensor(spare, 2, 32)
        forward.inputs[place] = np.concatenate([forward.inputs[place], more])
    case = compress_attention_grad_of(forward, draw)
    check_call(flash_runner, case, [(2, 0), (7, 1)])
    outputs, _ = flash_runner.run(case, 2)
    assert not any(decode(t)[-spare:].any() for t in outputs[1:3])


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32"))
def test_a_nan_of_a_query_reaches_what_it_sees(flash_runner, dtype):
    """Its own dq, and the gradients of the keys that it sees; other segments' and heads' stay."""
    ends, query, head = [100, 300, 450], 180, 1
    case = flash_grad(Draw(6, dtype), "TND", 3, 4, 2, 450, 450, 64, mode=3, seq_q=ends, seq_kv=ends)
    clean, _ = flash_runner.run(case, 2)
    tensor = case.named()["query"]
    bits = tensor[1] if isinstance(tensor, tuple) else tensor
    bits[query, head, 3] = 0x7FC0 if isinstance(tensor, tuple) else np.nan
    dirty, _ = flash_runner.run(case, 2)
    clean, dirty = ([decode(t) for t in tensors[:3]] for tensors in (clean, dirty))
    touched = [np.isnan(t) for t in dirty]
    for ours, before, nan in zip(dirty, clean, touched, strict=True):
        assert np.array_equal(ours[~nan], before[~nan])
    dq, dk, dv = touched
    assert set(map(tuple, np.argwhere(dq.any(axis=-1)))) == {(query, head)}
    seen = {(j, 0) for j in range(100, query + 1)}
    assert set(map(tuple, np.argwhere(dv.any(axis=-1)))) == seen
    # A dS of 0 does not hide the NaN itself: it reaches the later keys of its tile, too.
    assert set(map(tuple, np.argwhere(dk.all(axis=-1)))) == seen
    others = dk & ~dk.all(axis=-1, keepdims=True)
    assert set(np.argwhere(others)[:, 1]) <= {0} and set(np.argwhere(others)[:, 2]) <= {3}
    assert not others[:100].any() and not others[300:].any()
