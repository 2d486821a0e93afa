"""A converted Llama of mindone on MindSpore's device Ascend, trained in PyNative mode."""

import mindspore as ms
import numpy as np
from mindone.transformers.models.llama.modeling_llama import LlamaForCausalLM
from mindspore import Tensor, nn
from transformers import LlamaConfig

from mindspore_nsa.integrations.mindone import convert_attention

ms.set_device("Ascend")
model = LlamaForCausalLM(
    LlamaConfig(
        **{"vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16},
        **{"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2},
        max_position_embeddings=256,
    )
)
rng = np.random.default_rng(0)
for _, p in model.parameters_and_names():
    if p.ndim == 2:
        p.set_data(Tensor((rng.standard_normal(p.shape) * 0.1).astype(np.float32)))
convert_attention(
    model,
    **{"compress_block_size": 32, "compress_stride": 16, "select_block_size": 32},
    **{"select_block_count": 3, "init_blocks": 1, "local_blocks": 1, "window_size": 32},
)
model.to_float(ms.bfloat16).set_train()
ids = Tensor(np.random.default_rng(1).integers(1, 128, (2, 64)), ms.int64)
optimizer = nn.Adam(model.trainable_params(), 1e-3)
step = ms.value_and_grad(
    lambda: model(ids, labels=ids, use_cache=False)[0], None, model.trainable_params()
)
losses = []
for _ in range(3):
    loss, gradients = step()
    optimizer(gradients)
    losses.append(float(loss.astype(ms.float32)))
print("result: losses", *losses)
