"""Forward calls of float32 and float16 whose rows see more keys than a step has, at and beyond the
edges of what they see: on AMX their products are sums of products of bf16, unless a tile meets a
number that is too large for that, or none."""

from functools import partial

import numpy as np

from mindspore_nsa.testing.case import INPUTS
from mindspore_nsa.testing.dtypes import decode, encode

from .draw import Draw
from .parity import causal_compress_attention, flash

_CALLS = {
    "causal": partial(flash, layout="BNSD", batch=1, n1=2, n2=1, s1=300, s2=460, d=128, dv=144,
                      mode=3),
    "band": partial(flash, layout="BSND", batch=1, n1=1, n2=1, s1=520, s2=510, d=128, mode=4,
                    pre=200, next_tokens=50),
    "segments": partial(flash, layout="TND", batch=2, n1=2, n2=1, s1=260, s2=790, d=128, mode=3,
                        seq_q=[100, 260], seq_kv=[90, 790]),
    "compressed": partial(causal_compress_attention, seq_q=[1100], n1=2, n2=1, d=128, dv=128, l=8,
                          s=4, select=16, init=1, local=2, importance="overlap"),
    "compressed segments": partial(causal_compress_attention, seq_q=[200, 1100], n1=1, n2=1, d=128,
                                   dv=128, l=4, s=2, select=8, count=4),
}  # fmt: skip
# Edits: the input of which a number becomes another one.
_EDITS = {
    "a large query": ("query", 3e9),
    "a large key": ("key", -3e9),
    "a large value": ("value", 3e9),
    "a query that is no number": ("query", np.nan),
    "a key that is no number": ("key", np.nan),
    "an infinite value": ("value", np.inf),
}
_EDITED = ("causal", "compressed")


def _build(call, dtype, edit):
    case = _CALLS[call](Draw(17, dtype))
    case.name = f"{call}, {edit}"
    if edit != "as it is":
        name, number = _EDITS[edit]
        place = INPUTS[case.op].index(name)
        x = decode(case.inputs[place]).copy()
        x.flat[x.size // 3] = number
        case.inputs[place] = encode(x, dtype)
    return case


def many_keys_cases():
    """{name: function that builds the case}."""
    names = [(call, "float16", "as it is") for call in _CALLS]
    names += [(call, "float32", "as it is") for call in _CALLS]
    names += [(call, "float32", edit) for call in _EDITED for edit in _EDITS]
    return {f"{call} {dtype}, {edit}": partial(_build, call, dtype, edit)
            for call, dtype, edit in names}  # fmt: skip
