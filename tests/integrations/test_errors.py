"""Errors of the adapters where no framework is installed, and their arithmetic of weights."""

import importlib
import re
import sys
import types

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint

from mindspore_nsa import integrations
from mindspore_nsa.integrations import _mindformers_cpu, _mint

FRAMEWORKS = ("mindformers", "mindone")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_without_the_framework(name):
    """Nothing is imported before a function needs it, and the error names package and version."""
    adapter = getattr(integrations, name)
    if importlib.util.find_spec(name):
        pytest.skip(f"{name} is installed")
    assert name not in sys.modules
    text = f"^mindspore_nsa.integrations.{name}.convert_attention needs {name} .*got not installed"
    with pytest.raises(ImportError, match=text):
        adapter.convert_attention(None)
    with pytest.raises(ImportError, match=f"register needs {name} "):
        adapter.register()
    with pytest.raises(TypeError, match="register: name must be a str, got 3"):
        adapter.register(3)


def test_serve_cpu_needs_its_version(monkeypatch):
    adapter = integrations.mindformers
    for version in ("2.0.0", "not installed"):
        monkeypatch.setattr(_mindformers_cpu, "version_of", lambda package: version)  # noqa: B023
        with pytest.raises(ImportError, match=f"serve_cpu needs mindformers 2.1.0, got {version}"):
            adapter.serve_cpu()
    split, found = mint.split, list(sys.meta_path)
    monkeypatch.setattr(_mindformers_cpu, "version_of", lambda package: "2.1.0")
    monkeypatch.setattr(_mindformers_cpu.mindspore, "get_context", lambda name: "Ascend")
    with pytest.raises(RuntimeError, match="device_target must be CPU.*got Ascend"):
        adapter.serve_cpu()
    adapter.stop_serving_cpu()
    assert mint.split is split and sys.meta_path == found


def test_stop_serving_cpu_drops_modules_from_their_packages(monkeypatch):
    """`from mindformers import pynative` would give the module with served names otherwise."""
    monkeypatch.setattr(_mindformers_cpu, "version_of", lambda package: "2.1.0")
    made = {name: types.ModuleType(name) for name in ("mindformers", "mindformers.pynative")}
    made["mindformers"].pynative = made["mindformers.pynative"]
    split, full = mint.split, vars(mint)["full"]
    integrations.mindformers.serve_cpu()
    try:
        assert mint.split is _mint.split
        for name, module in made.items():
            monkeypatch.setitem(sys.modules, name, module)
    finally:
        integrations.mindformers.stop_serving_cpu()
    assert (mint.split, mint.full) == (split, full)
    assert "mindformers.pynative" not in sys.modules
    assert not hasattr(made["mindformers"], "pynative")


