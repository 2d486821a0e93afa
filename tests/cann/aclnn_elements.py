"""The table of CANN's aclnn functions: a call with NumPy's answer, and what CANN's pages refuse.

Each row is (name, arguments, {argument: another that has a wrong shape}, {... wrong dtype},
{... wrong attribute}). An empty attribute is of a function whose arguments are tensors alone, or
take every value; NO_ATTRIBUTE names those. Where CANN takes every dtype for an output, the wrong
dtype is one of an input, which CANN has not or the stand-in does not know.
"""

import numpy as np

from .calls import Out, Scalar, dtype

ROWS = {}
A = np.array([[1.5, -2, 3, 0.25], [4, -0.5, 2, -7], [0.75, 6, -3, 1]], np.float32)
B = np.array([2, -4, 0.5, 3], np.float32)
POSITIVE = np.abs(A) + 1
I3 = np.array([[7, -3, 5, 2], [-8, 9, 4, 6]], np.int32)
J = np.array([3, 2, -2, 4], np.int32)
UNSIGNED = A.astype(np.uint32)
INT, TRUTH = np.int32, np.bool_


def larger_of(array):
    """A tensor with one element more in its last dimension."""
    shape = (*array.shape[:-1], array.shape[-1] + 1) if array.ndim else (2,)
    return np.zeros(shape, array.dtype)


def row(name, *arguments, shape=None, dtype=None, attribute=None):
    """Wrong arguments are {place: value}; an output of another size and of integers by default."""
    assert name not in ROWS, name
    place = next((i for i, a in enumerate(arguments) if isinstance(a, Out)), None)
    if shape is None:
        shape = {place: Out(larger_of(arguments[place].expected))}
    if dtype is None:
        dtype = {place: Out(np.zeros(arguments[place].expected.shape, INT))}
    ROWS[name] = arguments, shape, dtype, attribute or {}


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def f32(x):
    return np.asarray(x).astype(np.float32)


