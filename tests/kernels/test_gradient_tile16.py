"""Gradients whose queries are accumulated in tiles of 16 rows: heads of a query, or queries of a
head. On AMX they take tiles with keys as rows, and leave those with a number that is none to the
general way, whose sums go to the same accumulators.
"""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import Case, compare, run_reference
from mindspore_nsa.testing.dtypes import decode, encode

pytestmark = pytest.mark.usefixtures("isa")
UNBOUNDED = 2147483647
# Neither whole 16-row tiles nor whole KV blocks; the second segment begins amid a KV block.
QUERIES, KEYS = (83, 0, 54), (83, 5, 70)
VISIBLE = {
    "all": (0, UNBOUNDED, UNBOUNDED),
    "causal": (3, UNBOUNDED, UNBOUNDED),
    "window": (4, 20, 0),
    "ahead": (4, 3, 11),
}


def _tensors(dtype, queries, keys, heads, kv_heads, dim, dim_v):
    draw = np.random.default_rng(heads + queries)
    shapes = {
        "query": (queries, heads, dim),
        "key": (keys, kv_heads, dim),
        "value": (keys, kv_heads, dim_v),
        "dy": (queries, heads, dim_v),
    }
    return {name: encode(draw.standard_normal(shape), dtype) for name, shape in shapes.items()}


def _ends(lengths):
    return np.cumsum(lengths).astype(np.int64)


def _gradient(forward, dy, **attrs):
    """The case of the gradient of a forward case, whose results the reference gives."""
    out, row_max, row_sum = run_reference(forward)
    selected = forward.op == "NsaSelectedAttention"
    inputs = {
        **forward.named(),
        "attention_out" if selected else "attention_in": encode(out, forward.dtype),
        "attention_out_grad" if selected else "dy": dy,
        "softmax_max": row_max.astype(np.float32),
        "softmax_sum": row_sum.astype(np.float32),
    }
    return Case.of(f"{forward.op}Grad", inputs, {**forward.attrs, **attrs}, forward.dtype)


def _flash(dtype, heads, visible="causal", layout="TND", dim=32, dim_v=64, lengths=None):
    queries, keys = lengths or (QUERIES, KEYS)
    x = _tensors(dtype, sum(queries), sum(keys), *heads, dim, dim_v)
    mode, before, after = VISIBLE[visible]
    inputs = {name: x[name] for name in ("query", "key", "value")}
    if layout == "TND":
        inputs |= {"actual_seq_qlen": _ends(queries), "actual_seq_kvlen": _ends(keys)}
    else:
        order = (0, 2, 1, 3) if layout == "BNSD" else (0, 1, 2, 3)
        batch = {name: decode(t)[None].transpose(order) for name, t in x.items()}
        x = {name: encode(np.ascontiguousarray(t), dtype) for name, t in batch.items()}
        inputs = {name: x[name] for name in ("query", "key", "value")}
    attrs = {
        **{"head_num": heads[0], "input_layout": layout, "scalar_value": 0.2, "keep_prob": 1.0},
        **{"sparse_mode": mode, "pre_tokens": before, "next_tokens": after, "pse_type": 1},
    }
    forward = Case.of("FlashAttentionScore", inputs, attrs, dtype)
    return _gradient(forward, x["dy"], compress_block_size=0, compress_stride=0, pse_grad=0)


