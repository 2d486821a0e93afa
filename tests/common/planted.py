"""Random calls with a few numbers that are infinite or NaN, and calls in which a key of infinite
value has a probability that becomes 0."""

import numpy as np

from mindspore_nsa.testing.case import INPUTS, Case
from mindspore_nsa.testing.dtypes import DTYPES, decode, dtype_name, encode

from .cases import GENERATORS
from .draw import Draw
from .flash_cases import flash_attention_score_grad_of
from .nsa_cases import selected_attention_grad_of

GRADIENT_OF = {
    "FlashAttentionScore": flash_attention_score_grad_of,
    "NsaSelectedAttention": selected_attention_grad_of,
}
OPERATORS = (
    "FlashAttentionScore",
    "NsaSelectedAttention",
    "NsaCompressAttention",
    "NsaCompressAttentionInfer",
    "NsaSelectedAttentionInfer",
    "NsaDecode",
)
INTO_FORWARD = {
    *("query", "key", "value", "real_shift", "sink", "gates"),
    *("key_cmp", "value_cmp", "key_slc", "value_slc", "key_win", "value_win"),
}
INTO_GRADIENT = {"dy", "attention_out_grad"}  # the others belong to the statistics
VALUES = np.array([np.inf, -np.inf, np.nan])


def _plant(draw, case, names):
    """A few numbers of one or two inputs become infinite or NaN."""
    tensors = [
        place
        for place, name in enumerate(INPUTS[case.op])
        if name in names and case.inputs[place] is not None and decode(case.inputs[place]).size
    ]
    for place in draw.rng.permutation(tensors)[: draw.pick((1, 1, 2))]:
        x = decode(case.inputs[place]).copy()
        for _ in range(draw.pick((1, 1, 3))):
            x.flat[draw.rng.integers(x.size)] = draw.rng.choice(VALUES)
        case.inputs[place] = encode(x, dtype_name(case.inputs[place]))


def planted_cases(op, seed):
    """A forward call of that seed, and its gradient where an operator computes it."""
    draw = Draw(seed)
    forward = GENERATORS[op](draw)
    forward.name = f"seed {seed}, planted"
    _plant(draw, forward, INTO_FORWARD)
    if op not in GRADIENT_OF:
        return [forward]
    with np.errstate(invalid="ignore"):
        gradient = GRADIENT_OF[op](forward, draw)
    if draw.chance(0.3):
        _plant(draw, gradient, INTO_GRADIENT)
    return [forward, gradient]


KEYS, HEADS, GROUP, DIM = 600, 2, 3, 16
# Scores of keys: the first one's is far below the later ones', by one step or by several, or as far
# as the last.
STAIRS = {
    "one step": {0: 0, 400: 200},
    "several steps": {0: -60, 1: 0, 300: 50, 550: 70},
    "a step that leaves it": {0: 0, 400: 80},
}


def _tensors(stairs, dtype, value):
    """Queries [3, N1, D] of ones, keys and values [KEYS, N2, D]; value of the first key's value."""
    rng = np.random.default_rng(5)
    query = np.ones((3, HEADS * GROUP, DIM), np.float32)
    key, values = (rng.standard_normal((KEYS, HEADS, DIM), np.float32) / 8 for _ in range(2))
    for place, score in stairs.items():
        key[place] = score / DIM
    values[0, :, 3] = value
    return [encode(x, dtype) for x in (query, key, values)]


def _flash(tensors, sink):
    query, key, value = tensors
    inputs = {"query": query, "key": key, "value": value, "sink": sink}
    lengths = {"actual_seq_qlen": [3], "actual_seq_kvlen": [KEYS]}
    inputs.update({name: np.array(x, np.int64) for name, x in lengths.items()})
    attrs = {"head_num": HEADS * GROUP, "input_layout": "TND", "scalar_value": 1.0}
    return "FlashAttentionScore", inputs, attrs


