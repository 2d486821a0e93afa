"""Right calls made wrong in one place, which every layer below Python must refuse."""

import numpy as np

from tests.common.cases import make_case

# Operators whose lists are lengths, which may fall from one row to the next.
_OF_LENGTHS = (
    "NsaCompressWithCache",
    "NsaCompressAttentionInfer",
    "NsaSelectedAttentionInfer",
    "NsaDecode",
)
_LISTS = (
    *("actual_seq_len", "actual_seq_qlen", "actual_seq_kvlen", "actual_cmp_seq_kvlen"),
    "actual_seq_klen",
)


def _beyond(values, rng):
    values[-1] += rng.integers(1 << 20, 1 << 40)


def _negative(values, rng):
    values[0] = -rng.integers(1, 1 << 40)


def _falling(values, rng):
    values[rng.integers(len(values) - 1)] = values[-1] + 1


def spoiled_cases(seeds):
    """One wrong call for each seed whose case has a sequence list or a tensor with rows."""
    cases = []
    for seed in seeds:
        for attempt in range(100):
            case = make_case(1_000_000 + seed * 100 + attempt)
            # With that layout the losses of an indexer take lengths, too.
            if case.op in _OF_LENGTHS or case.attrs.get("layout") == "BSND":
                continue
            lists = [i for i, name in enumerate(case.named()) if name in _LISTS]
            lists = [i for i in lists if case.inputs[i] is not None and len(case.inputs[i]) > 1]
            if lists:
                break
        rng = np.random.default_rng(seed)
        place = lists[rng.integers(len(lists))]
        values = case.inputs[place].astype(np.int64)
        (_beyond, _negative, _falling)[seed % 3](values, rng)
        case.inputs[place] = values
        case.name += f", {list(case.named())[place]} spoiled"
        cases.append(case)
    return cases
