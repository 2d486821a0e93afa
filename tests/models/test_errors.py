"""Wrong configurations and calls are refused with a sentence."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from mindspore_nsa import models

from .small import HIDDEN, KINDS, layer_of, text_of

YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
# Kind, fields, text of the error.
FIELDS = [
    ("deepseek_v32", {"model_type": "glm_moe_dsa"}, "model_type must be one of deepseek_v32, got"),
    ("deepseek_v32", {"attention_dropout": 0.1}, "attention_dropout must be 0, because"),
    ("deepseek_v32", {"num_key_value_heads": 2}, "num_key_value_heads must be num_attention_heads"),
    ("deepseek_v32", {"rope_parameters": {"rope_type": "dynamic"}}, "rope_type must be default"),
    ("deepseek_v32", {"rope_parameters": YARN}, "YaRN needs original_max_position_embeddings"),
    ("deepseek_v32", {"qk_rope_head_dim": 7}, "must be an even number, got 7"),
    ("deepseek_v32", {"index_head_dim": 6}, "index_head_dim must be at least the 8 dimensions"),
    ("glm_moe_dsa", {"indexer_types": ["half"]}, "indexer_types must be full or shared"),
    ("glm_moe_dsa", {"indexer_types": []}, "indexer_types must be a list of at least 1 entries"),
    ("minimax_m3", {"index_n_heads": 3}, "index_n_heads must be a divisor of num_key_value_heads"),
    ("minimax_m3", {"index_head_dim": 8}, "index_head_dim must be at least the 16 dimensions"),
    ("minimax_m3", {"index_local_blocks": 3}, "index_local_blocks must be in"),
    ("minimax_m3", {"layer_types": ["linear"]}, "layer_types must be minimax_m3_sparse or"),
    ("minimax_m3", {"num_key_value_heads": 3}, "a divisor of num_attention_heads, got 3"),
    ("qwen4_exp", {"indexer_kv_heads": 2}, "indexer_kv_heads must be 1, got 2"),
    ("qwen4_exp", {"indexer_budget": 7}, "indexer_budget must be a multiple of"),
    ("qwen4_exp", {"indexer_budget": None}, "config must have the field indexer_budget"),
    ("qwen4_exp", {"layer_types": ["linear_attention"]}, "layer_types must be indexed_attention"),
    ("glm5_next", {"qk_rope_head_dim": 8}, "qk_rope_head_dim must be 0, got 8"),
    ("glm5_next", {"index_topk": 7}, "index_topk must be a multiple of index_kpool, got 7"),
    ("v4_csa", {"num_key_value_heads": 2}, "num_key_value_heads must be 1, got 2"),
    ("v4_csa", {"o_groups": 3}, "o_groups must be a divisor of num_attention_heads"),
    ("v4_csa", {"layer_types": ["full"] * 3}, "layer_types must be one of sliding_attention"),
]


@pytest.mark.parametrize("kind, fields, text", FIELDS)
def test_fields_that_are_not_served(kind, fields, text):
    with pytest.raises(ValueError, match=f"^{KINDS[kind][0].__name__}: .*{text}"):
        layer_of(kind, **fields)


def test_configurations():
    with pytest.raises(TypeError, match="config must be a dict or an object with to_dict"):
        models.DeepseekV32Attention(3, 0)
    with pytest.raises(TypeError, match="layer_idx must be an int"):
        models.DeepseekV32Attention({}, "0")
    with pytest.raises(ValueError, match=r"layer_idx must be in \[0, 2\), got 2"):
        models.DeepseekV32Attention({"num_hidden_layers": 2}, 2)


X = text_of(1, 6)
PICKS = np.zeros((1, 6, 2), np.int32)
# Kind, arguments, error, text.
CALLS = [
    ("deepseek_v32", {"topk_indices": PICKS.astype(np.int64)}, TypeError, "int32, got int64"),
    ("deepseek_v32", {"topk_indices": PICKS[:, 1:]}, ValueError, r"of shape \(B, S, k\)"),
    ("minimax_m3", {"topk_indices": PICKS}, ValueError, r"of shape \(B, S, 2, k\)"),
    ("v4_hca", {"topk_indices": PICKS}, ValueError, "this layer picks nothing"),
    ("v4_hca", {"return_indices": True}, ValueError, "return_indices must be False"),
    ("v4_hca", {"stage": "sparse"}, ValueError, "this layer has no KL loss"),
    ("deepseek_v32", {"stage": "both"}, ValueError, "one of dense, sparse, recall or None"),
    ("deepseek_v32", {"stage": "sparse", "key_padding_mask": np.zeros((1, 6), bool)}, ValueError,
     "stage must be None with a cache or a key_padding_mask"),
    ("deepseek_v32", {"key_padding_mask": np.eye(6, dtype=bool)[1:2]}, ValueError, "only before"),
]  # fmt: skip


@pytest.mark.parametrize("kind, arguments, error, text", CALLS)
def test_wrong_calls(kind, arguments, error, text):
    layer = layer_of(kind)
    given = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    with pytest.raises(error, match=f"^{layer.name}: .*{text}"):
        layer(Tensor(X), **given)
    layer(Tensor(X))


def test_a_shared_layer_needs_picks():
    layer = layer_of("glm_moe_dsa", indexer_types=["shared"])
    with pytest.raises(ValueError, match="topk_indices must be those of the layer before"):
        layer(Tensor(X))


def test_wrong_inputs():
    layer = layer_of("v4_csa")
    with pytest.raises(TypeError, match="x must be of dtype float16, bfloat16 or float32"):
        layer(Tensor(X.astype(np.int32)))
    with pytest.raises(ValueError, match=rf"x must be of shape \[B, S, {HIDDEN}\]"):
        layer(Tensor(X[..., 1:]))
    with pytest.raises(ValueError, match="actual_seq_len must be given for packed x"):
        layer(Tensor(X[0]))


def test_wrong_caches():
    layer, other = layer_of("v4_csa"), layer_of("deepseek_v32")
    with pytest.raises(TypeError, match="new_cache: max_length must be an int"):
        layer.new_cache(1, 2.0)
    with pytest.raises(ValueError, match="new_cache: batch must be at least 1, got 0"):
        layer.new_cache(0, 2)
    with pytest.raises(ValueError, match="cache must be one of a layer of the same sizes"):
        layer(Tensor(X), cache=other.new_cache(1, 8))
    with pytest.raises(TypeError, match="cache must be what new_cache gives"):
        layer(Tensor(X), cache=(1, 2))
    with pytest.raises(ValueError, match="x must have 2 rows or documents"):
        layer(Tensor(X), cache=layer.new_cache(2, 8))
    cache = layer.new_cache(1, 8)
    want = layer(Tensor(X), cache=cache).asnumpy()
    with pytest.raises(ValueError, match="its capacity is 8, got 12 tokens in row 0"):
        layer(Tensor(X), cache=cache)
    cache.reset()
    np.testing.assert_array_equal(layer(Tensor(X), cache=cache).asnumpy(), want)


@pytest.mark.parametrize("kind, part", [("deepseek_v32", "kv_b_proj"), ("v4_sliding", "o_a_proj")])
def test_maps_whose_weights_are_absorbed(kind, part):
    """Nothing calls them, so hooks and exchanged Cells, as adapters are, would have no effect."""
    layer, x = layer_of(kind), Tensor(text_of(1, 3))
    cell, want = getattr(layer, part), layer(x).asnumpy()
    text = f"{layer.name}: {part} must be the layer's own Linear, got "
    hook = cell.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=f"{text}Linear with hooks"):
        layer(x)
    hook.remove()
    setattr(layer, part, nn.SequentialCell(cell))
    with pytest.raises(ValueError, match=f"{text}SequentialCell"):
        layer(x)
    setattr(layer, part, cell)
    np.testing.assert_array_equal(layer(x).asnumpy(), want)


def test_arguments_of_transformers():
    layer = layer_of("v4_sliding")
    with pytest.raises(TypeError, match="attention_mask is not .* in its place: key_padding_mask"):
        layer(Tensor(X), attention_mask=None)
    with pytest.raises(
        TypeError, match="V4Attention: mask is not one of its arguments, x, .*stage$"
    ):
        layer(Tensor(X), mask=None)


class _Torch:
    """A tensor of PyTorch that NumPy refuses as it is."""

    dtype = "torch.bfloat16"

    def __init__(self, values):
        self.values = values

    def detach(self):
        return _Torch(self.values)

    def float(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.values

    def __array__(self, *_, **__):
        raise TypeError("Got unsupported ScalarType BFloat16")


def test_tensors_of_pytorch():
    layer, other = layer_of("v4_sliding"), layer_of("v4_sliding", 1)
    given = {f"a.{p.name}": _Torch(p.asnumpy()) for p in layer.get_parameters()}
    assert ms.load_param_into_net(other, models.attention_parameters(other, given, "a.")) == (
        [],
        [],
    )
    np.testing.assert_array_equal(other(Tensor(X)).asnumpy(), layer(Tensor(X)).asnumpy())


def test_wrong_checkpoints():
    layer = layer_of("v4_sliding")
    own = {p.name: p for p in layer.get_parameters()}
    with pytest.raises(TypeError, match="tensors must be a dict"):
        models.attention_parameters(layer, [])
    with pytest.raises(ValueError, match="missing: sinks; unknown: none"):
        models.attention_parameters(layer, {k: v for k, v in own.items() if k != "sinks"})
    many = {f"model.layers.{i}.attn.wq_a.weight": own["sinks"] for i in range(5)}
    text = "prefixes of such parameters here: 'model.layers.0.attn.', .*2.attn.' and 2 more$"
    with pytest.raises(ValueError, match=text):
        models.attention_parameters(layer, many, "layers.0.")
    with pytest.raises(ValueError, match="parameters here: none$"):
        models.attention_parameters(layer, {}, "layers.0.")
    with pytest.raises(ValueError, match="unknown: more"):
        models.attention_parameters(layer, {**own, "more": own["sinks"]})
    with pytest.raises(ValueError, match=r"sinks must be of shape \(4,\), got \(3,\)"):
        models.attention_parameters(layer, {**own, "sinks": np.zeros(3)})
    # Weights of 8 bits would load as numbers, without the scales that stand beside them.
    scaled = {**own, "o_a_proj.weight_scale_inv": np.ones((1, 1), np.float32)}
    with pytest.raises(ValueError, match="missing: none; unknown: o_a_proj.weight_scale_inv"):
        models.attention_parameters(layer, scaled)
    for dtype in (np.uint8, np.int8, bool):
        eight = {**own, "sinks": np.ones(own["sinks"].shape, dtype)}
        with pytest.raises(
            TypeError, match="sinks must be of dtype float16, .*, got (u?int8|bool)"
        ):
            models.attention_parameters(layer, eight)
    with pytest.raises(TypeError, match="sinks must be a Tensor or an array"):
        models.attention_parameters(layer, {**own, "sinks": [1.0]})