def _compress(tensors):
    query, key, value = tensors
    inputs = {"query": query, "key": key, "value": value}
    lengths = {"actual_seq_qlen": [3], "actual_cmp_seq_kvlen": [KEYS]}
    inputs.update({name: np.array(x, np.int64) for name, x in lengths.items()})
    attrs = {
        **{"head_num": HEADS * GROUP, "scale_value": 1.0, "causal": 0, "importance": "cann"},
        **{"compress_block_size": 4, "compress_stride": 2, "select_block_size": 4},
        **{"select_block_count": 9, "init_blocks": 0, "local_blocks": 0},
    }
    return "NsaCompressAttention", inputs, attrs


def _selected(tensors):
    query, key, value = tensors
    block = 50
    chosen = np.tile(np.arange(KEYS // block, dtype=np.int32), (3, HEADS, 1))
    inputs = {"query": query, "key": key, "value": value, "topk_indices": chosen}
    lengths = {"actual_seq_qlen": [3], "actual_seq_kvlen": [KEYS]}
    inputs.update({name: np.array(x, np.int64) for name, x in lengths.items()})
    attrs = {
        **{"head_num": HEADS * GROUP, "scale_value": 1.0, "causal": 0},
        **{"select_block_size": block, "select_block_count": KEYS // block},
    }
    return "NsaSelectedAttention", inputs, attrs


def _selected_infer(tensors):
    _, inputs, attrs = _selected(tensors)
    inputs = {
        **{name: inputs[name] for name in ("query", "topk_indices")},
        **{name: _one_row(inputs[name]) for name in ("key", "value")},
        "actual_seq_kvlen": np.array([KEYS], np.int64),
        "actual_seq_qlen": np.array([3], np.int64),
    }
    del attrs["causal"]
    attrs.update(key_value_head_num=HEADS, page_block_size=KEYS, layout="TND")
    return "NsaSelectedAttentionInfer", inputs, attrs


def _compress_infer(tensors):
    _, inputs, attrs = _compress(tensors)
    query = encode(decode(inputs["query"])[:1], dtype_name(inputs["query"]))
    inputs = {
        "query": query,
        **{name: _one_row(inputs[name]) for name in ("key", "value")},
        "actual_cmp_seq_kvlen": np.array([KEYS], np.int64),
    }
    del attrs["causal"]
    attrs.update(key_value_head_num=HEADS, page_block_size=KEYS, layout="TND")
    return "NsaCompressAttentionInfer", inputs, attrs


def _one_row(tensor):
    return encode(decode(tensor)[None], dtype_name(tensor))


def vanishing_cases():
    """Calls in which the first key's value is infinite or NaN, and its probability is below 2^-126,
    or just above."""
    cases = []
    for number, (name, stairs) in enumerate(STAIRS.items()):
        for dtype in DTYPES:
            value = VALUES[(number + DTYPES.index(dtype)) % 3]
            tensors = _tensors(stairs, dtype, value)
            sink = np.full(HEADS * GROUP, 300, np.float32)
            calls = (
                *(_flash(tensors, None), _flash(_tensors({0: 0}, dtype, value), sink)),
                *(_compress(tensors), _selected(tensors)),
                *(_compress_infer(tensors), _selected_infer(tensors)),
            )
            cases += [
                Case.of(op, inputs, attrs, dtype, f"{name}, {value}") for op, inputs, attrs in calls
            ]
    return cases


def nan_row_cases():
    """Importance in rows that are NaN: of all keys but those whose score is -inf, whether their
    probability would be 0 or not."""
    cases = []
    for dtype in DTYPES:
        query, key, value = _tensors({0: 0, 400: 200}, dtype, 1.0)
        spoiled = decode(key).copy()
        spoiled[7, :, 2] = np.nan
        spoiled[100:109, :, 4] = -np.inf
        tensors = query, encode(spoiled, dtype), value
        cases += [
            Case.of(op, inputs, attrs, dtype, "a NaN and -inf")
            for op, inputs, attrs in (_compress(tensors), _compress_infer(tensors))
        ]
    return cases


__all__ = ["OPERATORS", "nan_row_cases", "planted_cases", "vanishing_cases"]