# Arithmetic. An alpha of float32 is not cast to integers.
HALF = Scalar(0.5)
TWO = Scalar(2, "int64")
row("Add", A, B, HALF, Out(f32(A + 0.5 * B)), attribute={0: I3, 1: J, 3: Out(I3 + J)})
row("Sub", A, B, HALF, Out(f32(A - 0.5 * B)), attribute={0: I3, 1: J, 3: Out(I3 - J)})
row("Adds", I3, TWO, TWO, Out(I3 + 4), dtype={3: Out(I3 > 0)}, attribute={2: HALF})
row("Subs", I3, TWO, TWO, Out(I3 - 4), dtype={3: Out(I3 > 0)}, attribute={2: HALF})
row("Mul", A, B, Out(A * B))
row("Muls", A, HALF, Out(f32(A * 0.5)), attribute={1: None})
row("Div", I3, J, Out(f32(I3 / J)))
row("Divs", I3, TWO, Out(f32(I3 / 2)), attribute={1: None})
row("FloorDivide", I3, J, Out(I3 // J), dtype={2: Out(I3 > 0)})
floor_zero = {1: Scalar(0, "int64")}
row("FloorDivides", I3, TWO, Out(I3 // 2), dtype={2: Out(I3 > 0)}, attribute=floor_zero)
row(
    *("RemainderTensorScalar", I3, Scalar(3, "int64"), Out(I3 % 3)),
    dtype={0: I3.astype(np.int8), 2: Out((I3 % 3).astype(np.int8))},
    attribute=floor_zero,
)
row("Maximum", A, B, Out(np.maximum(A, B)))
row("Minimum", A, B, Out(np.minimum(A, B)))
row(
    "PowTensorScalar",
    I3,
    TWO,
    Out(I3**2),
    dtype={2: Out(I3 > 0)},
    attribute={1: Scalar(-1, "int64")},
)
row("PowTensorTensor", POSITIVE, B, Out(f32(POSITIVE.astype(np.float64) ** B)))
Y = f32(sigmoid(A))
row("SigmoidBackward", A, Y, Out(f32(A * Y * (1.0 - Y))))
S = sigmoid(A)
row("SiluBackward", A, A, Out(f32(A * S * (1 + A * (1 - S)))))

# Comparisons. CANN writes a truth value to any dtype.
for name, f in {
    "Eq": np.equal,
    "Ne": np.not_equal,
    "Lt": np.less,
    "Le": np.less_equal,
    "Gt": np.greater,
    "Ge": np.greater_equal,
}.items():
    other = np.array([1.5, -2, 2, 4], np.float32)
    row(f"{name}Tensor", A, other, Out(f(A, other)), dtype={0: UNSIGNED})
    row(f"{name}Scalar", A, Scalar(2), Out(f(A, 2)), dtype={0: UNSIGNED}, attribute={1: None})
BITS = A > 0
row("LogicalAnd", BITS, B, Out(BITS & (B != 0)), dtype={1: B.astype(np.uint32)})
row("LogicalOr", BITS, B, Out(BITS | (B != 0)), dtype={1: B.astype(np.uint32)})
row("LogicalNot", BITS, Out(~BITS), dtype={0: UNSIGNED})

# Functions of one element.
row("Neg", I3, Out(-I3), dtype={0: I3.astype(np.uint8)})
row("Abs", A, Out(np.abs(A)))
row("Exp", A, Out(f32(np.exp(A.astype(np.float64)))), dtype={0: I3, 1: Out(f32(I3))})
for name, f in {
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Reciprocal": np.reciprocal,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tanh": np.tanh,
    "Sigmoid": sigmoid,
}.items():
    row(name, POSITIVE, Out(f32(f(POSITIVE.astype(np.float64)))))
row("Silu", A, Out(f32(A * sigmoid(A))), dtype={1: Out(np.zeros(A.shape, np.float16))})
ODD = np.array([1, np.inf, np.nan, -np.inf], np.float32)
row("IsFinite", ODD, Out(np.isfinite(ODD)))

# Copies.
row("Cast", A, dtype("int32"), Out(A.astype(INT)), dtype={2: Out(A)}, attribute={1: dtype("int64")})
row(
    "InplaceCopy",
    Out(np.broadcast_to(B, A.shape)),
    B,
    dtype={1: B.astype(np.uint32)},
    shape={1: A[:, :3].copy()},
)
unknown = {0: Out(UNSIGNED)}
nine = {0: Out(np.ones((1,) * 9, np.float32))}  # dimensions, one more than CANN takes
row("InplaceOne", Out(np.ones_like(A)), shape=nine, dtype=unknown)
row(
    "InplaceZero",
    Out(np.zeros_like(A), A),
    shape=nine,
    dtype=unknown,
)
row(
    *("InplaceFillScalar", Out(np.full_like(A, 2.5)), Scalar(2.5)),
    shape=nine,
    dtype=unknown,
    attribute={1: None},
)
row("SWhere", BITS, A, B, Out(np.where(BITS, A, B)), dtype={0: A})

# Calls that have no argument beside tensors, or take every value of it.
NO_ATTRIBUTE = {
    *("Mul", "Div", "FloorDivide", "Maximum", "Minimum", "PowTensorTensor", "SigmoidBackward"),
    *("SiluBackward", "LogicalAnd", "LogicalOr", "LogicalNot", "Neg", "Abs", "Exp", "Log", "Sqrt"),
    *("Rsqrt", "Reciprocal", "Sin", "Cos", "Tanh", "Sigmoid", "Silu", "IsFinite", "InplaceCopy"),
    *("InplaceOne", "InplaceZero", "SWhere", "Max", "AllFinite", "RmsNorm", "RmsNormGrad"),
    *("Embedding", *(f"{name}Tensor" for name in ("Eq", "Ne", "Lt", "Le", "Gt", "Ge"))),
}
