"""Random cases of the operators that choose blocks and tokens by learned scores."""

import numpy as np

from mindspore_nsa.reference.segments import num_windows
from mindspore_nsa.testing.case import Case, run_reference
from mindspore_nsa.testing.dtypes import decode, encode

from .draw import DIMS, poison_from


def block_indexer(draw):
    score = draw.pick(("max", "mean", "relu_weighted", "softmax_max"))
    attrs = {"score": score, "block_size": draw.pick((1, 3, 8, 16, 40, 64))}
    groups, width = draw.between(1, 3), draw.pick((1, 1, 2, 4, 16))
    key_heads = draw.pick((1, groups))
    if key_heads != groups or draw.chance(0.3):
        attrs["head_groups"] = groups
    dim = draw.pick(DIMS)
    side = int(np.clip(np.sqrt(draw.pick((2e5, 1e6)) / (groups * width * dim)), 2, 400))
    block = attrs["block_size"]
    q_lengths = draw.lengths([1, 2, block, block + 1, 2 * block + 1, 97, side], max(2 * side, 4))
    q_offset = None
    if draw.chance(0.4):
        q_offset = [draw.between(0, 4 * block) for _ in q_lengths]
    starts = q_offset or [0] * len(q_lengths)
    ends = [start + length for start, length in zip(starts, q_lengths, strict=True)]
    kv_lengths = list(ends)
    if score == "softmax_max":
        s = draw.pick((1, 2, 5, 16))
        l = s * draw.between(1, 3) + draw.pick((0, 0, s - 1))  # noqa: E741
        attrs |= {"compress_block_size": l, "compress_stride": s}
        kv_lengths = [num_windows(end, l, s) for end in ends]
    if draw.chance(0.3):  # fewer than queries see, or more
        kv_lengths = [draw.between(0, n + 3) for n in kv_lengths]
    if score == "softmax_max" and kv_lengths == q_lengths:
        kv_lengths[-1] = max(0, kv_lengths[-1] - 1)  # as many would be keys without compression
    used = sum(kv_lengths)
    tokens = used + (draw.pick((0, 3)) if score == "softmax_max" else 0)
    if tokens == 0:
        kv_lengths[-1] = used = tokens = 1
    attrs["block_count"] = count = draw.pick((1, 2, 5, 16))
    if draw.chance(0.6):
        attrs["init_blocks"] = draw.between(0, min(2, count))
        attrs["local_blocks"] = draw.between(0, min(3, count - attrs["init_blocks"]))
    if draw.chance(0.8):
        attrs["scale"] = draw.scale(dim) * draw.pick((1, 1, 1, 1, -1, 0))
    queries, heads = sum(q_lengths), groups * width
    weights = score != "softmax_max" and draw.chance(0.6)
    inputs = {
        "query": draw.query(queries, heads, dim),
        "key": poison_from(draw.tensor(tokens, key_heads, dim), used),
        "weights": draw.floats(queries, heads) if weights else None,
        "actual_seq_qlen": draw.prefix_sums(q_lengths),
        "actual_seq_kvlen": draw.prefix_sums(kv_lengths),
        "q_offset": None if q_offset is None else draw.int_list(q_offset),
    }
    return Case.of("BlockIndexer", inputs, attrs, draw.dtype)


def _token_lengths(draw, side):
    """Queries and keys of each batch element, and whether they are packed."""
    q_lengths = draw.lengths([1, 2, 5, 17, 97, side], max(2 * side, 4))
    pool = (0, 1, 15, 64, 65, 130, 300, side)
    kv_lengths = [n if draw.chance(0.4) else draw.pick(pool) for n in q_lengths]
    return q_lengths, kv_lengths, draw.chance(0.5)


