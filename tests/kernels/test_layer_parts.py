"""The layers' own arithmetic against NumPy: odd sizes, dtypes, threads, instruction sets."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import decode, encode
from tests.common.tiles import around, tile

DTYPES = ("float32", "float16", "bfloat16")
# (tokens, query heads, key heads, head_dim, value_head_dim)
SIZES = [(1, 1, 1, 2, 1), (97, 4, 2, 40, 24), (33, 3, 3, 6, 130), (260, 16, 1, 128, 128)]
KERNEL = "cpu/linear/nsa_linear_kernel.h"
# Rows of x, columns of the weight and rows of it, at the ends of what is taken at once.
LINEAR = list(
    zip(
        [*around(tile("kLinearTokens", KERNEL)), 2 * tile("kLinearTokens", KERNEL) + 1],
        [*around(tile("kLinearStep", KERNEL)), 2 * tile("kLinearStep", KERNEL) + 1],
        [*around(tile("kLinearRows", "cpu/linear/nsa_linear.h")), 9],
        strict=True,
    )
)
# Relative error of a rounding to the dtype; for float32 of a few operations.
UNIT = {"float32": 4e-7, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def run(op, inputs, attrs=None):
    """The outputs, which are the same bits for any number of threads."""
    found = [_native.run(op, inputs, attrs or {}, num_threads=threads) for threads in (1, 2, 5)]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(decode(a), decode(b))
    return [decode(x).astype(np.float64) for x in found[0]]


def near(ours, expected, dtype):
    assert ours.shape == expected.shape
    bound = UNIT[dtype] * max(np.abs(expected).max(), 1e-3)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1.01 * bound)


def angles(rng, tokens, dim):
    """Angles as the layer computes them: the sines of the first half are negative."""
    angle = rng.uniform(0, 6.3, (tokens, 1, dim // 2))
    sin = np.concatenate((-np.sin(angle), np.sin(angle)), -1)
    return np.tile(np.cos(angle), 2).astype(np.float32), sin.astype(np.float32)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + np.concatenate((x[..., half:], x[..., :half]), -1) * sin.astype(np.float64)


def sizes_of(branches, size):
    names = ("branches", "head_num", "kv_head_num", "head_dim", "value_head_dim")
    return dict(zip(names, (branches, *size[1:]), strict=True))


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_split_heads(isa, dtype, size, branches):
    tokens, heads, kv_heads, dim, value_dim = size
    rng = np.random.default_rng(1)
    keys = branches * kv_heads * dim
    query = rng.standard_normal((tokens, heads * dim), np.float32)
    both = rng.standard_normal((tokens, keys + branches * kv_heads * value_dim), np.float32)
    cos, sin = angles(rng, tokens, dim)
    attrs = {**sizes_of(branches, size), "dtype": dtype}
    outputs = run("NsaSplitHeads", [query, both, cos, sin], attrs)

    expected = rotated(query.reshape(tokens, heads, dim), cos, sin)
    all_keys = both[:, :keys].reshape(tokens, branches, kv_heads, dim)
    all_values = both[:, keys:].reshape(tokens, branches, kv_heads, value_dim)
    for branch in range(3):
        q, k, v = outputs[branch::3]
        if branch >= branches:
            assert all(x.shape == (1,) and not x.any() for x in (q, k, v))
            continue
        near(q, expected, dtype)
        key = all_keys[:, branch]
        near(k, rotated(key, cos, sin) if branches == 1 or branch > 0 else key, dtype)
        near(v, all_values[:, branch], dtype)


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_of_split_heads(isa, dtype, size, branches):
    """The rotation back, of the sum of the three gradients of the queries."""
    tokens, heads, kv_heads, dim, value_dim = size
    rng = np.random.default_rng(2)
    shapes = ((tokens, heads, dim), (tokens, kv_heads, dim), (tokens, kv_heads, value_dim))
    drawn = [
        encode(rng.standard_normal(shape, np.float32), dtype) if branch < branches else None
        for shape in shapes
        for branch in range(3)
    ]
    cos, sin = angles(rng, tokens, dim)
    attrs = sizes_of(branches, size)
    dq, dkv = run("NsaSplitHeadsGrad", [*drawn, cos, sin], attrs)

    dy = [None if x is None else decode(x).astype(np.float64) for x in drawn]
    queries = sum(x for x in dy[:3] if x is not None)
    near(dq, rotated(queries, cos, -sin).reshape(tokens, -1), "float32")
    columns = [
        (rotated(x, cos, -sin) if branches == 1 or branch > 0 else x).reshape(tokens, -1)
        for branch, x in enumerate(dy[3:6])
        if x is not None
    ]
    columns += [x.reshape(tokens, -1) for x in dy[6:] if x is not None]
    near(dkv, np.concatenate(columns, 1), "float32")


def gates_case(dtype, size, residual=False):
    tokens, heads, _, _, dim = size
    rng = np.random.default_rng(3)
    logits = 3 * rng.standard_normal((tokens, 3 * heads), np.float32)
    shape = (tokens, heads, dim)
    branches = [encode(rng.standard_normal(shape, np.float32), dtype) for _ in range(3)]
    sigmoid = 1 / (1 + np.exp(-logits.astype(np.float64).reshape(tokens, 3, heads, 1)))
    gates, slopes = sigmoid, sigmoid * (1 - sigmoid)
    if residual:
        gates, slopes = 2 * sigmoid - [[[1]], [[0]], [[1]]], 2 * slopes
    values = np.stack([decode(x) for x in branches], 1).astype(np.float64)
    return rng, logits, branches, gates, slopes, values


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("residual", [False, True])
def test_mix_branches(isa, dtype, size, residual):
    _, logits, branches, gates, _, values = gates_case(dtype, size, residual)
    (mixed,) = run("NsaMixBranches", [logits, *branches], {"residual": residual})
    near(mixed, (gates * values).sum(1), dtype)
    # Numbers of the dtype, so that a product may take them as they are.
    again = decode(encode(mixed.astype(np.float32), dtype))
    np.testing.assert_array_equal(again, mixed)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("residual", [False, True])
def test_gradient_of_mix_branches(isa, dtype, size, residual):
    rng, logits, branches, gates, steep, values = gates_case(dtype, size, residual)
    dy = rng.standard_normal(values[:, 0].shape, np.float32)
    attrs = {"residual": residual}
    dlogits, *slopes = run("NsaMixBranchesGrad", [dy, logits, *branches], attrs)
    dots = (dy.astype(np.float64)[:, None] * values).sum(-1)
    expected = dots * steep[..., 0]
    np.testing.assert_allclose(
        dlogits, expected.reshape(logits.shape), rtol=0, atol=1e-5 * np.abs(expected).max()
    )
    for branch, slope in enumerate(slopes):
        near(slope, gates[:, branch] * dy, dtype)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (9001,)], ids=str)
def test_round(isa, dtype, shape):
    """Bit for bit a cast and back, also of what is no number."""
    x = np.random.default_rng(4).standard_normal(shape, np.float32) * 300
    x.reshape(-1)[:3] = [np.inf, -np.inf, 70000.0][: x.size]
    (rounded,) = run("NsaRound", [x], {"dtype": dtype})
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(rounded, decode(encode(x, dtype)))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 40, 33), *LINEAR], ids=str)
@pytest.mark.parametrize("weight_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear(isa, dtype, weight_dtype, sizes):
    """The map with the weight rounded beforehand; the same bits for any number of threads."""
    rows, inner, outer = sizes
    rng = np.random.default_rng(5)
    x = rng.standard_normal((rows, inner), np.float32)
    weight = encode(rng.standard_normal((outer, inner), np.float32), weight_dtype)
    (y,) = run("NsaLinear", [x, weight], {"dtype": dtype})
    values = decode(encode(decode(weight).astype(np.float32), dtype)).astype(np.float64)
    expected = x.astype(np.float64) @ values.T
    bound = np.abs(x).astype(np.float64) @ np.abs(values).T
    assert y.shape == (rows, outer) and (np.abs(y - expected) <= 2e-6 * bound).all()


def test_wrong_linear_calls():
    x = np.zeros((4, 8), np.float32)
    with pytest.raises(ValueError, match="nsa_linear: weight"):
        _native.run("NsaLinear", [x, x[:, :7].copy()], {"dtype": "float32"})
    with pytest.raises(ValueError, match="nsa_linear: dtype"):
        _native.run("NsaLinear", [x, x], {"dtype": "float64"})


def test_wrong_calls():
    x = np.zeros((4, 8), np.float32)
    angle = np.zeros((4, 1, 8), np.float32)
    attrs = {**sizes_of(2, (4, 1, 1, 8, 8)), "dtype": "float32"}
    with pytest.raises(ValueError, match="nsa_split_heads: branches must be 1 or 3, got 2"):
        _native.run("NsaSplitHeads", [x, x, angle, angle], attrs)
    with pytest.raises(ValueError, match="nsa_split_heads: key_value"):
        _native.run("NsaSplitHeads", [x, x, angle, angle], {**attrs, "branches": 3})
    with pytest.raises(ValueError, match="nsa_round: dtype"):
        _native.run("NsaRound", [x], {"dtype": "float32"})
