"""Qwen4-exp's attention out of a checkpoint that transformers wrote: compare, then train it."""

import tempfile

import mindspore as ms
import numpy as np
import torch
from mindspore import Tensor, nn
from transformers import Qwen4ExpTextConfig
from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextModel

from mindspore_nsa.models import Qwen4ExpTextAttention, attention_parameters

config = Qwen4ExpTextConfig(
    vocab_size=32, hidden_size=64, num_hidden_layers=1, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, indexer_n_heads=12, indexer_kv_heads=1,
    indexer_head_dim=16, indexer_budget=8, indexer_compress_ratio=4, num_experts=4,
    layer_types=["indexed_attention"], num_experts_per_tok=2, moe_intermediate_size=32,
    shared_expert_intermediate_size=32, initializer_range=0.3)  # fmt: skip
torch.manual_seed(0)
model, seen = Qwen4ExpTextModel(config).eval(), {}
model.layers[0].self_attn.register_forward_hook(
    lambda module, args, given, out: seen.update(x=[*args, *given.values()][0], y=out[0]),
    with_kwargs=True)  # fmt: skip
model(torch.arange(24)[None])
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    tensors = ms.load_checkpoint(f"{folder}/model.safetensors", format="safetensors")
layer = Qwen4ExpTextAttention(config, layer_idx=0)
ms.load_param_into_net(layer, attention_parameters(layer, tensors, "layers.0.self_attn."))
x, y = (Tensor(seen[name].detach().numpy()) for name in "xy")
print(f"largest difference {float((layer(x) - y).abs().max() / y.abs().max()):.0e}")
target = Tensor(np.random.default_rng(0).standard_normal(y.shape).astype(np.float32))
optimizer = nn.Adam(layer.trainable_params(), 1e-2)
step = ms.value_and_grad(
    lambda x: ((layer(x) - target) ** 2).mean(), None, optimizer.parameters)  # fmt: skip
for number in range(10):
    loss, gradients = step(x)
    optimizer(gradients)
    print(f"step {number}: loss {float(loss):.4f}")
