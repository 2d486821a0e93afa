"""The table of aclnn_elements, of functions that see dimensions: products, sums, parts, indices."""

import ctypes

import numpy as np

from .aclnn_elements import BITS, I3, ODD, TRUTH, A, B, f32, row
from .calls import Number, Out, Scalar, dtype


def unit(x, kind):
    return Number(x, kind)


def cube(x):
    return Number(x, ctypes.c_int8)


# Products.
M, N = A, np.arange(8, dtype=np.float32).reshape(4, 2) - 3
BATCH, COLUMNS = np.stack([M, 2 * M]), np.stack([N, N + 1])
half = np.float16
row("Mm", M, N, Out(M @ N), cube(0), attribute={3: cube(4)}, dtype={2: Out((M @ N).astype(half))})
row("BatchMatMul", BATCH, COLUMNS, Out(BATCH @ COLUMNS), cube(0), attribute={3: cube(-1)})
row(
    "Matmul",
    BATCH,
    N,
    Out(BATCH @ N),
    cube(0),
    attribute={
        0: BATCH.astype(half),
        1: N.astype(half),
        2: Out((BATCH @ N).astype(half)),
        3: cube(3),
    },
)
row(
    *("Addmm", N[0], M, N, Scalar(0.5), Scalar(2), Out(f32(2 * (M @ N) + 0.5 * N[0])), cube(0)),
    dtype={2: N.astype(half)},
    attribute={6: cube(7)},
)

# Reductions.
AXES = {1: (1, -1)}
row(
    "ReduceSum",
    I3,
    (1,),
    True,
    dtype("int64"),
    Out(I3.sum(1, keepdims=True, dtype=np.int64)),
    attribute={3: dtype("int32")},
)
row("Mean", A, (0,), False, dtype("float32"), Out(A.mean(0)), attribute=AXES)
row("Amax", A, (1,), False, Out(A.max(1)), attribute=AXES)
row("Amin", A, (0, 1), False, Out(A.min()), attribute=AXES)
row("Max", A, Out(A.max()))
row("All", BITS, (1,), False, Out(BITS.all(1)), attribute=AXES)
row("Any", BITS, (1,), True, Out(BITS.any(1, keepdims=True)), attribute=AXES)
row("AllFinite", ODD, Out(np.ones(1, TRUTH)), shape={1: Out(np.ones(2, TRUTH))})
row(
    "ArgMax",
    A,
    1,
    False,
    Out(A.argmax(1)),
    dtype={3: Out(np.zeros(3, np.float32))},
    attribute={1: 2},
)


# Rows.
def softmax(x, axis):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


P = f32(softmax(A, 1))
row("Softmax", A, 1, Out(P), attribute={1: 2})
row("LogSoftmax", A, 0, Out(f32(np.log(softmax(A, 0)))), attribute={1: -3})
row(
    *("SoftmaxBackward", A, P, 1, Out(f32(P * (A - (A * P).sum(1, keepdims=True))))),
    dtype={1: P.astype(half)},
    attribute={2: 2},
)
L = np.log(P)
row(
    *("LogSoftmaxBackward", A, L, 1, Out(f32(A - P * A.sum(1, keepdims=True)))),
    dtype={1: L.astype(half)},
    attribute={2: -3},
)
WIDE = A.astype(np.float64)
RSTD = 1 / np.sqrt((WIDE**2).mean(1, keepdims=True) + 0.5)
NORMED = WIDE * RSTD
row(
    *("RmsNorm", A, B, 0.5, Out(f32(NORMED * B)), Out(f32(RSTD))),
    shape={4: Out(f32(RSTD[:, 0]))},
    dtype={4: Out(RSTD.astype(half))},
)
SCALED = WIDE[::-1] * B
row(
    *("RmsNormGrad", A[::-1].copy(), A, f32(RSTD), B),
    Out(f32(RSTD * (SCALED - NORMED * (SCALED * NORMED).mean(1, keepdims=True)))),
    Out(f32((A[::-1] * NORMED).sum(0))),
    dtype={2: RSTD.astype(half)},
)

