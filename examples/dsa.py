"""DeepSeek Sparse Attention: an indexer learns from dense attention, then chooses what is read."""

import mindspore as ms
import numpy as np

import mindspore_nsa as nsa

S, HEADS, DIM, PICKS, SCALE = 96, 8, 32, 16, 32**-0.5
rng = np.random.default_rng(0)


def draw(*shape):
    return ms.Tensor(rng.standard_normal(shape).astype(np.float32))


# Queries, latents that are keys and values, and what the indexer projects its tokens to.
q, kv = draw(1, S, HEADS, DIM), draw(1, S, 1, DIM)
indexer = [draw(1, S, 4, 16), draw(1, S, 1, 16), draw(1, S, 4) * 0.1]
causal = {"scalar_value": SCALE, "input_layout": "BSND", "sparse_mode": 3, "return_softmax": True}
_, top, total = nsa.flash_attention_score(q, kv, kv, HEADS, **causal)
top, total = (x[..., 0].transpose(0, 2, 1)[:, None] for x in (top, total))  # (B, 1, S, HEADS)


def warm_up(q_index, k_index, weights):
    return nsa.lightning_indexer_kl_loss(q, kv, q_index, k_index, weights, None, top, total, SCALE)


def sparse(q_index, k_index, weights):
    picks, _ = nsa.lightning_indexer(q_index, k_index, weights, sparse_count=PICKS)
    out, m, s = nsa.sparse_flash_attention(q, kv, kv, picks, SCALE, return_softmax_lse=True)
    return nsa.lightning_indexer_kl_loss(q, kv, q_index, k_index, weights, picks, m, s, SCALE)


for stage in (warm_up, sparse):
    step = ms.value_and_grad(stage, (0, 1, 2))
    for i in range(15):
        loss, slopes = step(*indexer)
        indexer = [x - 5 * slope for x, slope in zip(indexer, slopes)]
        print(f"{stage.__name__} {i} loss {float(loss):.4f}")