def _token_inputs(draw, q_lengths, kv_lengths, packed, tensor, heads, key_heads, dim):
    """Queries, keys, weights and lists; rows that belong to nothing are NaN."""
    lists = {}
    if packed:
        rows, keys = ((sum(x) + draw.pick((0, 0, 3)),) for x in (q_lengths, kv_lengths))
        keys = (max(keys[0], 1),)
        lists["actual_seq_lengths_query"] = draw.prefix_sums(q_lengths)
        lists["actual_seq_lengths_key"] = draw.prefix_sums(kv_lengths)
    else:
        rows = (len(q_lengths), max(q_lengths))
        keys = (len(kv_lengths), max(1, max(kv_lengths) + draw.pick((0, 3))))
        if min(q_lengths) < rows[1] or draw.chance(0.3):
            lists["actual_seq_lengths_query"] = draw.int_list(q_lengths)
        if min(kv_lengths) < keys[1] or draw.chance(0.3):
            lists["actual_seq_lengths_key"] = draw.int_list(kv_lengths)
    key = tensor(*keys, key_heads, dim)
    if packed:
        key = poison_from(key, sum(kv_lengths))
    weights = draw.floats(*rows, heads)
    return rows, {"query": tensor(*rows, heads, dim), "key": key, "weights": weights, **lists}


def _picks(draw, shape, keys, count, past):
    """Random places of keys and some past them; with a count as many different ones, all keys."""
    if count:
        rows = np.broadcast_to(np.arange(keys, dtype=np.int32), (*shape[:-1], keys))
        return np.ascontiguousarray(draw.rng.permuted(rows, axis=-1)[..., :count])
    return draw.rng.integers(-1, keys + past, shape).astype(np.int32)


def _token_setup(draw):
    key_heads, width, dim = draw.pick((1, 1, 2)), draw.pick((1, 2, 4, 16)), draw.pick(DIMS)
    heads = key_heads * width
    side = int(np.clip(np.sqrt(draw.pick((2e5, 1e6)) / (heads * dim)), 2, 400))
    return heads, key_heads, dim, side


