"""MiniMax-M3's attention out of a checkpoint that transformers wrote: compare, then train it."""

import tempfile

import mindspore as ms
import numpy as np
import torch
from mindspore import Tensor, nn
from transformers import MiniMaxM3VLTextConfig
from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import MiniMaxM3VLTextModel

from mindspore_nsa.models import MiniMaxM3VLAttention, attention_parameters

config = MiniMaxM3VLTextConfig(
    vocab_size=32, hidden_size=64, num_hidden_layers=1, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, index_n_heads=2, index_head_dim=16, index_block_size=4,
    index_topk_blocks=3, layer_types=["minimax_m3_sparse"], mlp_layer_types=["dense"],
    intermediate_size=64, dense_intermediate_size=64, initializer_range=0.3)  # fmt: skip
torch.manual_seed(0)
model, seen = MiniMaxM3VLTextModel(config).eval(), {}
model.layers[0].self_attn.register_forward_hook(
    lambda module, args, given, out: seen.update(x=[*args, *given.values()][0], y=out[0]),
    with_kwargs=True)  # fmt: skip
model(torch.arange(24)[None])
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    tensors = ms.load_checkpoint(f"{folder}/model.safetensors", format="safetensors")
layer = MiniMaxM3VLAttention(config, layer_idx=0)
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
