"""Named native cases of one operator through its public function."""

import pytest

from mindspore_nsa import _native
from tests.common.cases import odd_size_cases, parity_cases

from .calls import PublicCall


def named_cases(*kinds):
    """Parameters (case builder, mode): public shapes in both modes, odd sizes in PyNative.

    A kind is the first word of a case's name: nothing is built to find the cases.
    """
    parameters = []
    for cases, modes in (
        (parity_cases(), ("pynative", "graph")),
        (odd_size_cases(), ("pynative",)),
    ):
        for name, build in cases.items():
            if name.split()[0] in kinds:
                parameters += [pytest.param(build, mode, id=f"{name}-{mode}") for mode in modes]
    assert parameters
    return parameters


def check_bits(build, mode):
    """The public function gives the bits of the kernel, which other tests judge.

    Lists are constants in PyNative and Tensors in a graph.
    """
    call = PublicCall(build(), lists_as_tensors=mode == "graph")
    case, ours = call.run(mode)
    expected = _native.run(case.op, case.inputs, case.attrs)
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected):
        a, b = (x[1] if isinstance(x, tuple) else x for x in (a, b))
        assert a.shape == b.shape and a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
