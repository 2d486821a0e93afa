"""GLM-5.3's attention out of a checkpoint that transformers wrote: compare, then train it."""

import tempfile

import mindspore as ms
import numpy as np
import torch
from mindspore import Tensor, nn
from transformers import Glm5NextTextConfig
from transformers.models.glm5_next.modeling_glm5_next import Glm5NextTextModel

from mindspore_nsa.models import Glm5NextTextAttention, attention_parameters

config = Glm5NextTextConfig(
    vocab_size=32, pad_token_id=0, hidden_size=64, num_hidden_layers=1, num_attention_heads=4,
    num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=16, qk_nope_head_dim=16,
    qk_rope_head_dim=0, v_head_dim=16, index_n_heads=16, index_head_dim=16, index_topk=8,
    index_kpool=4, layer_types=["indexed_attention"], intermediate_size=64,
    mlp_layer_types=["dense"], initializer_range=0.3)  # fmt: skip
torch.manual_seed(0)
model, seen = Glm5NextTextModel(config).eval(), {}
model.layers[0].self_attn.register_forward_hook(
    lambda module, args, given, out: seen.update(x=[*args, *given.values()][0], y=out[0]),
    with_kwargs=True)  # fmt: skip
model(torch.arange(24)[None])
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    tensors = ms.load_checkpoint(f"{folder}/model.safetensors", format="safetensors")
layer = Glm5NextTextAttention(config, layer_idx=0)
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