# Parts.
row("Cat", [A, A[:1]], 0, Out(np.concatenate([A, A[:1]])), attribute={1: 2})
row("Stack", [A, 2 * A], -1, Out(np.stack([A, 2 * A], -1)), attribute={1: 3})
row(
    *("SplitWithSize", A, (1, 3), 1, [Out(A[:, :1]), Out(A[:, 1:])]),
    shape={3: [Out(A[:, :2]), Out(A[:, 2:])]},
    dtype={3: [Out(A[:, :1]), Out(A[:, 1:].astype(half))]},
    attribute={1: (2, 2)},
)
row(
    *("SplitTensor", A, unit(3, ctypes.c_uint64), 1, [Out(A[:, :3]), Out(A[:, 3:])]),
    shape={3: [Out(A[:, :1]), Out(A[:, 1:])]},
    dtype={3: [Out(A[:, :3]), Out(A[:, 3:].astype(half))]},
    attribute={1: unit(1, ctypes.c_uint64)},
)
row("Repeat", A, (2, 1, 3), Out(np.tile(A, (2, 1, 3))), attribute={1: (-2, 1, 3)})
row("Permute", BATCH, (2, 0, 1), Out(BATCH.transpose(2, 0, 1)), attribute={1: (2, 0, 2)})

# Indices.
PLACES = np.array([2, 0, 2], np.int64)
GRID = np.array([[1, 0], [2, 2]], np.int32)
row(
    "IndexSelect",
    A,
    0,
    PLACES,
    Out(A[PLACES]),
    dtype={2: PLACES.astype(np.int16)},
    attribute={1: 2},
)
row("GatherV2", A, 1, GRID, Out(A[:, GRID]), dtype={2: GRID.astype(np.float32)}, attribute={1: -3})
row("Embedding", A, GRID, Out(A[GRID]), dtype={1: GRID.astype(np.uint8)})
GIVEN = np.stack([A[:2], 2 * A[1:]])
ROWS_OF = np.array([[1, 2], [2, 0]], np.int64)
SUMS = np.zeros((4, 4), np.float32)
np.add.at(SUMS, ROWS_OF, GIVEN)
SUMS[0] = 0
COUNTS = np.array([1, 1, 2, 1], np.float32)[:, None]
row(
    *("EmbeddingDenseBackward", GIVEN, ROWS_OF, unit(4, ctypes.c_uint64)),
    *(unit(0, ctypes.c_uint64), True, Out(SUMS / COUNTS)),
    attribute={2: unit(3, ctypes.c_uint64)},
)
ALONG = np.array([[3, 0], [1, 1]], np.int64)
row(
    "Gather",
    A,
    1,
    ALONG,
    Out(np.take_along_axis(A[:2], ALONG, 1)),
    dtype={2: ALONG.astype(np.int8)},
    attribute={1: 2},
)
EDGES = np.array([1, 3, 3, 8], np.float32)
ASKED = np.array([[0, 3], [9, 1]], np.float32)
found = np.searchsorted(EDGES, ASKED, "right").astype(np.int32)
row(
    *("SearchSorted", EDGES, ASKED, True, True, None, Out(found)),
    dtype={5: Out(found.astype(np.int64))},
    attribute={4: PLACES},
)

# An index that is negative, or too large, shows when the stream comes to the call.
BAD_INDEX = {
    "IndexSelect": (A, 0, np.array([0, -1], np.int64), Out(A[:2])),
    "GatherV2": (A, 0, np.array([3, 0], np.int64), Out(A[:2])),
    "Gather": (A, 1, np.array([[-1]], np.int64), Out(A[:1, :1])),
    "Embedding": (A, np.array([-1], np.int64), Out(A[:1])),
    "EmbeddingDenseBackward": (
        *(A[:1], np.array([-1], np.int64), unit(3, ctypes.c_uint64)),
        *(unit(2**64 - 1, ctypes.c_uint64), False, Out(A)),
    ),
}
