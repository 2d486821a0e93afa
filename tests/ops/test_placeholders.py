"""Nobody reads the placeholder of an absent optional input, whatever it holds."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa import _native
from mindspore_nsa.ops._custom import encode_attrs, native_custom
from tests.common.cases import GENERATORS, make_case

from .calls import in_dtype, run, tensor

OPTIONAL = [
    (op, spec["name"])
    for op in GENERATORS
    for spec in _native.schema(op)["inputs"]
    if spec["optional"]
]


def case_without(op, name):
    """A random right call without that input."""
    for seed in range(1000):
        case = make_case(seed, op)
        if case.named()[name] is None and case.dtype != "bfloat16":
            return case
    raise AssertionError(f"no case of {op} without {name}")


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("op, name", OPTIONAL)
def test_placeholder(op, name, mode):
    case = case_without(op, name)
    stand_in = Tensor(np.full((2, 3), np.nan), ms.complex64)
    given = [n for n, x in case.named().items() if x is not None]
    attrs = encode_attrs(op, case.attrs, given)
    custom = native_custom(op, attrs, None)

    def call(*args):
        return custom(*args)

    tensors = [stand_in if x is None else tensor(x) for x in case.inputs]
    ours = run(mode, call, *tensors)
    expected = _native.run(op, case.inputs, case.attrs)
    for a, b in zip(ours if isinstance(ours, tuple) else (ours,), expected, strict=True):
        a = in_dtype(a, b.dtype.name)
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("op", GENERATORS)
def test_what_is_given_goes_by_name(op):
    with pytest.raises(ValueError, match=f"{op} has no input nothing"):
        encode_attrs(op, make_case(0, op).attrs, ["nothing"])
