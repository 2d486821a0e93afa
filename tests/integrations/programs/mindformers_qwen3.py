"""The tiny Qwen3 of MindFormers, converted: trained in graph mode, by a loop and by Trainer.

With the argument "new", one whose layers have new weights and no norms, by the loop only.
"""

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.dataset import GeneratorDataset

from model_zoo_demo.cpu_operators import with_cpu_operators

with_cpu_operators("mindformers")

from mindformers import MindFormerConfig, Trainer, TrainingArguments  # noqa: E402
from mindformers.core.context.build_context import build_mf_context  # noqa: E402
from mindformers.models.qwen3.configuration_qwen3 import Qwen3Config  # noqa: E402
from mindformers.models.qwen3.modeling_qwen3_train import (  # noqa: E402
    TrainingQwen3ForCausalLM,
)
from mindformers.trainer.utils import load_ckpt  # noqa: E402
from mindformers_step import Step  # noqa: E402

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


class Losses(ms.Callback):
    def __init__(self):
        self.values = []

    def on_train_begin(self, run_context):
        # The trainer's own configuration asks for PyNative, where these models do not run.
        ms.set_context(mode=ms.GRAPH_MODE)

    def on_train_step_end(self, run_context):
        self.values.append(float(run_context.original_args().net_outputs[0].asnumpy().mean()))


def check_same(net, other):
    """Two models with the same parameters, to the bit."""
    # The Trainer's wrappers rename what its optimizer does not have.
    prefix = "network.network.model."
    parameters, trained = other.parameters_dict(), list(net.get_parameters())
    names = [parameter.name.removeprefix(prefix) for parameter in trained]
    assert list(parameters) == names
    for name, parameter in zip(names, trained, strict=True):
        np.testing.assert_array_equal(parameters[name].asnumpy(), parameter.asnumpy())


def train_by_trainer(ids):
    """MindFormers' Trainer, and what its loading makes of the checkpoint it writes."""
    # Two steps with the same rows, as the loop does.
    rows = [(row[:-1], row[1:]) for row in ids] * 2
    data = GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(len(ids))
    net, losses = adapter.convert_attention(model(), **SIZES), Losses()
    arguments = TrainingArguments(
        output_dir="out",
        num_train_epochs=1,
        use_parallel=False,
        data_skip_steps=0,
        per_device_train_batch_size=len(ids),
        save_strategy="steps",
        save_steps=2,
    )
    trainer = Trainer(
        args=arguments,
        task="text_generation",
        model=net,
        train_dataset=data,
        callbacks=[losses],
        optimizers=nn.Adam(net.trainable_params(), 1e-3),
    )
    trainer.config.train_dataset.construct_args_key = ["input_ids", "labels"]
    trainer.train()
    print("result: trainer", *(f"{loss:.4f}" for loss in losses.values))

    (written,) = Path("out/checkpoint").rglob("*.ckpt")
    other = adapter.convert_attention(model(), copy_weights=False, gating="residual", **SIZES)
    trainer.config.checkpoint.load_path = str(written)
    load_ckpt(trainer.config, other)
    check_same(net, other)
    print("result: saved and loaded by MindFormers")


def train(net, ids):
    """Losses of four steps with the same rows."""
    x, y = Tensor(ids[:, :-1]), Tensor(ids[:, 1:])
    net.set_train()
    step = Step(net, nn.Adam(net.trainable_params(), 1e-3))
    losses = [float(step(x, y, ops.ones(x.shape))[0].asnumpy()) for _ in range(4)]
    print("result: losses", *(f"{loss:.4f}" for loss in losses))


def with_new_weights():
    net = adapter.convert_attention(model(), copy_weights=False, qk_norm=False, **SIZES)
    train(net, np.random.RandomState(0).randint(1, 128, (1, 257)).astype(np.int32))


def main():
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
    train(net, ids)

    ms.save_checkpoint(net, "net.ckpt")
    other = adapter.convert_attention(model(), copy_weights=False, gating="residual", **SIZES)
    loaded = ms.load_checkpoint("net.ckpt")
    missing, extra = ms.load_param_into_net(other, loaded)
    assert not missing and not extra
    check_same(net, other)
    print("result: saved and loaded")
    train_by_trainer(ids)


build_mf_context(MindFormerConfig(use_legacy=False))
if sys.argv[1:] == ["new"]:
    with_new_weights()
else:
    main()
