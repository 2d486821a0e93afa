"""Calls of NsaCompress and NsaCompressGrad that Ascend accepts."""

import numpy as np

from mindspore_nsa.reference.segments import compressed_seq_len
from mindspore_nsa.testing.case import Case
from tests.common.cases import parity_cases
from tests.common.draw import Draw, poison_from

DTYPES = ("float16", "bfloat16")
HEADS = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 128)
DIMS = (16, 32, 48, 64, 64, 80, 112, 128, 128, 192, 240, 256)
# Elements of the input, about: a call on the twin takes some milliseconds.
ELEMENTS = 40_000


def _sizes(draw):
    """(l, s)"""
    stride = 16 * draw.pick((1, 1, 1, 2, 3, 4, 8))
    return draw.pick([n for n in range(stride, 129, 16) if n < stride + 64 or n == 128]), stride


def _lengths(draw, l, s, limit):  # noqa: E741
    if draw.chance(0.15):
        return draw.many_lengths(min(limit, 60))
    pool = [1, l - 1, l, l, l + 1, l + s - 1, l + s, 2 * l + s, l + 5 * s + 3, 97, 400]
    return draw.lengths([n for n in pool if n <= limit], limit)


def _setup(draw):
    l, s = _sizes(draw)  # noqa: E741
    heads, dim = draw.pick(HEADS), draw.pick(DIMS)
    limit = max(l + s, min(2000, ELEMENTS // (heads * dim)))
    # Where even two windows are too much, fewer columns, and fewer heads only after that.
    dim = max([n for n in DIMS if n <= dim and heads * n * limit <= 4 * ELEMENTS] or [DIMS[0]])
    heads = max(1, min(heads, 4 * ELEMENTS // (dim * limit)))
    lengths = _lengths(draw, l, s, limit)
    attrs = {"compress_block_size": l, "compress_stride": s}
    return attrs, lengths, heads, dim, int(compressed_seq_len(np.cumsum(lengths), l, s)[-1])


def _most_open(draw):
    """A long segment under wide windows: as many are open at a time as there is room for."""
    l, s = 128, 16  # noqa: E741
    heads, dim = draw.pick((1, 2, 3)), draw.pick((16, 32, 64))
    lengths = [l + s * draw.pick((40, 60)), draw.pick((0, 97, l))]
    attrs = {"compress_block_size": l, "compress_stride": s}
    return attrs, lengths, heads, dim, int(compressed_seq_len(np.cumsum(lengths), l, s)[-1])


def nsa_compress(draw):
    attrs, lengths, heads, dim, exact = _setup(draw)
    inputs = {
        "input": draw.tensor(sum(lengths), heads, dim),
        "weight": draw.tensor(attrs["compress_block_size"], heads),
        "actual_seq_len": np.cumsum(lengths).astype(np.int64),
    }
    rows = exact + draw.pick((0, 0, 0, 1, 7))
    return Case.of("NsaCompress", inputs, {**attrs, "num_windows": rows}, draw.dtype)


def nsa_compress_grad(draw):
    attrs, lengths, heads, dim, exact = (_most_open if draw.most_open else _setup)(draw)
    rows = exact + draw.pick((0, 0, 0, 1, 7))
    inputs = {
        "output_grad": poison_from(draw.tensor(rows, heads, dim), exact),
        "input": draw.tensor(sum(lengths), heads, dim),
        "weight": draw.tensor(attrs["compress_block_size"], heads),
        "actual_seq_len": np.cumsum(lengths).astype(np.int64),
    }
    return Case.of("NsaCompressGrad", inputs, attrs, draw.dtype)


GENERATORS = {"NsaCompress": nsa_compress, "NsaCompressGrad": nsa_compress_grad}


def make_case(op, seed):
    """The random case of that seed."""
    draw = Draw(seed)
    draw.dtype = DTYPES[seed % 2]
    draw.most_open = seed % 8 == 5
    case = GENERATORS[op](draw)
    case.name = f"seed {seed}"
    return case


def parity(op):
    """The named cases of an operator: {name: function that builds the case}."""
    start = {"NsaCompress": "compress ", "NsaCompressGrad": "compress_grad "}[op]
    return {name: build for name, build in parity_cases().items() if name.startswith(start)}
