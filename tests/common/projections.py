"""Calls of NsaProjection and its gradients, and what they have to give."""

from dataclasses import dataclass, field

import numpy as np

from mindspore_nsa.testing.dtypes import DTYPES, ULP, decode, dtype_name, encode, round_to

# (tokens, inner, the outer sizes of up to three weights): around the sizes of the kernel's blocks.
SIZES = [
    (1, 1, (1,)),
    (1, 40, (7, 3)),
    (33, 3, (5, 70, 1)),
    (97, 129, (64, 1, 100)),
    (200, 300, (130, 48)),
    (2051, 5, (3,)),
]
OPERANDS = ("bfloat16", "float32")
# Tolerance of sums in float32, relative to the sum of magnitudes.
_SUM = 2e-6


@dataclass
class Projection:
    """One call; `expected` holds (values, bound) of each output, None of a placeholder."""

    op: str
    inputs: list
    attrs: dict = field(default_factory=dict)
    dtype: str = "bfloat16"  # that it multiplies in
    expected: list = field(default_factory=list)

    def check(self, outputs):
        """Check outputs as the binding returns them."""
        assert len(outputs) == len(self.expected)
        for output, expected in zip(outputs, self.expected, strict=True):
            values = decode(output).astype(np.float64)
            if expected is None:
                assert values.shape == (1,) and not values.any()
                continue
            assert values.shape == expected[0].shape
            with np.errstate(invalid="ignore"):
                near = np.abs(values - expected[0]) <= expected[1]
            same = (values == expected[0]) | (np.isnan(values) & np.isnan(expected[0]))
            assert (near | same).all(), self

    def __str__(self):
        shapes = [None if x is None else decode(x).shape for x in self.inputs]
        return f"{self.op} {self.attrs} {shapes}"


def rounded(x, operands):
    """The numbers that the product takes."""
    return round_to(decode(x), operands).astype(np.float64)


def _product(pairs, dtype):
    """The sum of the products of pairs, and how far an output of a dtype may be from it."""
    with np.errstate(invalid="ignore"):
        values = sum(a @ b for a, b in pairs)
        magnitude = sum(np.abs(a) @ np.abs(b) for a, b in pairs)
    return values, _SUM * magnitude + ULP[dtype] / 2 * np.abs(values)


def _filled(items):
    return [*items, *[None] * (3 - len(items))]


def forward(x, weights, dtype, operands="bfloat16"):
    """The call of NsaProjection."""
    taken = rounded(x, operands)
    return Projection(
        "NsaProjection",
        [x, *_filled(weights)],
        {"dtype": dtype, "operands": operands},
        operands,
        _filled([_product([(taken, rounded(w, operands).T)], dtype) for w in weights]),
    )


def input_grad(gradients, weights, x, operands="bfloat16"):
    """The call of the gradient of x."""
    pairs = [
        (rounded(dy, operands), rounded(w, operands))
        for dy, w in zip(gradients, weights, strict=True)
    ]
    return Projection(
        "NsaProjectionInputGrad",
        [*_filled(gradients), *_filled(weights), x],
        {"operands": operands},
        operands,
        [_product(pairs, dtype_name(x))],
    )


def weight_grad(gradients, weights, x, operands="bfloat16"):
    """The call of the gradients of the weights."""
    dtype, taken = dtype_name(weights[0]), rounded(x, operands)
    return Projection(
        "NsaProjectionWeightGrad",
        [*_filled(gradients), *_filled(weights), x],
        {"operands": operands},
        operands,
        _filled([_product([(rounded(dy, operands).T, taken)], dtype) for dy in gradients]),
    )


def drawn_calls(size, seed=0):
    """The three calls of a size with either kind of operands, in dtypes that the seed draws."""
    tokens, inner, outers = size
    rng = np.random.default_rng([seed, tokens, inner])
    of_x, of_weights, of_y = rng.choice(DTYPES, 3)

    def draw(shape, dtype):
        return encode(rng.standard_normal(shape, np.float32), dtype)

    x = draw((tokens, inner), of_x)
    weights = [draw((outer, inner), of_weights) for outer in outers]
    gradients = [draw((tokens, outer), of_y) for outer in outers]
    return [
        call
        for operands in OPERANDS
        for call in (
            forward(x, weights, of_y, operands),
            input_grad(gradients, weights, x, operands),
            weight_grad(gradients, weights, x, operands),
        )
    ]
