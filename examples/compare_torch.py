"""Dense attention beside PyTorch's: values and gradients, float32."""

import mindspore as ms
import numpy as np
import torch

import mindspore_nsa as nsa

B, HEADS, S, D = 2, 4, 160, 32
rng = np.random.default_rng(0)
q, k, v, dy = (rng.standard_normal((B, HEADS, S, D)).astype(np.float32) for _ in range(4))


def ours(q, k, v):
    out = nsa.flash_attention_score(
        q, k, v, HEADS, scalar_value=D**-0.5, input_layout="BNSD", sparse_mode=3
    )
    return (out * ms.Tensor(dy)).sum(), out


step = ms.value_and_grad(ours, (0, 1, 2), has_aux=True)
(_, out), gradients = step(*map(ms.Tensor, (q, k, v)))
theirs = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
expected = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=True)
expected.backward(torch.tensor(dy))
print(f"output: {np.abs(out.asnumpy() - expected.detach().numpy()).max():.1e}")
for name, found, other in zip("qkv", gradients, theirs):
    print(f"d{name}: {np.abs(found.asnumpy() - other.grad.numpy()).max():.1e}")
