"""Options for trained models: norms of heads, other pairs and angles, shared keys."""

import functools
from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.nn import NSAConfig, RopeScaling, RotaryAngles
from mindspore_nsa.testing.plain import plain_precision
from mindspore_nsa.testing.tolerance import check
from tests.ops.calls import context_mode

from .cells import ENDS, config, differentiated, filled, refer, tokens
from .test_cache import CAPACITY, close, stepper, whole

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
        "beta_fast": 8.0}  # fmt: skip
OPTIONS = {
    "all": dict(qk_norm=True, qk_norm_eps=1e-2, rope_pairs="interleaved", rope_scaling=YARN,
                shared_kv=True, gating="residual"),
    "norms of sets": dict(qk_norm=True, rope_scaling={"type": "linear", "factor": 3}),
    "shared": dict(shared_kv=True),
}  # fmt: skip
CASES = [("sparse", options) for options in OPTIONS] + [("dense", "all")]


@functools.cache
def referred(kind, options, order=None):
    settings = config(**OPTIONS[options])
    _, parameters = filled(kind, settings)
    arithmetic = {} if order is None else {"precision": plain_precision("float32", order)}
    out, dx, grads = refer(
        kind, tokens(settings), parameters, settings, ENDS, tokens(settings, seed=2), **arithmetic
    )
    return {"output": out, "x": dx, **grads}


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("kind, options", CASES)
def test_equals_the_definition(kind, options, mode):
    settings = config(**OPTIONS[options])
    layer, _ = filled(kind, settings)
    with context_mode(mode):
        upstream = Tensor(tokens(settings, seed=2))
        out, dx, grads = differentiated(layer)(Tensor(tokens(settings)), ENDS, upstream)
    expected = referred(kind, options)
    ours = {"output": out, "x": dx, **grads}
    assert ours.keys() == expected.keys()
    for name, x in ours.items():
        assert expected[name].any()
        plain = (referred(kind, options, order)[name] for order in range(5))
        check(f"{kind} {options} {name}", x, expected[name], plain, "float32", nsa=True)


@pytest.mark.parametrize(
    "kind, options, mode",
    [
        *((*case, "pynative") for case in CASES),
        *(
            pytest.param(*case, "graph", marks=() if case[1] == "all" else pytest.mark.soak)
            for case in CASES
        ),
    ],
)
def test_through_a_cache(kind, options, mode):
    """In pieces as in one, and after going back."""
    settings = config(**OPTIONS[options])
    layer, _ = filled(kind, settings)
    x = np.stack([tokens(settings, 140), tokens(settings, 140, seed=3)])
    expected = whole(layer, x)
    cache = layer.new_cache(2, CAPACITY)
    with context_mode(mode):
        step = stepper(layer, mode)
        first = step(Tensor(x[:, :120]), cache).asnumpy()
        close(first, expected[:, :120])
        cache.truncate([100, 110])
        for t in range(3):
            new = Tensor(np.stack([x[0, 100 + t], x[1, 110 + t]])[:, None])
            out = step(new, cache).asnumpy()
            close(out[0, 0], expected[0, 100 + t])
            close(out[1, 0], expected[1, 110 + t])


@pytest.mark.parametrize("dtype, tolerance", [("bfloat16", 5e-2), ("float16", 5e-3)])
def test_mixed_precision(dtype, tolerance):
    layer, _ = filled("sparse", config(**OPTIONS["all"]))
    x = Tensor(tokens(config())[None])
    expected = layer(x).asnumpy()
    narrow, _ = filled("sparse", config(**OPTIONS["all"]))
    narrow = ms.amp.auto_mixed_precision(narrow, "O2", dtype=getattr(ms, dtype))
    close(narrow(x).astype(ms.float32).asnumpy(), expected, tolerance)


def test_a_cache_of_shared_tokens_is_smaller():
    """It has no keys and values of the window, and less than a third of three whole sets."""
    usual = NSAConfig(hidden_size=64, num_heads=8, num_kv_heads=2, head_dim=32)
    layers = [filled("sparse", c)[0] for c in (usual, replace(usual, shared_kv=True))]
    separate, shared = (layer.new_cache(1, 1024).nbytes for layer in layers)
    token = 2 * 2 * 32 * 4
    assert separate - shared >= 512 * token
    others = shared - 1024 * token
    assert others < 0.2 * 1024 * token


