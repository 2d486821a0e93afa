"""The table of aclnn_elements, of functions that models and their training call."""

import ctypes
import math

import numpy as np

from .aclnn_dimensions import BAD_INDEX, unit
from .aclnn_elements import NO_ATTRIBUTE, A, B, f32, larger_of, row
from .calls import Bools, Number, Out, Scalar, dtype

half = np.float16
WIDE = A.astype(np.float64)


def text(value):
    return ctypes.c_char_p(value.encode())


# Activations.
TANH = np.tanh(math.sqrt(2 / math.pi) * (WIDE + 0.044715 * WIDE**3))
RATE = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * WIDE**2)
SHARE = 0.5 * (1 + np.vectorize(math.erf)(WIDE / math.sqrt(2)))
DENSITY = np.exp(-(WIDE**2) / 2) / math.sqrt(2 * math.pi)
SLOPE = 0.5 * (1 + TANH) + 0.5 * WIDE * (1 - TANH**2) * RATE
UP = A[::-1].copy()
row("Relu", A, Out(np.maximum(A, 0)))
row(
    *("ThresholdBackward", UP, A, Scalar(1), Out(np.where(A > 1, UP, 0))),
    dtype={0: UP.astype(np.int64)},
    attribute={2: None},
)
row("Erf", A, Out(f32(np.vectorize(math.erf)(WIDE))))
Y = np.tanh(A)
row("TanhBackward", A, Y, Out(f32(WIDE * (1 - Y.astype(np.float64) ** 2))))
row("Gelu", A, Out(f32(0.5 * WIDE * (1 + TANH))), dtype={1: Out(np.zeros(A.shape, half))})
row("GeluBackward", UP, A, Out(f32(UP * SLOPE)))
ONE = unit(1, ctypes.c_int64)
row("GeluV2", A, ONE, Out(f32(0.5 * WIDE * (1 + TANH))), attribute={1: unit(2, ctypes.c_int64)})
row(
    *("GeluBackwardV2", UP, A, text("none"), Out(f32(UP * (SHARE + WIDE * DENSITY)))),
    dtype={3: Out(np.zeros(A.shape, half))},
    attribute={2: text("erf")},
)
NO_ATTRIBUTE |= {"Relu", "Erf", "TanhBackward", "Gelu", "GeluBackward"}

# LayerNorm. A number says which argument is another.
MEAN = WIDE.mean(1, keepdims=True)
RSTD = 1 / np.sqrt(WIDE.var(1, keepdims=True) + 0.5)
NORMED = (WIDE - MEAN) * RSTD
row(
    *("LayerNorm", A, (4,), B, -B, 0.5, Out(f32(NORMED * B - B)), Out(f32(MEAN)), Out(f32(RSTD))),
    shape={3: B[:3].copy()},
    dtype={3: B.astype(half)},
    attribute={1: (3,)},
)
SCALED = UP.astype(np.float64) * B
LEVEL = SCALED.mean(1, keepdims=True) + NORMED * (SCALED * NORMED).mean(1, keepdims=True)
row(
    *("LayerNormBackward", UP, A, (4,), f32(MEAN), f32(RSTD), B, B, Bools((True, True, True))),
    *(Out(f32(RSTD * (SCALED - LEVEL))), Out(f32((UP * NORMED).sum(0))), Out(UP.sum(0))),
    shape={3: f32(MEAN[:2])},
    dtype={4: RSTD.astype(half)},
    attribute={7: Bools((True, True))},
)

# A class for each row, of which one is left out.
CLASSES = np.array([3, 1, 0], np.int32)
LOGS, WEIGHTS = -np.abs(A), np.abs(B)
USED = WEIGHTS[CLASSES] * (CLASSES != 1)
LOSSES = -USED * LOGS[range(3), CLASSES]
MARKS = np.eye(4, dtype=np.float32)[CLASSES]
MEAN_OF_ALL, IGNORED = unit(1, ctypes.c_int64), unit(1, ctypes.c_int64)
row(
    *("NLLLoss", LOGS, CLASSES, WEIGHTS, MEAN_OF_ALL, IGNORED),
    *(Out(f32([LOSSES.sum() / USED.sum()])), Out(f32([USED.sum()]))),
    dtype={2: WEIGHTS.astype(half)},
    attribute={3: unit(3, ctypes.c_int64)},
)
row(
    *("NLLLossBackward", f32([0.5]), LOGS, CLASSES, WEIGHTS, MEAN_OF_ALL, IGNORED),
    *(f32([USED.sum()]), Out(f32(-0.5 * MARKS * USED[:, None] / USED.sum()))),
    dtype={6: np.array([6], half)},
    attribute={4: unit(-1, ctypes.c_int64)},
)
BAD_CLASS = np.array([3, 4, 0], np.int32)
LAST = MEAN_OF_ALL, unit(-100, ctypes.c_int64)
BAD_INDEX["NLLLoss"] = LOGS, BAD_CLASS, WEIGHTS, *LAST, Out(f32([0])), Out(f32([0]))
BAD_INDEX["NLLLossBackward"] = (
    *(f32([1]), LOGS, -BAD_CLASS, WEIGHTS, *LAST, f32([1])),
    Out(LOGS),
)

