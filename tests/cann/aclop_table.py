"""CANN's operators by type: a call of each with NumPy's answer, and what is refused.

Each row is the inputs, the attributes, the outputs, then what replaces them to be wrong: outputs of
a wrong shape, (inputs, outputs) of a wrong dtype, attributes.
"""

import numpy as np

from .aclnn_elements import I3, A, B, J, f32, sigmoid  # noqa: F401
from .calls import CODES, Constant, Out

ROWS = {}
half = np.float16
POSITIVE = np.abs(A) + 1
BITS = A > 0


def larger(out):
    shape = out.expected.shape
    return Out(np.zeros((*shape[:-1], shape[-1] + 1) if shape else (2,), out.expected.dtype))


def other(out):
    """An output of another dtype."""
    return Out(np.zeros(out.expected.shape, half if out.expected.dtype != half else np.float32))


def row(name, inputs, outputs, attributes=None, wrong=None, dtype=None):
    """Without attributes of its own an operator has none, and refuses one."""
    assert name not in ROWS, name
    outputs = [Out(out) for out in outputs]
    shape = [larger(outputs[0]), *outputs[1:]]
    dtype = (inputs, [other(outputs[0]), *outputs[1:]]) if dtype is None else (dtype, outputs)
    ROWS[name] = inputs, attributes or {}, outputs, shape, dtype, wrong or {"no_such": 1}


def index(*values):
    return Constant(np.array(values, np.int64))


for name, f in {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "RealDiv": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "RsqrtGrad": lambda y, d: -0.5 * d * y**3,
    "SqrtGrad": lambda y, d: 0.5 * d / y,
}.items():
    row(name, [A, B], [f32(f(A.astype(np.float64), B))])
