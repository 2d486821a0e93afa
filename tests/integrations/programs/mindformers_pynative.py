"""MindFormers 2.1's PyNative models with NSA: through its registry, and converted.

The first argument is the number of training steps, the others are the kinds that train.
"""

import sys

import mindspore as ms
import numpy as np
from mindspore import DeviceCtx, Tensor, nn

from mindspore_nsa.integrations import mindformers as adapter

adapter.serve_cpu()

from mindformers.models.qwen3.configuration_qwen3 import Qwen3Config  # noqa: E402
from mindformers.models.qwen3.modeling_qwen3_train_pynative import (  # noqa: E402
    PyNativeQwen3ForCausalLM,
)
from mindformers.parallel_core.transformer_config import TransformerConfig  # noqa: E402
from mindformers.pynative.base_models.gpt.gpt_layer_specs import (  # noqa: E402
    get_gpt_decoder_block_spec,
)
from mindformers.pynative.base_models.gpt.gpt_model import GPTModel  # noqa: E402

from mindspore_nsa.nn import DenseAttention, NativeSparseAttention  # noqa: E402

FLOAT = "float32"
CONFIG = {
    **{"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_query_groups": 2},
    **{"kv_channels": 16, "ffn_hidden_size": 128, "vocab_size": 128, "seq_length": 256},
    **{"compute_dtype": FLOAT, "params_dtype": FLOAT, "layernorm_compute_dtype": FLOAT},
    **{"rotary_dtype": FLOAT, "softmax_compute_dtype": FLOAT, "hidden_dropout": 0.0},
    **{"attention_dropout": 0.0, "position_embedding_type": "rope", "hidden_act": "silu"},
    **{"normalization": "RMSNorm", "add_bias_linear": False, "gated_linear_unit": True},
    **{"qk_layernorm": True, "max_position_embeddings": 256},
}
SIZES = {
    **{"compress_block_size": 16, "compress_stride": 8, "select_block_size": 16},
    **{"select_block_count": 4, "window_size": 32},
}


def made(build):
    """A model as the trainer makes it: without memory, then filled by every cell."""
    with DeviceCtx("meta"):
        model = build()
    model.to_empty(device="CPU")
    ms.set_seed(0)
    np.random.seed(0)
    for _, cell in model.cells_and_names():
        if hasattr(cell, "reset_parameter"):
            cell.reset_parameter()
    return model


def gpt(variant):
    config = TransformerConfig(**CONFIG, experimental_attention_variant=variant)
    return GPTModel(
        config, get_gpt_decoder_block_spec(config), 128, 256, position_embedding_type="rope"
    )


def qwen3():
    return PyNativeQwen3ForCausalLM(
        Qwen3Config(
            **{"vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16},
            **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
            **{"max_position_embeddings": 256, "seq_length": 256, "compute_dtype": FLOAT},
            **{"params_dtype": FLOAT, "layernorm_compute_dtype": FLOAT, "rotary_dtype": FLOAT},
            **{"softmax_compute_dtype": FLOAT, "hidden_dropout": 0.0, "attention_dropout": 0.0},
        )
    )


def texts(rng, rows, length, vocabulary=128):
    """Chains in which every token has four successors, each text written twice."""
    successors = np.random.default_rng(0).integers(1, vocabulary, (vocabulary, 4))
    half = np.empty((rows, length // 2), np.int32)
    half[:, 0] = rng.integers(1, vocabulary, rows)
    for at in range(1, half.shape[1]):
        half[:, at] = successors[half[:, at - 1], rng.integers(0, 4, rows)]
    return np.concatenate((half, half), 1)


def train(model, steps):
    model.set_train()
    optimizer = nn.Adam(model.trainable_params(), 2e-3)

    def loss(x, y):
        return model(x, labels=y)[0]

    step = ms.value_and_grad(loss, None, optimizer.parameters)
    rng, losses = np.random.default_rng(1), []
    for _ in range(steps):
        text = texts(rng, 4, 256)
        value, gradients = step(Tensor(text), Tensor(np.roll(text, -1, 1)))
        optimizer(gradients)
        losses.append(float(value.asnumpy()))
        if len(losses) % 25 == 1:
            print(len(losses) - 1, losses[-1], flush=True)
    return losses


def attentions(model):
    inner = model.model if hasattr(model, "model") else model
    return [layer.self_attention.attention for layer in inner.decoder.layers]


def check_packed(model):
    """Two documents in a row have the logits that each has alone."""
    model.set_train(False)
    text = texts(np.random.default_rng(2), 1, 256)
    packed = model(Tensor(text), actual_seq_len=Tensor([100, 256], ms.int32)).asnumpy()
    alone = model(Tensor(text[:, :100]), actual_seq_len=Tensor([100], ms.int32)).asnumpy()
    print("result: packed", np.abs(packed[:100] - alone).max())


def main(steps, kinds):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    # Threads that wait for one another would spin, which takes most of the processor time.
    ms.runtime.launch_blocking()
    adapter.register(**SIZES)
    builders = {
        "nsa": lambda: made(lambda: gpt("nsa")),
        "dense": lambda: adapter.convert_attention(made(qwen3), attention="dense"),
        "qwen3": lambda: adapter.convert_attention(made(qwen3), **SIZES),
    }
    for kind in kinds:
        model = builders[kind]()
        layer = DenseAttention if kind == "dense" else NativeSparseAttention
        assert all(isinstance(one, layer) and one.config.qk_norm for one in attentions(model))
        losses = train(model, steps)
        print(f"result: {kind}", *(f"{loss:.4f}" for loss in losses))
        if kind == "nsa":
            check_packed(model)


main(int(sys.argv[1]), sys.argv[2:])