def lightning_indexer(draw, lengths=None):
    heads, key_heads, dim, side = _token_setup(draw)
    q_lengths, kv_lengths, packed = lengths or _token_lengths(draw, side)
    rows, inputs = _token_inputs(
        draw, q_lengths, kv_lengths, packed, draw.tensor, heads, key_heads, dim
    )
    if draw.chance(0.2):
        inputs["weights"] = None
    attrs = {
        "sparse_count": draw.pick((1, 2, 16, 50, 130, 300)),
        "sparse_mode": draw.pick((0, 3, 3)),
        "return_value": draw.pick((0, 1)),
    }
    layout = "TND" if packed else "BSND"
    attrs |= {"layout_query": layout, "layout_key": layout}
    if draw.chance(0.3):
        attrs["compress_ratio"] = ratio = draw.between(1, 4)
        residual = [draw.between(0, ratio - 1) for _ in q_lengths]
        inputs["compress_residual"] = draw.int_list(residual) if draw.chance(0.6) else None
    if draw.chance(0.25):
        attrs |= {"layout_key": "PA_BSND", "return_value": 0}
        page = draw.pick((1, 5, 16, 64))
        places = max(1, -(-max(kv_lengths) // page))
        pages = places * len(q_lengths) + 2
        table = draw.rng.permutation(pages)[: places * len(q_lengths)].reshape(-1, places)
        inputs["key"] = draw.tensor(pages, page, key_heads, dim)
        inputs["actual_seq_lengths_key"] = draw.int_list(kv_lengths)
        inputs["block_table"] = table.astype(np.int32)
    return Case.of("LightningIndexer", inputs, attrs, draw.dtype)


def lightning_indexer_grad(draw, lengths=None, picks=None):
    """Queries and keys are quarters, whose products are exact: nobody is in doubt about ReLU."""
    heads, key_heads, dim, side = _token_setup(draw)
    q_lengths, kv_lengths, packed = lengths or _token_lengths(draw, side)

    def quarters(*shape):
        return encode(draw.rng.integers(-6, 7, shape).astype(np.float32) / 4, draw.dtype)

    rows, inputs = _token_inputs(
        draw, q_lengths, kv_lengths, packed, quarters, heads, key_heads, dim
    )
    shape = (*rows, key_heads, picks or draw.pick((1, 3, 40, 129, 200)))
    inputs["sparse_indices"] = _picks(draw, shape, max(kv_lengths), picks, 2)
    inputs["sparse_values_grad"] = draw.tensor(*shape)
    if draw.chance(0.2):
        inputs["weights"] = None
    layout = "TND" if packed else "BSND"
    attrs = {"layout_query": layout, "layout_key": layout}
    return Case.of("LightningIndexerGrad", inputs, attrs, draw.dtype)


def sparse_flash_attention(draw, lengths=None, picks=None):
    heads, key_heads, dim, side = _token_setup(draw)
    q_lengths, kv_lengths, packed = lengths or _token_lengths(draw, min(side, 120))
    rows, inputs = _token_inputs(
        draw, q_lengths, kv_lengths, packed, draw.tensor, heads, key_heads, dim
    )
    del inputs["weights"]
    key = inputs["key"]
    lead = decode(key).shape[:-1]
    block, count = draw.pick((1, 1, 1, 4, 16, 64)), draw.pick((1, 2, 7, 40, 130))
    if picks:
        block, count = 1, picks
    value_dim = draw.pick((dim, dim, *DIMS[:3]))
    inputs["value"] = key if draw.chance(0.5) else draw.tensor(*lead, value_dim)
    if packed:
        inputs["value"] = poison_from(inputs["value"], sum(kv_lengths))
    inputs["actual_seq_lengths_kv"] = inputs.pop("actual_seq_lengths_key", None)
    layout = "TND" if packed else "BSND"
    attrs = {
        "scale_value": draw.scale(dim),
        "sparse_block_size": block,
        "sparse_mode": draw.pick((0, 3, 3)),
        "return_softmax_lse": draw.pick((0, 1)),
        "layout_query": layout,
        "layout_kv": layout,
    }
    if draw.chance(0.4):
        ropes = draw.pick((4, 16))
        attrs["attention_mode"] = 2
        inputs["query_rope"] = draw.tensor(*rows, heads, ropes)
        inputs["key_rope"] = draw.tensor(*lead, ropes)
        if packed:
            inputs["key_rope"] = poison_from(inputs["key_rope"], sum(kv_lengths))
    blocks = max(1, -(-max(kv_lengths) // block))
    shape = (*rows, key_heads, count)
    inputs["sparse_indices"] = _picks(draw, shape, blocks, picks, 1)
    if draw.chance(0.3):
        inputs["sinks"] = draw.floats(heads)
    return Case.of("SparseFlashAttention", inputs, attrs, draw.dtype)


def sparse_flash_attention_grad(draw, lengths=None, picks=None):
    """The gradient's case of a forward case, whose reference gives output and statistics."""
    forward = sparse_flash_attention(draw, lengths, picks)
    asked = Case.of(
        forward.op, forward.named(), forward.attrs | {"return_softmax_lse": 1}, forward.dtype
    )
    out, _, row_sum = run_reference(asked)
    inputs = {
        **forward.named(),
        "attention_out": encode(out, forward.dtype),
        "attention_out_grad": draw.tensor(*out.shape),
        "softmax_sum_grad": draw.sum_grad(row_sum),
    }
    del inputs["block_table"]
    return Case.of("SparseFlashAttentionGrad", inputs, forward.attrs, forward.dtype)


def _quarters(draw, *shape):
    """Whose products are exact: nobody is in doubt about ReLU."""
    return encode(draw.rng.integers(-6, 7, shape).astype(np.float32) / 4, draw.dtype)


def _indexer(draw, rows, lead, groups):
    """Queries, keys and weights of an indexer whose scores are of the size of 1."""
    width, dim = draw.pick((1, 2, 4, 16)), draw.pick(DIMS)
    weights = draw.floats(*rows, groups * width) * np.float32(2 / np.sqrt(groups * width * dim))
    return {
        "query_index": _quarters(draw, *rows, groups * width, dim),
        "key_index": _quarters(draw, *lead, groups, dim),
        "weights": weights,
    }


def _kl_setup(draw, lengths):
    """An attention and an indexer: (key heads of it, lengths of keys, whether packed, inputs)."""
    key_heads, width, dim = draw.pick((1, 1, 2, 4)), draw.pick((1, 2, 4, 16)), draw.pick(DIMS)
    groups = draw.pick([n for n in (1, 2, 4) if key_heads % n == 0])
    heads = key_heads * width
    side = int(np.clip(np.sqrt(draw.pick((1e5, 4e5)) / (heads * dim)), 2, 100))
    q_lengths, kv_lengths, packed = lengths or _token_lengths(draw, side)
    rows, inputs = _token_inputs(
        draw, q_lengths, kv_lengths, packed, draw.tensor, heads, key_heads, dim
    )
    lead = decode(inputs["key"]).shape[:-2]
    inputs |= _indexer(draw, rows, lead, groups)
    inputs["actual_seq_qlen"] = inputs.pop("actual_seq_lengths_query", None)
    inputs["actual_seq_klen"] = inputs.pop("actual_seq_lengths_key", None)
    if draw.chance(0.4):
        ropes = draw.pick((4, 16))
        inputs["query_rope"] = draw.tensor(*rows, heads, ropes)
        inputs["key_rope"] = draw.tensor(*lead, key_heads, ropes)
    if packed:
        for name in ("key_index", *(["key_rope"] if "key_rope" in inputs else [])):
            inputs[name] = poison_from(inputs[name], sum(kv_lengths))
    layout = "TND" if packed else "BSND"
    attrs = {"scale_value": draw.scale(dim), "sparse_mode": draw.pick((0, 3, 3)), "layout": layout}
    return (rows, groups, key_heads), kv_lengths, inputs, attrs


def _attention_statistics(inputs, picks, attrs, dtype):
    """Statistics of the attention over selected tokens for each key head."""
    attention = {
        **{name: inputs[name] for name in ("query", "key")},
        **{name: inputs.get(name) for name in ("query_rope", "key_rope")},
        "value": inputs["key"],
        "sparse_indices": picks,
        "actual_seq_lengths_query": inputs["actual_seq_qlen"],
        "actual_seq_lengths_kv": inputs["actual_seq_klen"],
    }
    of_attention = {
        "scale_value": attrs["scale_value"],
        "sparse_mode": attrs["sparse_mode"],
        "attention_mode": 2 if "query_rope" in inputs else 0,
        "return_softmax_lse": 1,
        "layout_query": attrs["layout"],
        "layout_kv": attrs["layout"],
    }
    _, top, total = run_reference(Case.of("SparseFlashAttention", attention, of_attention, dtype))
    return {"softmax_max": top.astype(np.float32), "softmax_sum": total.astype(np.float32)}


def sparse_kl_loss(draw, lengths=None, picks=None):
    """A loss over random tokens, some of which repeat or are none."""
    (rows, groups, key_heads), kv_lengths, inputs, attrs = _kl_setup(draw, lengths)
    shape = (*rows, groups, picks or draw.pick((1, 2, 7, 40, 130, 200)))
    picks = _picks(draw, shape, max(kv_lengths), picks, 2)
    for_heads = np.repeat(picks, key_heads // groups, axis=-2)
    inputs |= _attention_statistics(inputs, for_heads, attrs, draw.dtype)
    inputs["sparse_indices"] = picks
    return Case.of("SparseLightningIndexerGradKLLoss", inputs, attrs, draw.dtype)


_OF_INDEXER = ("query_index", "key_index", "weights", "actual_seq_qlen", "actual_seq_klen")


def _log_sum_case(inputs, attrs, dtype):
    attrs = {name: attrs[name] for name in ("sparse_mode", "layout")}
    named = {name: inputs[name] for name in _OF_INDEXER}
    return Case.of("DenseLightningIndexerSoftmaxLse", named, attrs, dtype)


def dense_softmax_lse(draw, lengths=None):
    _, _, inputs, attrs = _kl_setup(draw, lengths)
    return _log_sum_case(inputs, attrs, draw.dtype)


def dense_kl_loss(draw, lengths=None):
    """A loss over all keys."""
    (rows, _, key_heads), kv_lengths, inputs, attrs = _kl_setup(draw, lengths)
    every = np.arange(max(1, max(kv_lengths)), dtype=np.int32)
    every = np.broadcast_to(every, (*rows, key_heads, len(every))).copy()
    inputs |= _attention_statistics(inputs, every, attrs, draw.dtype)
    top, total = run_reference(_log_sum_case(inputs, attrs, draw.dtype))
    inputs["softmax_max_index"] = top.astype(np.float32)
    inputs["softmax_sum_index"] = total.astype(np.float32)
    return Case.of("DenseLightningIndexerGradKLLoss", inputs, attrs, draw.dtype)


__all__ = [
    "block_indexer",
    "dense_kl_loss",
    "dense_softmax_lse",
    "lightning_indexer",
    "lightning_indexer_grad",
    "sparse_flash_attention",
    "sparse_flash_attention_grad",
    "sparse_kl_loss",
]
