"""Random cases of the NSA operators."""

import numpy as np

from mindspore_nsa.reference.importance import num_blocks
from mindspore_nsa.reference.segments import compressed_seq_len
from mindspore_nsa.testing.case import Case, run_reference
from mindspore_nsa.testing.dtypes import encode

from .draw import DIMS, GROUPS, Draw, poison_from


def _with_neighbours(*sizes):
    """The sizes, one less and one more."""
    return sorted({max(1, n + d) for n in sizes for d in (-1, 0, 1)})


def _compress_setup(draw):
    s = draw.pick((1, 2, 3, 5, 8, 16, 32))
    l = s * draw.between(1, 4) + (draw.between(0, s - 1) if draw.chance(0.3) else 0)  # noqa: E741
    pool = [1, l - 1, l, l, l + 1, l + s, 2 * l + s - 1, 97]
    lengths = draw.many_lengths(60) if draw.chance(0.15) else draw.lengths(pool, 400)
    heads, dim = draw.between(1, 6), draw.pick(DIMS)
    exact = int(compressed_seq_len(np.cumsum(lengths), l, s)[-1])
    return {"compress_block_size": l, "compress_stride": s}, lengths, heads, dim, exact


def nsa_compress(draw):
    attrs, lengths, heads, dim, exact = _compress_setup(draw)
    rows = draw.pick((-1, exact, exact + draw.between(0, 5)))
    inputs = {
        "input": draw.tensor(sum(lengths), heads, dim),
        "weight": draw.tensor(attrs["compress_block_size"], heads),
        "actual_seq_len": draw.prefix_sums(lengths),
    }
    return Case.of("NsaCompress", inputs, {**attrs, "num_windows": rows}, draw.dtype)


