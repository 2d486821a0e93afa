"""A converted Qwen3 of MindFormers on MindSpore's device Ascend, trained in graph mode."""

import mindspore as ms
import numpy as np
from mindformers import MindFormerConfig
from mindformers.core.context.build_context import build_mf_context
from mindformers.models.qwen3.configuration_qwen3 import Qwen3Config
from mindformers.models.qwen3.modeling_qwen3_train import TrainingQwen3ForCausalLM
from mindformers_step import Step
from mindspore import Tensor, nn, ops

from mindspore_nsa.integrations.mindformers import convert_attention

ms.set_device("Ascend")
build_mf_context(MindFormerConfig(use_legacy=False))
ms.set_context(mode=ms.GRAPH_MODE)
FLOAT = "float32"


model = TrainingQwen3ForCausalLM(
    Qwen3Config(
        **{"vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16},
        **{"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2},
        **{"seq_length": 64, "max_position_embeddings": 64, "rope_theta": 10000.0},
        **{"hidden_dropout": 0.0, "attention_dropout": 0.0, "compute_dtype": "bfloat16"},
        **{"params_dtype": FLOAT, "layernorm_compute_dtype": FLOAT, "rotary_dtype": FLOAT},
        softmax_compute_dtype=FLOAT,
    )
)
rng = np.random.default_rng(0)
for p in model.get_parameters():
    if p.ndim == 2:
        p.set_data(Tensor((rng.standard_normal(p.shape) * 0.1).astype(np.float32)))
convert_attention(
    model,
    **{"compress_block_size": 32, "compress_stride": 16, "select_block_size": 32},
    **{"select_block_count": 3, "init_blocks": 1, "local_blocks": 1, "window_size": 32},
)
model.set_train()
step = Step(model, nn.Adam(model.trainable_params(), 1e-3))
ids = np.random.default_rng(0).integers(1, 128, (2, 65)).astype(np.int32)
x, y = Tensor(ids[:, :-1]), Tensor(ids[:, 1:])
losses = [float(step(x, y, ops.ones(x.shape))[0].asnumpy()) for _ in range(3)]
print("result: losses", *losses)