row("FloorDiv", [I3, J], [I3 // J])
row("FloorMod", [I3, J], [I3 % J])
row("Pow", [POSITIVE, B], [f32(POSITIVE.astype(np.float64) ** B)])
NEAR = np.array([1.5, -2, 2, 4], np.float32)
for name, f in {
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
}.items():
    row(name, [A, NEAR], [f(A, NEAR)], dtype=[A, NEAR.astype(half)])
row("LogicalAnd", [BITS, BITS[1]], [BITS & BITS[1]], dtype=[BITS, B])
row("LogicalOr", [BITS, BITS[1]], [BITS | BITS[1]], dtype=[A, BITS[1]])
row("LogicalNot", [BITS], [~BITS], dtype=[A])
row("Neg", [A], [-A])
row("Square", [A], [A * A])
row("Sqrt", [POSITIVE], [np.sqrt(POSITIVE)], dtype=[I3])
row("Rsqrt", [POSITIVE], [f32(1 / np.sqrt(POSITIVE.astype(np.float64)))])
BASE = {"base": 2.0, "scale": 0.5, "shift": 1.0}
row("Exp", [A], [f32(2.0 ** (0.5 * A.astype(np.float64) + 1))], BASE, {**BASE, "base": -2.0})
LOGS = f32(np.log2(0.5 * POSITIVE.astype(np.float64) + 1))
row("Log", [POSITIVE], [LOGS], BASE, {**BASE, "scale": 1})
row("ZerosLike", [A], [np.zeros_like(A)])
row("OnesLike", [I3], [np.ones_like(I3)])
# No float64 has these.
WIDE = 2**60 + np.arange(6).reshape(2, 3)
row("TensorMove", [WIDE], [WIDE])
row("Identity", [WIDE], [WIDE])
row("Cast", [A], [A.astype(np.int32)], {"dst_type": CODES["int32"]}, {"dst_type": CODES["int64"]})
row("Select", [BITS, A, -A], [np.where(BITS, A, -A)], dtype=[A, A, -A])
row("Assign", [WIDE, -WIDE], [-WIDE])
row("AssignAdd", [A, A[::-1].copy()], [A + A[::-1]])
row("AssignSub", [A, A[::-1].copy()], [A - A[::-1]])

# Sums.
row("ReduceSum", [A, index(1)], [f32(A.sum(1))], {"keep_dims": False}, {"keep_dims": True})
KEPT = {"keep_dims": True}
row("ReduceMean", [A, index(-1)], [f32(A.mean(1, keepdims=True))], KEPT, {"keep_dims": 1.0})
BACK = np.cumsum(A[:, ::-1], 1)[:, ::-1] - A
ORDER = {"exclusive": True, "reverse": True}
row("Cumsum", [A, index(1)], [f32(BACK)], ORDER, {"exclusive": "yes"})
row("AddN", [A, A, -A], [A], {"N": 3}, {"N": 2})
SEGMENTS = np.array([1, -1, 1], np.int32)
row("UnsortedSegmentSum", [A, SEGMENTS, index(2)], [np.stack([0 * A[0], A[0] + A[2]])])
IMAGE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
row("BiasAdd", [IMAGE, B], [IMAGE + B], {"data_format": "NHWC"}, {"data_format": "NCHW"})
row("BiasAddGrad", [IMAGE], [IMAGE.sum((0, 2))], {"data_format": "NCHW"}, {"data_format": "NHWC"})

# Parts.
row("Pack", [A, -A], [np.stack([A, -A], 1)], {"axis": 1, "N": 2}, {"axis": 1, "N": 3})
row("Unpack", [I3], list(I3), {"num": 2, "axis": 0}, {"num": 2, "axis": 1})
ALONG = {"concat_dim": 1, "N": 2}
row("ConcatD", [A, A[:, :1].copy()], [np.concatenate([A, A[:, :1]], 1)], ALONG, {"N": 2})
DIMENSION = Constant(np.array(1, np.int32))
row("Split", [DIMENSION, A], [A[:, :2], A[:, 2:]], {"num_split": 2}, {"num_split": 4})
HALVES = {"split_dim": 1, "num_split": 2}
row("SplitD", [A], [A[:, :2], A[:, 2:]], HALVES, {**HALVES, "split_dim": 0})

# Movements.
row("Transpose", [IMAGE, index(2, 0, 1)], [IMAGE.transpose(2, 0, 1)])
row("Tile", [A, index(2, 1, 3)], [np.tile(A, (2, 1, 3))])
row("BroadcastTo", [B, index(2, 3, -1)], [np.broadcast_to(B, (2, 3, 4))])
row("Reshape", [A, index(2, -1)], [A.reshape(2, 6)], {"axis": 0}, {"axis": 1})
TAKEN = np.array([[2, 0], [1, 1]], np.int32)
row("GatherV2", [A, TAKEN, index(1)], [A[:, TAKEN]], {"batch_dims": 0}, {"batch_dims": 1})
RANGE = [index(0, -1), index(2, -5), index(1, -2)]
MASKS = {"begin_mask": 1, "end_mask": 2, "shrink_axis_mask": 0}
row("StridedSlice", [A, *RANGE], [A[:2, ::-2]], MASKS, {**MASKS, "shrink_axis_mask": 1})
PLACED = np.zeros_like(A)
PLACED[:2, ::-2] = A[:2, :2]
given = [index(3, 4), *RANGE, A[:2, :2].copy()]
row("StridedSliceGrad", given, [PLACED], MASKS, {**MASKS, "ellipsis_mask": 1})

# Norms.
MEAN, VARIANCE = (f(A.astype(np.float64), 1, keepdims=True) for f in (np.mean, np.var))
NORMED = (A - MEAN) / np.sqrt(VARIANCE + 0.5)
AXES = {"begin_norm_axis": 1, "begin_params_axis": -1, "epsilon": 0.5}
SHIFTED = [f32(NORMED * B - B), f32(MEAN), f32(VARIANCE)]
row("LayerNorm", [A, B, -B], SHIFTED, AXES, {**AXES, "begin_params_axis": 0})
UP = A[::-1].copy()
DEVIATION = np.sqrt(VARIANCE)
SCALED, UNIT = UP * B.astype(np.float64), (A - MEAN) / DEVIATION
LEVEL = SCALED.mean(1, keepdims=True) + UNIT * (SCALED * UNIT).mean(1, keepdims=True)
row(
    *("LayerNormGrad", [UP, A, f32(VARIANCE), f32(MEAN), B]),
    [f32((SCALED - LEVEL) / DEVIATION), f32((UP * UNIT).sum(0)), UP.sum(0)],
)

# Dropout.
ALWAYS = [index(3, 4), np.float32(1)]
SEEDS = {"seed": 1, "seed2": 2}
row("DropOutGenMask", ALWAYS, [np.full(16, 255, np.uint8)], SEEDS, {**SEEDS, "seed": 1.0})
BYTES = np.packbits(np.resize(A > 0, 128), bitorder="little")
LEFT = np.unpackbits(BYTES, count=A.size, bitorder="little").reshape(A.shape)
row("DropOutDoMask", [A, BYTES, np.float32(0.75)], [f32(A * LEFT / 0.75)])

# Losses, optimizers, numbers.
WIDE = A.astype(np.float64)
EXPS = np.exp(WIDE - WIDE.max(1, keepdims=True))
P = EXPS / EXPS.sum(1, keepdims=True)
LABELS = np.array([3, 0, 1], np.int32)
ONE_HOT = np.eye(4, dtype=np.float32)[LABELS]
LOSS = [f32(-np.log(P)[range(3), LABELS]), f32(P - ONE_HOT)]
row("SparseSoftmaxCrossEntropyWithLogits", [A, LABELS], LOSS, dtype=[A, f32(LABELS)])
row("SoftmaxCrossEntropyWithLogits", [A, ONE_HOT], LOSS, dtype=[A, ONE_HOT.astype(half)])
SCALARS = [np.float32([x]) for x in (0.5, 0.75, 0.25, 0.875, 0.125, 0.0625, 0.001)]
GRADIENT, SECOND, FIRST = -A, A * A, A[::-1].copy()
first = 0.75 * FIRST + 0.25 * GRADIENT
second = 0.875 * SECOND + 0.125 * GRADIENT**2
weight = A - 0.5 * (0.0625 * A + first / (np.sqrt(second.astype(np.float64)) + 0.001))
step = [GRADIENT, SECOND, FIRST, A, *SCALARS]
plain = A - 0.5 * first / (np.sqrt(second.astype(np.float64)) + 0.001)
for name in ("AdamApplyOne", "AdamApplyOneAssign"):
    row(name, [*step[:9], step[10]], [f32(second), f32(first), f32(plain)])
for name in ("AdamApplyOneWithDecay", "AdamApplyOneWithDecayAssign"):
    row(name, step, [f32(second), f32(first), f32(weight)])
# The rate is of step 3, whose powers are 0.75^3 and 0.875^3.
rates = [np.float32([x]) for x in (0.75**3, 0.875**3, 0.5, 0.75, 0.875, 0.001)]
root = np.sqrt(second.astype(np.float64)) + 0.001
rate = 0.5 * np.sqrt(1 - 0.875**3) / (1 - 0.75**3)
moved = A - rate * (0.75 * first + 0.25 * GRADIENT) / root
adam = [A, FIRST, SECOND, *rates, GRADIENT]
found = [f32(moved), f32(first), f32(second)]
NESTEROV = {"use_nesterov": True}
row("ApplyAdamD", adam, found, NESTEROV, {"use_nesterov": 0.5})
KEPT_ON = 0.25 * FIRST + GRADIENT
nesterov = A - 0.5 * (GRADIENT + 0.25 * KEPT_ON)
moving = [A, FIRST, SCALARS[0], GRADIENT, np.float32([0.25])]
row("ApplyMomentum", moving, [nesterov], NESTEROV, {"use_nesterov": 0.5})
DEPTH = Constant(np.array([4], np.int32))
MARKS = np.where(np.arange(4)[:, None] == LABELS, 2, -1).astype(np.float32)
ON_OFF = [np.float32([2]), np.float32([-1])]
row("OneHot", [LABELS, DEPTH, *ON_OFF], [MARKS], {"axis": 0}, {"axis": -1})
row("Fill", [index(2, 3), np.float32(0.5)], [np.full((2, 3), 0.5, np.float32)])
STEPS = [Constant(np.int32(x)) for x in (2, 11, 3)]
row("Range", STEPS, [np.arange(2, 11, 3, np.int32)], {"is_closed": False}, {"is_closed": True})
