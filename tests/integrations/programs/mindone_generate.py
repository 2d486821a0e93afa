"""Tokens that a Qwen2 of mindone generates from padded rows, with eager attention and ours."""

import cpu_primitives
import mindspore as ms
import numpy as np

from model_zoo_demo import cpu_operators

cpu_operators.with_cpu_operators("mindone")
ms.ops.rms_norm = cpu_operators.rms_norm
cpu_primitives.install()

from mindone.transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM  # noqa: E402
from transformers import Qwen2Config  # noqa: E402

from mindspore_nsa.integrations.mindone import register  # noqa: E402

SIZES = {
    **{"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64},
    "initializer_range": 0.5,
}


def main():
    ms.set_seed(0)
    eager, ours = (
        Qwen2ForCausalLM(Qwen2Config(attn_implementation=name, **SIZES)).set_train(False)
        for name in ("eager", register())
    )
    for p, q in zip(eager.get_parameters(), ours.get_parameters()):
        q.set_data(p.value().copy())
    ids = ms.Tensor(np.random.default_rng(0).integers(1, 64, (2, 12)), ms.int64)
    mask = np.ones((2, 12), np.int64)
    mask[0, :5] = 0
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    for use_cache in (True, False):
        rows = [
            model.generate(ids, attention_mask=ms.Tensor(mask), use_cache=use_cache, **options)
            for model in (eager, ours)
        ]
        print("result:", np.array_equal(rows[0].asnumpy(), rows[1].asnumpy()), rows[0].shape)


main()
