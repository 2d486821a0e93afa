"""The tiny Qwen3 of MindFormers, converted, trained in graph mode, saved and loaded."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from model_zoo_demo.cpu_operators import with_cpu_operators

with_cpu_operators("mindformers")

from mindformers import MindFormerConfig  # noqa: E402
from mindformers.core.context.build_context import build_mf_context  # noqa: E402
from mindformers.models.qwen3.configuration_qwen3 import Qwen3Config  # noqa: E402
from mindformers.models.qwen3.modeling_qwen3_train import (  # noqa: E402
    TrainingQwen3ForCausalLM,
)

from mindspore_nsa.integrations import mindformers as adapter  # noqa: E402

ms.set_context(mode=ms.GRAPH_MODE)
FLOAT = "float32"
SIZES = {
    **{"compress_block_size": 16, "compress_stride": 8, "select_block_size": 16},
    **{"select_block_count": 4, "window_size": 32},
}


def model():
    ms.set_seed(0)
    np.random.seed(0)
    return TrainingQwen3ForCausalLM(
        Qwen3Config(
            **{"vocab_size": 128, "hidden_size": 64, "intermediate_size": 128},
            **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
            **{"head_dim": 16, "max_position_embeddings": 256, "seq_length": 256},
            **{"compute_dtype": FLOAT, "params_dtype": FLOAT, "layernorm_compute_dtype": FLOAT},
            **{"rotary_dtype": FLOAT, "softmax_compute_dtype": FLOAT, "rope_theta": 10000.0},
            **{"hidden_dropout": 0.0, "attention_dropout": 0.0},
        )
    )


class Step(nn.Cell):
    def __init__(self, model, optimizer):
        super().__init__(auto_prefix=False)
        self.model, self.optimizer = model, optimizer
        self.gradient = ops.value_and_grad(model, None, optimizer.parameters)

    def construct(self, x, y, mask):
        loss, gradients = self.gradient(x, None, None, None, y, None, None, mask)
        self.optimizer(gradients)
        return loss[0]


def main():
    build_mf_context(MindFormerConfig(use_legacy=False))
    net = model()
    dense = {p.name: p.asnumpy() for p in net.get_parameters()}
    assert adapter.convert_attention(net, layers=[1], **SIZES) is net
    try:
        adapter.convert_attention(net, **SIZES)
        raise AssertionError("converted twice")
    except ValueError as error:
        assert "layer 1 is converted already" in str(error)
    adapter.convert_attention(net, layers=[0], **SIZES)

    # The weights are those of the dense model, there and back.
    for i in range(2):
        attention = net.get_gpt_model().decoder.layers[i].self_attention.attention
        place = f"decoder.layers.{i}.self_attention"
        one = attention.key_value.weight.asnumpy().reshape(2, 3, 32, 64)
        assert (one == one[:, :1]).all()
        joint = adapter.join_qkv(attention.query.weight, one[:, 0].reshape(64, 64), 4, 2, 16)
        np.testing.assert_array_equal(joint, dense[f"{place}.linear_qkv.weight"])
        np.testing.assert_array_equal(
            attention.output.weight.asnumpy(), dense[f"{place}.linear_proj.weight"]
        )
        assert attention.config.qk_norm and attention.config.gating == "residual"
        assert attention.query.weight.name == f"{place}.attention.query.weight"

    rng = np.random.default_rng(0)
    ids = rng.integers(1, 128, (4, 257)).astype(np.int32)
    x, y = Tensor(ids[:, :-1]), Tensor(ids[:, 1:])
    net.set_train()
    step = Step(net, nn.Adam(net.trainable_params(), 1e-3))
    losses = [float(step(x, y, ops.ones((4, 256)))[0].asnumpy()) for _ in range(4)]
    print("result: losses", *(f"{loss:.4f}" for loss in losses))

    ms.save_checkpoint(net, "net.ckpt")
    other = adapter.convert_attention(model(), copy_weights=False, gating="residual", **SIZES)
    loaded = ms.load_checkpoint("net.ckpt")
    missing, extra = ms.load_param_into_net(other, loaded)
    assert not missing and not extra
    net.set_train(False)
    other.set_train(False)
    np.testing.assert_array_equal(net(x).asnumpy(), other(x).asnumpy())
    print("result: saved and loaded")


main()
