"""One call of each public operator; its outputs and gradients as cases for the tolerance rule.

Each function takes a `Device` and yields pairs (Case, outputs). The calls pack two texts of 80 and
112 tokens, so that a block, a window and a tile end inside of a text.
"""

import numpy as np

import mindspore_nsa

from .decoding import (
    nsa_cache_step,
    nsa_compress_attention_infer,
    nsa_compress_with_cache,
    nsa_decode,
    nsa_selected_attention_infer,
)

ENDS = (80, 192)
COMPRESSED_ENDS = (4, 10)
TOKENS, HEADS, KV_HEADS, DIM = 192, 4, 2, 64
SCALE = 0.125


def nsa_compress(device):
    """Forward and gradient."""
    x, w, dy = device.draw(TOKENS, 2, 32), device.draw(32, 2), device.draw(10, 2, 32)

    # Graph mode reads the source of a function, and finds none for a lambda inside a call.
    def forward(x, w):
        return mindspore_nsa.nsa_compress(x, w, 32, 16, actual_seq_len=ENDS)

    sizes = {"compress_block_size": 32, "compress_stride": 16}
    named = {"input": x, "weight": w, "actual_seq_len": ENDS}
    outputs = device.run(forward, (x, w))
    yield device.case("NsaCompress", named, {**sizes, "num_windows": 10}, outputs)
    gradients = device.gradients(forward, (x, w), dy)
    yield device.case("NsaCompressGrad", {**named, "output_grad": dy}, sizes, gradients)


def nsa_compress_attention(device):
    """Forward with the choice of blocks, and gradient."""
    q, dy = device.draw(TOKENS, HEADS, DIM), device.draw(TOKENS, HEADS, DIM)
    k, v = device.draw(10, KV_HEADS, DIM), device.draw(10, KV_HEADS, DIM)
    ends = {"actual_seq_qlen": ENDS, "actual_cmp_seq_kvlen": COMPRESSED_ENDS}

    def forward(q, k, v):
        return mindspore_nsa.nsa_compress_attention(
            q, k, v, SCALE, HEADS, 32, 16, 64, 2, actual_sel_seq_kvlen=(2, 4), causal=True, **ends
        )

    sizes = {"scale_value": SCALE, "head_num": HEADS, "compress_block_size": 32}
    attrs = {**sizes, "compress_stride": 16, "select_block_size": 64, "select_block_count": 2}
    named = {"query": q, "key": k, "value": v, **ends}
    outputs = device.run(forward, (q, k, v))
    more = {"actual_sel_seq_kvlen": (2, 4)}
    yield device.case("NsaCompressAttention", {**named, **more}, {**attrs, "causal": 1}, outputs)
    out, _, largest, total = outputs
    named = {"query": q, "key": k, "value": v, "dy": dy, "attention_in": out}
    named |= {"softmax_max": largest, "softmax_sum": total}
    named |= {"actual_seq_qlen": ENDS, "actual_seq_kvlen": COMPRESSED_ENDS}
    attrs = {"head_num": HEADS, "scalar_value": SCALE, "input_layout": "TND"}
    attrs |= {"compress_block_size": 32, "compress_stride": 16}
    yield _flash_gradient(device, named, attrs, device.gradients(forward, (q, k, v), dy))


def nsa_selected_attention(device):
    """Forward and gradient; each query reads the first block and its own."""
    q, dy = device.draw(TOKENS, HEADS, DIM), device.draw(TOKENS, HEADS, DIM)
    k, v = device.draw(TOKENS, KV_HEADS, DIM), device.draw(TOKENS, KV_HEADS, DIM)
    own = np.concatenate([np.arange(80) // 64, np.arange(112) // 64])
    chosen = np.stack([np.zeros_like(own), np.where(own > 0, own, -1)], -1)
    blocks = np.repeat(chosen[:, None], KV_HEADS, 1).astype(np.int32)
    ends = {"actual_seq_qlen": ENDS, "actual_seq_kvlen": ENDS}
    tensor = device.ms.Tensor(blocks)

    def forward(q, k, v):
        return mindspore_nsa.nsa_selected_attention(
            q, k, v, tensor, SCALE, HEADS, 64, 2, causal=True, **ends
        )

    attrs = {"scale_value": SCALE, "head_num": HEADS, "select_block_size": 64}
    attrs |= {"select_block_count": 2, "causal": 1}
    named = {"query": q, "key": k, "value": v, "topk_indices": blocks, **ends}
    outputs = device.run(forward, (q, k, v))
    yield device.case("NsaSelectedAttention", named, attrs, outputs)
    out, largest, total = outputs
    named |= {"attention_out": out, "attention_out_grad": dy}
    named |= {"softmax_max": largest, "softmax_sum": total}
    gradients = device.gradients(forward, (q, k, v), dy)
    yield device.case("NsaSelectedAttentionGrad", named, attrs, gradients)


def flash_attention_score(device):
    """Forward and gradient, causal in each text."""
    q, dy = device.draw(TOKENS, HEADS, DIM), device.draw(TOKENS, HEADS, DIM)
    k, v = device.draw(TOKENS, KV_HEADS, DIM), device.draw(TOKENS, KV_HEADS, DIM)
    ends = {"actual_seq_qlen": ENDS, "actual_seq_kvlen": ENDS}
    options = {"scalar_value": SCALE, "input_layout": "TND", "sparse_mode": 3}

    def forward(q, k, v):
        return mindspore_nsa.flash_attention_score(
            q, k, v, HEADS, return_softmax=True, **ends, **options
        )

    named = {"query": q, "key": k, "value": v, **ends}
    outputs = device.run(forward, (q, k, v))
    attrs = {**options, "head_num": HEADS}
    yield device.case("FlashAttentionScore", named, attrs, outputs)
    out, largest, total = outputs
    named |= {"dy": dy, "attention_in": out, "softmax_max": largest, "softmax_sum": total}
    gradients = device.gradients(forward, (q, k, v), dy)
    yield _flash_gradient(device, named, attrs, gradients)


def _flash_gradient(device, named, attrs, gradients):
    """The gradients of a bias and of sinks, which nobody asks for, are placeholders of one zero."""
    absent = np.zeros(1, np.float32)
    attrs = {**attrs, "pse_grad": 0}
    return device.case("FlashAttentionScoreGrad", named, attrs, [*gradients, absent, absent])


# The native operators that a check covers, by its function.
CHECKS = {
    nsa_compress: ("NsaCompress", "NsaCompressGrad"),
    nsa_compress_attention: ("NsaCompressAttention", "FlashAttentionScoreGrad"),
    nsa_selected_attention: ("NsaSelectedAttention", "NsaSelectedAttentionGrad"),
    flash_attention_score: ("FlashAttentionScore", "FlashAttentionScoreGrad"),
    nsa_compress_with_cache: ("NsaCompressWithCache",),
    nsa_compress_attention_infer: ("NsaCompressAttentionInfer",),
    nsa_selected_attention_infer: ("NsaSelectedAttentionInfer",),
    nsa_decode: ("NsaDecode",),
    nsa_cache_step: ("NsaCacheStep",),
}