# Sums by place; the indices may be fewer than the values.
WHERE = np.array([[3, 3], [0, 1]], np.int64)
ADDED = A.copy()
np.add.at(ADDED, (np.array([[0, 0], [1, 1]]), WHERE), UP[:2, :2])
row(
    *("ScatterAdd", A, 1, WHERE, UP[:2, :3].copy(), Out(ADDED)),
    shape={3: UP[:2, :1].copy()},
    dtype={2: WHERE.astype(np.int16)},
    attribute={1: 2},
)
BAD_INDEX["ScatterAdd"] = A, 1, -WHERE, UP[:2, :2].copy(), Out(A)

INT = np.arange(12, dtype=np.int32).reshape(3, 4)
row(
    *("InplaceAdd", Out(f32(A + 0.5 * B), A), B, Scalar(0.5)),
    shape={1: UP[:, :3].copy()},
    dtype={1: B.astype(np.uint32)},
    attribute={0: Out(INT), 1: INT},
)
row(
    *("InplaceMul", Out(A * B, A), B),
    shape={1: UP[:, :3].copy()},
    dtype={1: B.astype(np.uint32)},
)
NO_ATTRIBUTE.add("InplaceMul")
row(
    "MaxDim", A, -1, True, Out(A.max(1, keepdims=True)), Out(A.argmax(1)[:, None]), attribute={1: 2}
)
row(
    *("Cumsum", INT, -1, dtype("int64"), Out(np.cumsum(INT, 1, np.int64))),
    attribute={2: dtype("int32")},
)
row("BitwiseAndTensor", INT, INT[0] - 2, Out(INT & (INT[0] - 2)), dtype={0: A})
NO_ATTRIBUTE.add("BitwiseAndTensor")
PADDED = np.pad(A[1:], ((0, 2), (3, 1)), constant_values=0.5)
row(
    *("ConstantPadNd", A, (3, 1, -1, 2), Scalar(0.5), Out(PADDED)),
    attribute={1: (3, 1, -1)},
)
PACE = Scalar(1.5), Scalar(6), Scalar(0.5)
row(
    "Arange",
    *PACE,
    Out(np.arange(1.5, 6, 0.5, np.float32)),
    dtype={3: Out(INT > 0)},
    attribute={2: Scalar(-1)},
)

# Masks.
CHOSEN = np.array([True, False, True, False])
row(
    *("InplaceMaskedFillScalar", Out(np.where(CHOSEN, np.float32(2.5), A), A), CHOSEN, Scalar(2.5)),
    shape={1: CHOSEN[:3].copy()},
    dtype={1: CHOSEN.astype(np.uint8)},
    attribute={2: None},
)
row(
    *("InplaceMaskedFillTensor", Out(np.where(CHOSEN, np.float32(2.5), A), A), CHOSEN),
    np.array(2.5, np.float32),
    shape={2: f32([2.5])},
    dtype={2: np.array(2, np.int16)},
)
NO_ATTRIBUTE.add("InplaceMaskedFillTensor")
row("Triu", A, ONE, Out(np.triu(A, 1)), shape={0: A[0].copy(), 2: Out(A[0])}, attribute={})
row("Tril", A, ONE, Out(np.tril(A, 1)), shape={0: A[0].copy(), 2: Out(A[0])}, attribute={})
NO_ATTRIBUTE |= {"Triu", "Tril"}
row(
    *("OneHot", CLASSES, unit(3, ctypes.c_int), f32([2]), f32([-1]), unit(0, ctypes.c_int64)),
    Out(np.where(np.arange(3)[:, None] == CLASSES, 2, -1).astype(np.float32)),
    dtype={0: CLASSES.astype(np.uint8)},
    attribute={4: unit(2, ctypes.c_int64)},
)

# Dropout. A mask has a bit for each element, and whole groups of 128.
BITS = np.packbits(np.resize(A > 0, 128), bitorder="little")
KEPT = np.unpackbits(BITS, count=A.size, bitorder="little").reshape(A.shape)
row(
    *("DropoutDoMask", A, BITS, 0.25, Out(f32(A * KEPT / 0.75))),
    shape={1: BITS[:2].copy()},
    attribute={2: 1.5},
)
row(
    *("DropoutGenMaskV2", (3, 4), 0.0, ONE, ONE, dtype("float16"), Out(np.full(16, 255, np.uint8))),
    dtype={4: dtype("int32")},
    attribute={1: -0.5},
)

# AdamW.
FIRST, SECOND, STEP = 0.25 * UP, A * A, np.array([2], np.int64)
RATES = {"lr": 0.5, "beta1": 0.75, "beta2": 0.875, "decay": 0.0625, "eps": 0.001}
first = 0.75 * FIRST - 0.25 * UP
second = 0.875 * SECOND + 0.125 * UP.astype(np.float64) ** 2
root = np.sqrt(second / (1 - 0.875**3)) + 0.001
weight = WIDE * (1 - 0.5 * 0.0625) - 0.5 * first / (1 - 0.75**3) / root
row(
    *("ApplyAdamWV2", Out(f32(weight), A), Out(f32(first), FIRST), Out(f32(second), SECOND), None),
    *(UP, STEP, *(Number(x, ctypes.c_float) for x in RATES.values()), False, True),
    shape={4: larger_of(UP)},
    dtype={5: STEP.astype(np.int32)},
    attribute={11: True},
)
