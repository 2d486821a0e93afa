"""Scores in the thousands: gradients agree with their forwards on them. Scores beyond 1e9, which
rounding moves by more than an exponential takes: keys of the largest one share the probability."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import compare
from mindspore_nsa.testing.dtypes import decode, encode
from tests.common.cases import make_case
from tests.common.large_scores import check_gradient, large_scores
from tests.common.planted import OPERATORS


@pytest.mark.parametrize("name", large_scores())
def test_gradient(isa, name):
    workload = large_scores()[name]()
    outputs = _run(workload.forward)
    check_gradient(workload, _run(workload.gradient(outputs)))


def _run(case):
    return _native.run(case.op, case.inputs, case.attrs)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("exponent", [12, 20, 40])
def test_ties_of_huge_scores(isa, op, dtype, exponent):
    """Queries and keys of -2^n, 0 and 2^n: scores are exact, and many are equal."""
    for seed in range(6):
        case = make_case(seed, op, dtype)
        rng = np.random.default_rng(seed)
        named = case.named()
        for place, (name, x) in enumerate(named.items()):
            if x is None or not name.startswith(("query", "key", "real_shift")):
                continue
            x = decode(x)
            exact = rng.integers(-1, 2, x.shape).astype(np.float32) * np.float32(2.0**exponent)
            if name == "real_shift":  # it would have to be exact beside the scores
                case.inputs[place] = None
            else:
                case.inputs[place] = encode(np.where(np.isnan(x), x, exact), dtype)
        if "pse_type" in case.attrs:
            case.attrs["pse_type"] = 1
        compare(case, _native.run(case.op, case.inputs, case.attrs))
