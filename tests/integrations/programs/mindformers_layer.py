"""A TransformerLayer of MindFormers with NSA in graph mode; nothing of MindFormers is replaced."""

import copy
import dataclasses

import mindspore as ms
import numpy as np
from mindformers.parallel_core.training_graph.base_models.gpt.gpt_layer_specs import (
    get_gpt_layer_local_spec,
)
from mindformers.parallel_core.training_graph.device_matrix import layout
from mindformers.parallel_core.transformer_config import TransformerConfig
from mindformers.parallel_core.utils.spec_utils import build_module
from mindspore import Tensor, nn

from mindspore_nsa.integrations import mindformers as adapter
from mindspore_nsa.integrations._mindformers_fields import IRRELEVANT_FIELDS
from mindspore_nsa.nn import NativeSparseAttention

ms.set_context(mode=ms.GRAPH_MODE)
FLOAT = "float32"
CONFIG = {
    **{"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_query_groups": 2},
    **{"kv_channels": 16, "ffn_hidden_size": 128, "vocab_size": 128, "seq_length": 256},
    **{"compute_dtype": FLOAT, "params_dtype": FLOAT, "layernorm_compute_dtype": FLOAT},
    **{"rotary_dtype": FLOAT, "softmax_compute_dtype": FLOAT, "hidden_dropout": 0.0},
    **{"attention_dropout": 0.0, "position_embedding_type": "rope", "hidden_act": "silu"},
    **{"normalization": "RMSNorm", "add_bias_linear": False, "gated_linear_unit": True},
}
SIZES = {
    **{"compress_block_size": 16, "compress_stride": 8, "select_block_size": 16},
    **{"select_block_count": 4, "window_size": 32},
}


class Loss(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, ends):
        out = self.layer(x, actual_seq_len=ends)[0]
        return (out * out).mean(), out


def refused(changes, text):
    config = TransformerConfig(**{**CONFIG, **changes})
    try:
        adapter.nsa_config(config, **SIZES)
    except ValueError as error:
        assert text in str(error), error
        return
    raise AssertionError(changes)


def check_fields():
    """Every field of the class is served, refused or without effect; no name is of nothing."""
    fields = {field.name for field in dataclasses.fields(TransformerConfig)}
    refused_fields = {name for name, *_ in adapter._ONLY}
    served = set(adapter.SERVED_FIELDS)
    assert not refused_fields & served and not (refused_fields | served) & IRRELEVANT_FIELDS
    unknown = fields - refused_fields - served - IRRELEVANT_FIELDS
    assert not unknown, unknown
    # The one that 2.1 has and 1.9 has not.
    absent = (refused_fields | served) - fields
    assert absent <= {"use_rotary_position_ids"}, absent
    config = TransformerConfig(**CONFIG)
    for name, values, what in adapter._ONLY:
        if name in fields:
            assert getattr(config, name) in values, name
            other = copy.copy(config)
            setattr(other, name, "another")
            try:
                adapter.nsa_config(other, **SIZES)
                raise AssertionError(name)
            except ValueError as error:
                assert what in str(error), error


def main():
    check_fields()
    config = TransformerConfig(**CONFIG)
    layout.init_layout(config)
    usual = get_gpt_layer_local_spec(fused_norm=False)
    spec = adapter.nsa_spec(usual, **SIZES)
    assert usual.submodules.self_attention is not spec.submodules.self_attention
    layer = build_module(spec, config=config, layer_number=0)
    attention = layer.self_attention.attention
    assert isinstance(attention, NativeSparseAttention) and attention.config.window_size == 32
    names = [p.name for p in layer.trainable_params()]
    assert "self_attention.attention.query.weight" in names

    x = np.random.default_rng(0).standard_normal((256, 2, 64)).astype(np.float32)
    step = ms.value_and_grad(Loss(layer), 0, layer.trainable_params(), has_aux=True)
    (_, out), (dx, grads) = step(Tensor(x), Tensor([100, 256, 256, 356, 512, 512], ms.int32))
    assert out.shape == x.shape and np.abs(dx.asnumpy()).max() > 0
    assert len(grads) == 12 and all(np.abs(g.asnumpy()).max() > 0 for g in grads)
    (_, alone), _ = step(Tensor(x[:100, :1]), Tensor([100], ms.int32))
    print("result: packed", np.abs(alone.asnumpy() - out.asnumpy()[:100, :1]).max())

    refused({"rotary_interleaved": True}, "interleaved rotary pairs")
    refused({"attention_dropout": 0.1}, "dropout of attention weights")
    refused({"window_size": (32, 0)}, "sliding windows")
    refused({"nope_layer_interval": 2}, "layers without positions")
    refused({"position_embedding_type": "yarn"}, "position embeddings other than rope")
    refused({"multi_latent_attention": True}, "multi-latent attention")
    refused({"tensor_model_parallel_size": 2}, "tensor parallelism")
    refused({"context_parallel_size": 2}, "context parallelism")
    try:
        layer.self_attention(Tensor(x), prefix_keys_values=Tensor(x))
        raise AssertionError("a prefix was taken")
    except ValueError as error:
        assert "prefix_keys_values must be None" in str(error)
    try:
        adapter.nsa_spec(usual, layers=[0], **SIZES)
        raise AssertionError("layers were taken")
    except ValueError as error:
        assert "layers must be None for the spec of a layer" in str(error)
    print("result: refused")


main()
