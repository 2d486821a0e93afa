"""Every field of the configuration: what it changes, and which values it refuses."""

import dataclasses
import functools

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.nn import NSAConfig
from tests.common.layers import SMALL
from tests.ops.calls import context_mode

from .cells import ENDS, KINDS, config, filled, refer, tokens

# For every field another value, and whether the dense layers depend on it too.
OTHER = {
    "hidden_size": (10, KINDS),
    "num_heads": (2, KINDS),
    "num_kv_heads": (1, KINDS),
    "head_dim": (4, KINDS),
    "value_head_dim": (8, KINDS),
    "compress_block_size": (4, ("sparse",)),
    "compress_stride": (8, ("sparse",)),
    "select_block_size": (16, ("sparse",)),
    "select_block_count": (2, ("sparse",)),
    "init_blocks": (0, ("sparse",)),
    "local_blocks": (2, ("sparse",)),
    "window_size": (3, ("sparse", "window")),
    "importance": ("cann", ("sparse",)),
    "rope_theta": (20.0, KINDS),
    "rope_pairs": ("interleaved", KINDS),
    "rope_scaling": ({"rope_type": "linear", "factor": 2.0}, KINDS),
    "qk_norm": (True, KINDS),
    "shared_kv": (True, ("sparse",)),
    "gating": ("residual", ("sparse",)),
    "has_bias": (True, KINDS),
}
ELSEWHERE = {"qk_norm_eps", "dropout", "param_dtype"}


def test_every_field_is_here():
    assert {f.name for f in dataclasses.fields(NSAConfig)} == OTHER.keys() | ELSEWHERE


@functools.cache
def output(kind, settings):
    """Outputs of the layer and of the definition."""
    layer, parameters = filled(kind, settings)
    x = tokens(settings)
    return layer(Tensor(x), ENDS).asnumpy(), refer(kind, x, parameters, settings, ENDS, x)[0]


@pytest.mark.parametrize("kind", ["sparse", "window"])
@pytest.mark.parametrize("field", OTHER)
def test_field(field, kind):
    """The output is that of the definition, and differs where the field concerns the layer."""
    value, kinds = OTHER[field]
    ours, expected = output(kind, config(**{field: value}))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    usual = output(kind, config())[0]
    same = ours.shape == usual.shape and np.array_equal(ours, usual)
    assert same == (kind not in kinds)


@pytest.mark.parametrize(
    "kind, mode", [("sparse", "pynative"), ("dense", "pynative"), ("dense", "graph")]
)
def test_dropout(kind, mode):
    """In training, elements of the output are 0 or larger by 1 / (1 - p); otherwise none."""
    layer, _ = filled(kind, config(dropout=0.25))
    x = Tensor(tokens(config(), 2000)[None])
    with context_mode(mode):
        full = layer.set_train(False)(x).asnumpy()
        usual, _ = filled(kind, config())
        np.testing.assert_array_equal(full, usual(x).asnumpy())
        dropped = layer.set_train(True)(x).asnumpy()
    kept = dropped != 0
    assert abs(kept.mean() - 0.75) < 0.02
    np.testing.assert_allclose(dropped[kept], full[kept] / 0.75, rtol=1e-6)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_param_dtype(kind, name):
    for given in (name, getattr(ms, name)):
        settings = config(param_dtype=given, has_bias=True)
        assert settings.param_dtype == name
        layer, parameters = filled(kind, settings)
        assert all(p.dtype == getattr(ms, name) for p in layer.get_parameters())
        x = Tensor(tokens(settings)).astype(getattr(ms, name))
        out = layer(x, ENDS)
        assert out.dtype == x.dtype
        x = x.astype(ms.float32).asnumpy()
        expected = refer(kind, x, parameters, settings, ENDS, x)[0]
        error = np.abs(out.astype(ms.float32).asnumpy() - expected).max() / np.abs(expected).max()
        assert error < {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}[name]


def test_defaults_are_the_paper_s():
    settings = NSAConfig(hidden_size=2560, num_heads=64, num_kv_heads=4, head_dim=192,
                         value_head_dim=128)  # fmt: skip
    values = dataclasses.asdict(settings)
    expected = {
        "compress_block_size": 32,
        "compress_stride": 16,
        "select_block_size": 64,
        "select_block_count": 16,
        "init_blocks": 1,
        "local_blocks": 2,
        "window_size": 512,
        "importance": "overlap",
    }
    assert {name: values[name] for name in expected} == expected
    # The paper says nothing about these; parameters of a model that was trained go with them.
    others = {"rope_theta": 10000.0, "has_bias": False, "dropout": 0.0, "param_dtype": "float32"}
    assert {name: values[name] for name in others} == others
    assert NSAConfig(64, 4, 2, 16).value_head_dim == 16


