"""Calls of NsaCompressAttention that Ascend accepts."""

from itertools import count

import numpy as np

from mindspore_nsa.testing.dtypes import BFLOAT16
from tests.common.cases import Case, parity_cases
from tests.common.draw import Draw
from tests.common.nsa_cases import nsa_compress_attention
from tests.common.tiles import around, tile

from .launch import raw

DTYPES = ("float16", BFLOAT16)
STEP_KEYS = tile("kStepKeys", "ascendc/attention/attention_sizes.h")
# Further seeds of a case that Ascend does not accept.
STEP = 1_000_000


def accepted(case):
    """Whether Ascend takes the head dimensions."""
    dim, value_dim = (raw(case.named()[name]).shape[2] for name in ("query", "value"))
    return case.dtype in DTYPES and dim % 16 == value_dim % 16 == 0 and value_dim <= dim <= 256


def _many_keys(draw):
    """A few queries and several steps, or windows, of keys; groups of every size."""
    s, n = draw.pick((1, 16)), draw.pick((1, 2, 3, 8))
    m = draw.pick((n, n + 1, 8, 11))
    group = draw.pick((1, 2, 5, 16, 24, 64))
    queries = [draw.pick((1, 3, 9, 40)) if group < 24 else draw.pick((1, 3)) for _ in range(2)]
    keys = [draw.pick((*around(STEP_KEYS), 1030, 2300) + (4700,) * (m > 1)) for _ in queries]
    causal = draw.chance(0.5)
    # So far on that the last key is seen by some of the queries.
    offsets = [max(0, s * (k - 1 + n) - draw.between(0, q)) for q, k in zip(queries, keys)]
    inputs = {
        "query": draw.query(sum(queries), group, 16),
        "key": draw.tensor(sum(keys), 1, 16),
        "value": draw.tensor(sum(keys), 1, 16),
        "actual_seq_qlen": draw.prefix_sums(queries),
        "actual_cmp_seq_kvlen": draw.prefix_sums(keys),
        "q_offset": draw.int_list(offsets) if causal else None,
    }
    if draw.chance(0.3):
        inputs["atten_mask"] = draw.mask(max(queries), max(keys) + 3)
    if draw.chance(0.3):
        blocks = -(-(max(keys) + n - 1) // m) + 70
        inputs["topk_mask"] = draw.mask(max(queries), blocks, density=0.01)
    chosen = draw.pick((1, 6, 16, 33, 128))
    init = min(chosen, draw.between(0, 2)) if causal else 0
    attrs = {
        "scale_value": 0.25,
        "head_num": group,
        "compress_block_size": n * s,
        "compress_stride": s,
        "select_block_size": max(m, n) * s,
        "select_block_count": chosen,
        "causal": int(causal),
        "init_blocks": init,
        "local_blocks": min(chosen - init, draw.between(0, 3)) if causal else 0,
        "importance": draw.pick(("cann", "overlap")),
    }
    return Case.of("NsaCompressAttention", inputs, attrs, draw.dtype)


def make_case(seed):
    """The random case of that seed; every fifth has many keys."""
    for attempt in count():
        draw = Draw(seed + attempt * STEP, DTYPES[seed % 2])
        case = _many_keys(draw) if seed % 5 == 4 else nsa_compress_attention(draw)
        if accepted(case):
            case.name = f"seed {seed}"
            return case


def parity():
    """The named cases that Ascend accepts: {name: function that builds the case}."""
    named = parity_cases()
    return {name: named[name] for name in named if name.startswith("compress_attention ")}


def blocks_of(case):
    """Selection blocks of every segment that has queries."""
    x, a = case.named(), case.attrs
    queries = np.diff([0, *x["actual_seq_qlen"]])
    if a["causal"]:
        offsets = x["q_offset"] if x["q_offset"] is not None else 0 * queries
        return [-(-(o + q) // a["select_block_size"]) for o, q in zip(offsets, queries) if q > 0]
    stride = a["compress_stride"]
    extra = a["compress_block_size"] // stride - 1 if a["importance"] == "overlap" else 0
    keys = np.diff([0, *x["actual_cmp_seq_kvlen"]])
    m = a["select_block_size"] // stride
    return [-(-(k + extra) // m) for k, q in zip(keys, queries) if q > 0]