def nsa_compress_grad(draw):
    attrs, lengths, heads, dim, exact = _compress_setup(draw)
    rows = draw.pick((exact, sum(lengths) // attrs["compress_stride"]))
    output_grad = poison_from(draw.tensor(rows, heads, dim), exact)
    inputs = {
        "output_grad": output_grad,
        "input": draw.tensor(sum(lengths), heads, dim),
        "weight": draw.tensor(attrs["compress_block_size"], heads),
        "actual_seq_len": draw.prefix_sums(lengths),
    }
    return Case.of("NsaCompressGrad", inputs, attrs, draw.dtype)


def _heads(draw):
    """(N1, N2)"""
    group = draw.pick(GROUPS)
    kv_heads = draw.between(1, 3 if group < 8 else 1)
    return group * kv_heads, kv_heads


def _value_dim(draw, dim):
    return dim if draw.chance(0.5) else draw.pick(DIMS)


def _score_budget(draw, heads, dim):
    """Most query tokens times key tokens of one segment that keep a case fast."""
    return int(draw.pick((2e5, 1e6, 2.5e6)) / (heads * dim))


def nsa_compress_attention(draw):
    s = draw.pick((1, 2, 4, 16, 16))
    n = draw.between(1, 3)
    m = n + draw.between(0, 3)
    l, select = n * s, m * s  # noqa: E741
    heads, kv_heads = _heads(draw)
    dim = draw.pick(DIMS)
    side = int(np.clip(np.sqrt(_score_budget(draw, heads, dim)), 2, 500))
    causal = draw.chance(0.6)
    q_lengths = draw.lengths([1, 2, *_with_neighbours(l, select), 97, side], max(2 * side, 4))
    q_offset = None
    if causal and draw.chance(0.4):
        q_offset = [draw.between(0, 5 * select) for _ in q_lengths]
    derived = causal and q_offset is None and draw.chance(0.4)
    if derived:
        kv_list = compressed_seq_len(np.cumsum(q_lengths), l, s)
        kv_lengths = np.diff([0, *kv_list]).tolist()
    elif causal and draw.chance(0.7):
        ends = [q + o for q, o in zip(q_lengths, q_offset or [0] * len(q_lengths), strict=True)]
        kv_lengths = [(end - l) // s + 1 if end >= l else 0 for end in ends]
    else:
        kv_lengths = [draw.pick((0, 1, m, m + 1, draw.between(1, side))) for _ in q_lengths]
    if causal and s > 1 and q_offset is None and kv_lengths == q_lengths:
        kv_lengths[-1] = max(0, kv_lengths[-1] - 1)  # as many would be keys without compression
    used = sum(kv_lengths)
    tokens = max(1, used + draw.pick((0, 0, 3)))

    importance = draw.pick(("cann", "overlap"))
    blocks = [
        num_blocks(c, q, m, n, importance, causal, o, select)
        for c, q, o in zip(kv_lengths, q_lengths, q_offset or [0] * len(q_lengths), strict=True)
    ]
    count = draw.pick((1, 2, 5, 16))
    init = draw.between(0, min(2, count)) if causal and draw.chance(0.6) else 0
    local = draw.between(0, min(3, count - init)) if causal and draw.chance(0.6) else 0
    excess = draw.pick((0, 0, 1, 5))
    atten_mask = topk_mask = None
    if draw.chance(0.3):
        atten_mask = draw.mask(max(q_lengths) + excess, max(1, *kv_lengths, 1) + excess)
    if draw.chance(0.3):
        topk_mask = draw.mask(max(q_lengths) + excess, max(1, *blocks, 1) + excess, density=0.2)
    inputs = {
        "query": draw.query(sum(q_lengths), heads, dim),
        "key": poison_from(draw.tensor(tokens, kv_heads, dim), used),
        "value": poison_from(draw.tensor(tokens, kv_heads, _value_dim(draw, dim)), used),
        "topk_mask": topk_mask,
        "atten_mask": atten_mask,
        "actual_seq_qlen": draw.prefix_sums(q_lengths),
        "actual_cmp_seq_kvlen": None if derived else draw.prefix_sums(kv_lengths),
        "actual_sel_seq_kvlen": draw.prefix_sums(blocks) if draw.chance(0.3) else None,
        "q_offset": None if q_offset is None else draw.int_list(q_offset),
    }
    attrs = {
        "scale_value": draw.scale(dim),
        "head_num": heads,
        "compress_block_size": l,
        "compress_stride": s,
        "select_block_size": select,
        "select_block_count": count,
        "causal": int(causal),
        "init_blocks": init,
        "local_blocks": local,
        "importance": importance,
    }
    return Case.of("NsaCompressAttention", inputs, attrs, draw.dtype)


def _topk_indices(draw, q_lengths, kv_lengths, kv_heads, select, count):
    """int32 [T1, N2, cnt] with valid blocks, duplicates, -1 and indices out of range."""
    parts = []
    for queries, keys in zip(q_lengths, kv_lengths, strict=True):
        blocks = -(-keys // select)
        shape = (queries, kv_heads, count)
        chosen = draw.rng.integers(0, max(blocks, 1), shape)
        if draw.chance(0.3):  # every query selects block 0
            chosen[..., draw.between(0, count - 1)] = 0
        if draw.chance(0.6):
            strange = np.array([-1, -1, -1, -7, blocks, blocks + 1, 2**31 - 1, -(2**31)])
            where = draw.rng.random(shape) < draw.pick((0.1, 0.5))
            chosen = np.where(where, strange[draw.rng.integers(0, len(strange), shape)], chosen)
        if draw.chance(0.2):  # some queries select nothing
            chosen[draw.rng.random(queries) < 0.3] = -1
        parts.append(chosen)
    return np.concatenate(parts).astype(np.int32)


def nsa_selected_attention(draw):
    select = draw.pick((1, 3, 8, 16, 16, 64, 64))
    count = draw.pick((1, 2, 4, 7, 16))
    heads, kv_heads = _heads(draw)
    dim = draw.pick(DIMS)
    budget = _score_budget(draw, heads, dim)
    side = int(np.clip(np.sqrt(budget), 2, 500))
    q_lengths = draw.lengths([1, 2, 5, 17, *_with_neighbours(select), 97, side], max(2 * side, 4))
    pool = [1, *_with_neighbours(select, 2 * select), 5 * select + 3, 97, 300]
    kv_lengths = [
        0 if draw.chance(0.1) else min(draw.pick(pool), max(1, budget // max(q, 1)))
        for q in q_lengths
    ]
    causal = draw.chance(0.5)
    if causal and draw.chance(0.5):
        kv_lengths = list(q_lengths)
    q_offset = None
    if draw.chance(0.3):
        q_offset = [draw.between(0, k + 2) for k in kv_lengths]
    heads = heads, kv_heads
    return selected_attention_of(
        draw, select, count, heads, dim, q_lengths, kv_lengths, causal, q_offset
    )


def selected_attention_of(
    draw, select, count, heads, dim, q_lengths, kv_lengths, causal, q_offset, value_dim=None
):
    """A case of these sizes; heads: (N1, N2)."""
    (heads, kv_heads), tokens = heads, sum(kv_lengths)
    if tokens == 0:
        kv_lengths[-1] = tokens = 1
    inputs = {
        "query": draw.query(sum(q_lengths), heads, dim),
        "key": draw.tensor(tokens, kv_heads, dim),
        "value": draw.tensor(tokens, kv_heads, value_dim or _value_dim(draw, dim)),
        "topk_indices": _topk_indices(draw, q_lengths, kv_lengths, kv_heads, select, count),
        "actual_seq_qlen": draw.prefix_sums(q_lengths),
        "actual_seq_kvlen": draw.prefix_sums(kv_lengths),
        "q_offset": None if q_offset is None else draw.int_list(q_offset),
    }
    attrs = {
        "scale_value": draw.scale(dim),
        "head_num": heads,
        "select_block_size": select,
        "select_block_count": count,
        "causal": int(causal),
    }
    return Case.of("NsaSelectedAttention", inputs, attrs, draw.dtype)


def selected_attention_grad_of(forward, draw):
    """The gradient's case of a forward case; its extra inputs come from the forward reference."""
    out, row_max, row_sum = run_reference(forward)
    inputs = {
        **forward.named(),
        "attention_out": encode(out, forward.dtype),
        "attention_out_grad": draw.tensor(*out.shape),
        "softmax_max": row_max.astype(np.float32),
        "softmax_sum": row_sum.astype(np.float32),
        "softmax_sum_grad": draw.sum_grad(row_sum),
    }
    return Case.of("NsaSelectedAttentionGrad", inputs, forward.attrs, forward.dtype, forward.name)


def nsa_selected_attention_grad(draw):
    return selected_attention_grad_of(nsa_selected_attention(draw), draw)


def nsa_dropout_mask(draw):
    keep_prob = float(np.float32(draw.pick((1.0, 0.9, 0.8, 0.5, 0.1, 1e-3, draw.rng.random()))))
    numel = draw.pick((0, 1, 7, 8, 9, 127, 128, 129, draw.between(1, 5000)))
    seed = draw.pick((0, 1, -1, 2**63 - 1, -(2**63), int(draw.rng.integers(-(2**63), 2**63))))
    return Case.of(
        "NsaDropoutMask",
        {"seed": np.array([seed], np.int64)},
        {"keep_prob": max(keep_prob, 1e-6), "numel": numel},
        draw.dtype,
    )


__all__ = [
    "Draw",
    "nsa_compress",
    "nsa_compress_attention",
    "nsa_compress_grad",
    "nsa_dropout_mask",
    "nsa_selected_attention",
    "nsa_selected_attention_grad",
    "selected_attention_grad_of",
    "selected_attention_of",
]