def _selected(dtype, heads, block=64, count=3, repeat=False, dim=64, dim_v=32):
    x = _tensors(dtype, sum(QUERIES), sum(KEYS), *heads, dim, dim_v)
    draw = np.random.default_rng(block)
    blocks = max(2, -(-max(KEYS) // block))
    shape = (sum(QUERIES), heads[1], count)
    chosen = draw.integers(-1, blocks, shape).astype(np.int32)
    if repeat:
        chosen[..., 1] = chosen[..., 0]
    # Every query sees its segment's first block, whatever else it chose.
    chosen[..., -1] = 0
    inputs = {
        **{name: x[name] for name in ("query", "key", "value")},
        "topk_indices": chosen,
        **{"actual_seq_qlen": _ends(QUERIES), "actual_seq_kvlen": _ends(KEYS)},
    }
    attrs = {
        **{"scale_value": 0.2, "head_num": heads[0], "causal": 1},
        **{"select_block_size": block, "select_block_count": count},
    }
    return _gradient(Case.of("NsaSelectedAttention", inputs, attrs, dtype), x["dy"])


def _check(case):
    with np.errstate(invalid="ignore", over="ignore"):
        ours = [_native.run(case.op, case.inputs, case.attrs, num_threads=n) for n in (1, 2, 3)]
        for others in ours[1:]:
            for a, b in zip(ours[0], others, strict=True):
                np.testing.assert_array_equal(decode(a), decode(b))
        compare(case, ours[0])


dtypes = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
HEADS = [(2, 2), (6, 2), (16, 1), (32, 2), (32, 1)]


@dtypes
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("visible", VISIBLE)
def test_segments(dtype, heads, visible):
    _check(_flash(dtype, heads, visible))


@pytest.mark.parametrize("layout", ["BNSD", "BSND"])
@pytest.mark.parametrize("heads", HEADS)
def test_layouts(layout, heads):
    _check(_flash("bfloat16", heads, layout=layout))


@pytest.mark.parametrize("heads", [(2, 2), (16, 1)])
@pytest.mark.parametrize("visible", VISIBLE)
@pytest.mark.parametrize("keys", [1100, 1024])
def test_several_blocks_of_a_chunk(heads, visible, keys):
    """Two blocks go together where all rows see them; a chunk may begin with the second of two."""
    _check(_flash("bfloat16", heads, visible, lengths=((40,), (keys,)), dim_v=32))


# Queries, keys: eight slots that chunks of queries share; a slot each, of a part of the keys.
@pytest.mark.parametrize(
    "heads, visible, lengths",
    [
        ((16, 1), "all", (1600, 30)),
        ((16, 1), "causal", (1600, 90)),
        ((16, 1), "window", (400, 1100)),
        ((3, 1), "window", (400, 1100)),
    ],
)
def test_whole_rows(heads, visible, lengths):
    """Queries that see few keys meet all of them at once."""
    queries, keys = lengths
    _check(_flash("bfloat16", heads, visible, lengths=((queries, 5), (keys, 5)), dim_v=32))


@pytest.mark.parametrize("dims", [(128, 128), (192, 32), (48, 32), (32, 40)])
def test_sizes(dims):
    _check(_flash("bfloat16", (16, 1), dim=dims[0], dim_v=dims[1]))
    _check(_selected("bfloat16", (16, 1), dim=dims[0], dim_v=dims[1]))


@dtypes
@pytest.mark.parametrize("heads", [(8, 1), (16, 1), (32, 2), (32, 1)])
@pytest.mark.parametrize("block", [16, 48, 64, 160])
@pytest.mark.parametrize("repeat", [False, True])
def test_selected(dtype, heads, block, repeat):
    _check(_selected(dtype, heads, block, repeat=repeat))


def _window(dtype, heads):
    return _flash(dtype, heads, "window", lengths=((80,), (1100,)), dim_v=32)


@pytest.mark.parametrize("build", [_flash, _window, _selected])
@pytest.mark.parametrize("name", ["query", "key", "value", "dy", "softmax_max"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number(build, name, value):
    """It reaches what it reached without 16-row tiles; everything else keeps its value."""
    case = build("bfloat16", (16, 1))
    clean = [decode(x) for x in _native.run(case.op, case.inputs, case.attrs)[:3]]
    named = case.named()
    place = {"dy": "attention_out_grad"}.get(name, name) if build is _selected else name
    array = decode(named[place]).copy()
    array[60, 0, 3 if name != "softmax_max" else slice(None)] = value
    dtype = "float32" if name == "softmax_max" else "bfloat16"
    spoilt = Case.of(case.op, {**named, place: encode(array, dtype)}, case.attrs, case.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        ours = [decode(x) for x in _native.run(spoilt.op, spoilt.inputs, spoilt.attrs)[:3]]
        # Float32 has no 16-row tiles.
        floats = [_widened(x) for x in spoilt.inputs]
        others = [decode(x) for x in _native.run(spoilt.op, floats, spoilt.attrs)[:3]]
    for a, b, before in zip(ours, others, clean, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        kept = np.isfinite(b)
        assert kept.any()
        assert np.abs(a[kept] - b[kept]).max() <= 0.02 * np.abs(before).max()


def _widened(x):
    return decode(x).astype(np.float32) if isinstance(x, tuple) else x
