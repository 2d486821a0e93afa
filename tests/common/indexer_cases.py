"""Random cases of the operators that choose blocks and tokens by learned scores."""

import numpy as np

from mindspore_nsa.reference.segments import num_windows

from .case import Case
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


__all__ = ["block_indexer"]