def test_caches_of_other_angles_and_sets():
    layer, _ = filled("sparse", config(rope_scaling=YARN))
    made = layer.new_cache(1, CAPACITY)
    x = Tensor(tokens(config(), 3)[None])
    for changes, text in (
        ({}, "rope_factor 1, .*got one for rope_factor 4, "),
        ({"rope_scaling": {**YARN, "factor": 2.0}}, "rope_factor 2, got one for rope_factor 4"),
        ({"rope_scaling": YARN, "shared_kv": True}, "shared_kv 1, got one for shared_kv 0"),
    ):
        other, _ = filled("sparse", config(**changes))
        with pytest.raises(ValueError, match=f"cache must be one made for {text}"):
            other(x, cache=made)
        if changes.get("shared_kv"):
            continue
        with context_mode("graph"), pytest.raises((ValueError, RuntimeError), match=text):
            stepper(other, "graph")(x, made).asnumpy()


def test_angles_of_yarn():
    """Fast pairs turn as ever, slow ones a factor slower; figures worked out by hand."""
    # 64 tokens, 8 pairs, theta 100: pair i makes 64 / (2 pi) * 100^(-i / 8) turns, 10.19 to 0.18.
    scaling = RopeScaling(**YARN)
    found = scaling.frequencies(16, 100.0) / 100.0 ** (-np.arange(8) / 8)
    # 8 turns at pair 0.42, 1 turn at 4.03: a ramp from pair 0 to 5.
    np.testing.assert_allclose(found, [1, 0.85, 0.7, 0.55, 0.4, 0.25, 0.25, 0.25])
    assert scaling.query_key_factor == pytest.approx(0.1 * np.log(4) + 1)
    cos, sin = RotaryAngles(16, 100.0, scaling)(Tensor([7], ms.int32))
    angle = 7 * 0.4 * 100.0**-0.5
    np.testing.assert_allclose(cos[0, 0, [4, 12]].asnumpy(), np.cos(angle), rtol=1e-5)
    np.testing.assert_allclose(sin[0, 0, 12].asnumpy(), np.sin(angle), rtol=1e-5)
    both = {"mscale": 1.0, "mscale_all_dim": 0.5}
    factor = RopeScaling(**YARN, **both).query_key_factor
    assert factor == pytest.approx((0.1 * np.log(4) + 1) / (0.05 * np.log(4) + 1))
    assert RopeScaling(**YARN, attention_factor=1.5).query_key_factor == 1.5
    assert config(rope_scaling={"rope_type": "default"}).rope_scaling is None


@pytest.mark.parametrize(
    "scaling, kind, text",
    [
        (4, TypeError, r"NSAConfig: rope_scaling must be None, a RopeScaling or a dict, got 4"),
        ({"rope_type": "llama3", "factor": 8}, ValueError,
         "RopeScaling: rope_type must be one of linear, yarn, got 'llama3'"),
        ({"factor": 2}, TypeError, "RopeScaling: rope_type must be a str, got None"),
        ({"rope_type": "linear"}, ValueError, "NSAConfig: rope_scaling must have a factor"),
        ({"rope_type": "linear", "factor": 2, "base": 1}, ValueError,
         "NSAConfig: rope_scaling must have no other keys than .*, got base"),
        ({"rope_type": "linear", "factor": 0.5}, ValueError,
         "RopeScaling: factor must be at least 1.0, got 0.5"),
        ({"rope_type": "linear", "factor": True}, TypeError, "RopeScaling: factor must be a float"),
        ({"rope_type": "linear", "factor": 2, "mscale": 1.0}, ValueError,
         "RopeScaling: mscale must be left alone with rope_type linear, got 1.0"),
        ({"rope_type": "yarn", "factor": 2}, TypeError,
         "RopeScaling: original_max_position_embeddings must be an int for yarn, got None"),
        ({**YARN, "original_max_position_embeddings": 0}, ValueError, "must be at least 1, got 0"),
        ({**YARN, "beta_slow": 9.0}, ValueError,
         r"RopeScaling: beta_fast must be greater than beta_slow \(9.0\), got 8.0"),
        ({**YARN, "mscale": 1.0}, ValueError, "mscale must be given with mscale_all_dim"),
        ({**YARN, "truncate": 1}, TypeError, "RopeScaling: truncate must be a bool, got 1"),
    ],
)  # fmt: skip
def test_refused_scalings(scaling, kind, text):
    with pytest.raises(kind, match=text):
        config(rope_scaling=scaling)


def test_a_base_without_wavelengths():
    with pytest.raises(ValueError, match="NSAConfig: rope_theta must be greater than 1 with YaRN"):
        config(rope_scaling=YARN, rope_theta=1.0)