def test_the_largest_theta():
    largest = float(np.finfo(np.float32).max)
    assert config(rope_theta=largest).rope_theta == largest


def test_frozen_and_copied():
    settings = config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.num_heads = 8
    assert dataclasses.replace(settings, window_size=4).window_size == 4
    with pytest.raises(ValueError, match="window_size"):
        dataclasses.replace(settings, window_size=0)


INTS = [f.name for f in dataclasses.fields(NSAConfig) if f.type in (int, int | None)]


@pytest.mark.parametrize("field", INTS)
@pytest.mark.parametrize("value", [1.5, "4", True])
def test_an_int_is_expected(field, value):
    with pytest.raises(
        TypeError,
        match=f"^NSAConfig: {field} must be an int, got {value!r} .{type(value).__name__}.$",
    ):
        NSAConfig(**{**SMALL, field: value})


@pytest.mark.parametrize("field", INTS)
def test_too_small(field):
    lowest = 0 if field in ("init_blocks", "local_blocks") else 2 if field == "head_dim" else 1
    expected = f"^NSAConfig: {field} must be at least {lowest}, got {lowest - 1} "
    with pytest.raises(ValueError, match=expected):
        NSAConfig(**{**SMALL, field: lowest - 1})


@pytest.mark.parametrize(
    "changes, kind, text",
    [
        ({"num_heads": 3}, ValueError,
         r"num_heads must be a multiple of num_kv_heads \(2\), got 3"),
        ({"head_dim": 7}, ValueError, "head_dim must be even, because rotation takes pairs, got 7"),
        ({"compress_block_size": 6}, ValueError,
         r"compress_block_size must be a multiple of compress_stride \(4\), got 6"),
        ({"select_block_size": 10}, ValueError,
         r"select_block_size must be a multiple of compress_stride \(4\), got 10"),
        ({"select_block_size": 4}, ValueError,
         r"select_block_size must be at least compress_block_size \(8\), got 4"),
        ({"init_blocks": 3}, ValueError,
         r"init_blocks \+ local_blocks must be at most select_block_count \(3\), got 4"),
        ({"importance": "sum"}, ValueError, "importance must be one of overlap, cann, got 'sum'"),
        ({"importance": 1}, TypeError, r"importance must be a str, got 1 \(int\)"),
        ({"rope_theta": 0}, ValueError, "rope_theta must be positive and finite in float32, got 0"),
        ({"rope_theta": float("inf")}, ValueError, "rope_theta must be positive and finite"),
        ({"rope_theta": 3.5e38}, ValueError, "rope_theta must be positive and finite in float32"),
        ({"rope_theta": float("nan")}, ValueError, "rope_theta must be positive and finite"),
        ({"rope_theta": "big"}, TypeError, "rope_theta must be a float, got 'big'"),
        ({"rope_theta": 10**400}, ValueError, "rope_theta must be within the range of a float"),
        ({"rope_theta": np.complex64(5 + 1j)}, TypeError, "rope_theta must be a float"),
        ({"dropout": float("nan")}, ValueError, r"dropout must be in \[0, 1\), got nan"),
        ({"dropout": 1.0}, ValueError, r"dropout must be in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, ValueError, r"dropout must be in \[0, 1\), got -0.1"),
        ({"dropout": True}, TypeError, "dropout must be a float, got True"),
        ({"qk_norm": 1}, TypeError, "qk_norm must be a bool, got 1"),
        ({"qk_norm_eps": 0.0}, ValueError, "qk_norm_eps must be positive and finite in float32"),
        ({"shared_kv": "yes"}, TypeError, "shared_kv must be a bool, got 'yes'"),
        ({"gating": "softmax"}, ValueError, "gating must be one of sigmoid, residual, got 'softm"),
        ({"rope_pairs": "all"}, ValueError, "rope_pairs must be one of half, interleaved, got 'al"),
        ({"has_bias": 1}, TypeError, "has_bias must be a bool, got 1"),
        ({"param_dtype": "float64"}, ValueError,
         "param_dtype must be one of float32, float16, bfloat16, got 'float64'"),
        ({"param_dtype": ms.int32}, ValueError, "param_dtype must be one of .*, got 'int32'"),
        ({"param_dtype": 32}, TypeError, "param_dtype must be a str or a dtype, got 32"),
    ],
)  # fmt: skip
def test_refused(changes, kind, text):
    with pytest.raises(kind, match=f"^NSAConfig: {text}"):
        NSAConfig(**{**SMALL, **changes})