def test_served_functions_of_numbers_and_dimensions():
    """They do what MindSpore says, also where MindFormers asks for less today."""
    halves = _mint.arange(0.5, 2.5, 0.5)
    assert halves.dtype == ms.float32 and halves.tolist() == [0.5, 1.0, 1.5, 2.0]
    whole = _mint.arange(Tensor(1), Tensor(4))
    assert whole.dtype == ms.int64 and whole.tolist() == [1, 2, 3]
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    values, places = _mint.topk(Tensor(x), 2, 1)
    order = np.argsort(-x, 1, "stable")[:, :2]
    np.testing.assert_array_equal(places.asnumpy(), order)
    np.testing.assert_array_equal(values.asnumpy(), np.take_along_axis(x, order, 1))
    rows = x - x.mean((1, 2), keepdims=True)
    want = rows / np.sqrt((rows**2).mean((1, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(_mint.layer_norm(Tensor(x), (4, 5)).asnumpy(), want, atol=1e-5)
    by_size, by_shape = _mint.layer_norm(Tensor(x), 5), _mint.layer_norm(Tensor(x), (5,))
    np.testing.assert_array_equal(by_size.asnumpy(), by_shape.asnumpy())
    want = x / np.sqrt((x**2).mean((1, 2), keepdims=True) + 1e-6)
    ones = ms.ops.ones((4, 5))
    np.testing.assert_allclose(_mint.rms_norm(Tensor(x), ones)[0].asnumpy(), want, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_served_functions_write_in_place(dtype):
    """Through views, too, as MindFormers clears its losses; MindSpore refuses those of bfloat16."""
    x = Tensor(np.ones((3, 4), np.float32)).astype(getattr(ms, dtype))
    written = [x, ms.Parameter(x, name="p")]
    if dtype == "float32":
        written += [x[0], x[1]]
    for tensor in written:
        assert _mint.fill_(tensor, 2) is tensor and (tensor.float().asnumpy() == 2).all()
        assert (_mint.mul_(tensor, 3).float().asnumpy() == 6).all()
        drawn = _mint.normal_(tensor, 5.0, 0.1).float().asnumpy()
        assert (np.abs(drawn - 5) < 1).all() and drawn.std() > 0
        assert (_mint.zero_(tensor).float().asnumpy() == 0).all()
    if dtype == "float32":
        losses = Tensor(np.arange(1, 4, dtype=np.float32))
        for loss in losses:
            _mint.zero_(loss)
        assert losses.asnumpy().tolist() == [0, 0, 0]


def test_served_masks_have_gradients():
    x = Tensor(np.arange(1, 10, dtype=np.float32).reshape(3, 3))
    below, index = np.tri(3, dtype=np.float32), Tensor([[0], [2], [1]])
    functions = (
        (_mint.tril, below),
        (lambda x: _mint.triu(x, 1), 1 - below),
        (lambda x: _mint.scatter(x, 1, index, 0), 1 - np.eye(3, dtype=np.float32)[[0, 2, 1]]),
    )
    for function, mask in functions:
        np.testing.assert_array_equal(function(x).asnumpy(), x.asnumpy() * mask)
        slopes = ms.grad(lambda x, f=function: (f(x) * x).sum())(x)
        np.testing.assert_array_equal(slopes.asnumpy(), 2 * x.asnumpy() * mask)
        rounded = function(x.astype(ms.bfloat16))
        assert rounded.dtype == ms.bfloat16
        np.testing.assert_array_equal(rounded.float().asnumpy(), x.asnumpy() * mask)
    for x in (Tensor(np.ones((2, 2), bool)), Tensor(np.ones((2, 2), np.int32))):
        assert _mint.tril(x).dtype == x.dtype and _mint.tril(x).asnumpy().sum() == 3


@pytest.mark.parametrize("name, what", [
    ("mindformers", "a model of MindFormers with a GPTModel"),
    ("mindone", "a decoder of mindone.transformers"),
])  # fmt: skip
def test_no_model_of_the_framework(name, what, monkeypatch):
    adapter = getattr(integrations, name)
    monkeypatch.setattr(adapter, "framework", lambda *_: None)
    text = re.escape(f"{name}.convert_attention: model must be {what}, got 3")
    with pytest.raises(TypeError, match=text):
        adapter.convert_attention(3)


def test_names():
    assert set(FRAMEWORKS) <= set(dir(integrations))
    with pytest.raises(AttributeError, match="no attribute 'torch'"):
        integrations.torch  # noqa: B018


@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize("rest", [(5,), ()], ids=["weight", "bias"])
def test_rows_of_linear_qkv(rest, contiguous):
    """Rows say which head they are of; there and back is the same."""
    adapter = integrations.mindformers
    heads, kv_heads, dim = 4, 2, 3
    sizes = (heads, kv_heads, dim, contiguous)
    rows = [f"q{h}" for h in range(heads)] + [f"{p}{h}" for p in "kv" for h in range(kv_heads)]
    order = rows if contiguous else ["q0", "q1", "k0", "v0", "q2", "q3", "k1", "v1"]
    numbers = np.array([rows.index(name) for name in order], np.float32).repeat(dim)
    joint = np.broadcast_to(numbers.reshape(-1, *[1] * len(rest)), (len(numbers), *rest)).copy()
    query, key_value = adapter.split_qkv(Tensor(joint), *sizes)
    flat = np.concatenate((query, key_value)).reshape(len(numbers), -1)[:, 0]
    np.testing.assert_array_equal(flat, np.arange(8).repeat(dim))
    np.testing.assert_array_equal(adapter.join_qkv(query, Tensor(key_value), *sizes), joint)
    with pytest.raises(ValueError, match="join_qkv: key_value must have 12 rows, .* got 36"):
        adapter.join_qkv(query, np.concatenate([key_value] * 3), *sizes)


# A value of every field of MindFormers' configuration that the layers do not stand for.
REFUSED = {
    "multi_latent_attention": (True, "multi-latent attention"),
    "rotary_interleaved": (True, "interleaved rotary pairs"),
    "position_embedding_type": ("yarn", "position embeddings other than rope"),
    "use_rope_scaling": (True, "scaled rotary embeddings"),
    "rope_scaling": ({"factor": 2}, "scaled rotary embeddings"),
    "rotary_seq_len_interpolation_factor": (2.0, "scaled rotary embeddings"),
    "partial_rotary_factor": (0.5, "a part of the head rotated"),
    "nope_layer_interval": (2, "layers without positions"),
    "window_size": ((32, 0), "sliding windows"),
    "attention_dropout": (0.1, "dropout of attention weights"),
    "use_alibi_mask": (True, "biases of positions"),
    "softmax_scale": (0.1, "a scale of scores of its own"),
    "track_max_attention_logit": (True, "its largest scores tracked"),
    "apply_query_key_layer_scaling": (True, "scores scaled by the layer's number"),
    "rotary_cos_format": ("interleave", "another order of rotary pairs"),
    "use_rotary_position_ids": (True, "positions that its batches give"),
    "use_ring_attention": (True, "ring attention"),
    "seq_split_num": (2, "texts in parts"),
    "tensor_model_parallel_size": (2, "tensor parallelism by MindFormers' sharding"),
    "context_parallel_size": (2, "context parallelism by MindFormers' sharding"),
}


@pytest.mark.parametrize("field", REFUSED)
def test_refused_configurations(field):
    """The error says what the model has, in the words of its configuration."""
    adapter = integrations.mindformers
    assert set(REFUSED) == {name for name, *_ in adapter._ONLY}
    sizes = {
        **{"hidden_size": 64, "num_attention_heads": 4, "num_query_groups": 2},
        **{"kv_channels": 16, "rotary_base": 10000, "params_dtype": "float32"},
        **{"add_bias_linear": False, "add_qkv_bias": True, "layernorm_epsilon": 1e-6},
    }
    assert adapter.nsa_config(types.SimpleNamespace(**sizes)).has_bias
    value, what = REFUSED[field]
    text = re.escape(f"a model with {what}") + ".*" + re.escape(f", got {field} {value}")
    with pytest.raises(ValueError, match=text):
        adapter.nsa_config(types.SimpleNamespace(**sizes, **{field: value}))


@pytest.fixture
def registry(monkeypatch):
    """The registry of MindFormers' PyNative part, which PyPI's packages cannot import."""

    class Variants(dict):
        """Builders by name."""

    variants, adapter = Variants(), integrations.mindformers

    def register_attention_variant(name):
        assert name not in variants
        return lambda builder: variants.setdefault(name, builder)

    class ModuleSpec:
        def __init__(self, module, params):
            self.module, self.params = module, params

    parts = {
        "register_attention_variant": register_attention_variant,
        "ModuleSpec": ModuleSpec,
    }
    modules = [types.SimpleNamespace(**parts)]
    monkeypatch.setattr(adapter, "framework", lambda *_: modules[-1])
    monkeypatch.setattr(adapter, "_registered", {})

    def import_again():
        variants.clear()
        modules.append(types.SimpleNamespace(**parts))

    variants.import_again = import_again
    return variants


def test_register(registry):
    """Once or again with equal sizes; norms as MindFormers says."""
    adapter = integrations.mindformers
    assert adapter.register(window_size=64) == "nsa"
    adapter.register(window_size=64)
    with pytest.raises(ValueError, match="name must not be 'nsa' again with other sizes"):
        adapter.register(window_size=32)
    spec = registry["nsa"](qk_layernorm=True, fused_norm=False, normalization="RMSNorm")
    assert spec.module is adapter.NSASelfAttention
    assert spec.params == {"qk_norm": True, "window_size": 64}
    with pytest.raises(ValueError, match="norms of queries and keys other than RMSNorm"):
        registry["nsa"](True, False, "LayerNorm")
    with pytest.raises(TypeError, match="unknown sizes windows"):
        adapter.register("other", windows=1)
    # The modules that `stop_serving_cpu` dropped come back with an empty registry.
    registry.import_again()
    assert adapter.register(window_size=32) == "nsa"
    assert registry["nsa"]().params == {"qk_norm": False, "window_size": 32}
