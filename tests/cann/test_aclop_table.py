"""Each operator of the stand-in that is called by its type: NumPy's answer, and what it refuses."""

import numpy as np
import pytest

from twin.tests.host.acl import FORMAT_NZ, INVALID, SUCCESS, Device, recent_error

from .aclop_table import ROWS, A
from .calls import Call, Constant, Out, own
from .test_aclnn_table import check


@pytest.fixture(scope="module")
def device():
    with Device() as one:
        yield one


def test_table_is_complete():
    """Every type of the registry has a row."""
    types, found = set(), own.TwinOperatorType(0)
    while found is not None:
        types.add(found.decode())
        found = own.TwinOperatorType(len(types))
    assert len(types) > 55 and types == set(ROWS)


def call(device, name, *arguments, **storage):
    one = Call(device, name)
    return one.aclop(*arguments, **storage), one


@pytest.mark.parametrize("name", ROWS)
def test_type(device, name):
    inputs, attributes, outputs, shape, dtype, attribute = ROWS[name]
    status, done = call(device, name, inputs, attributes, outputs)
    assert status == SUCCESS, recent_error()
    for got, (out, _) in zip(done.results(), done.outputs, strict=True):
        check(name, got, out.expected)
    wrong = {
        "shape": (inputs, attributes, shape),
        "dtype": (dtype[0], attributes, dtype[1]),
        "attribute": (inputs, attribute, outputs),
    }
    for kind, arguments in wrong.items():
        assert call(device, name, *arguments)[0] == INVALID, f"a wrong {kind} is not refused"
        assert f"aclop {name}" in recent_error()


def test_values_on_the_device(device):
    """A shape that depends on them is held to what they say when the stream comes to the call."""
    axes = np.array([1], np.int64)
    status, done = call(device, "ReduceSum", [A, axes], {}, [Out(A.sum(1))])
    assert status == SUCCESS
    check("ReduceSum", done.results()[0], A.sum(1))
    status, _ = call(device, "ReduceSum", [A, axes], {}, [Out(A.sum(0))])
    assert status not in (SUCCESS, INVALID)
    assert "output 0 must be float32 (3,), got float32 (4,)" in recent_error()


def test_storage(device):
    """A call keeps what is set of the memory, and refuses what the operator cannot read."""
    plain = [A], {}, [Out(-A)]
    assert call(device, "Neg", *plain, storage={"shape": (3, 4), "format": 0})[0] == SUCCESS
    assert call(device, "Neg", *plain, storage={"shape": (4, 3)})[0] == INVALID
    assert "input 0 is stored as float32 (4, 3), not as float32 (3, 4)" in recent_error()
    assert call(device, "Neg", *plain, storage={"format": FORMAT_NZ})[0] == INVALID
    assert "input 0 has the format 29" in recent_error()


REFUSED = {
    "axes twice": ("ReduceSum", [A, Constant(np.int64([0, -2]))], {}, [Out(A.sum())]),
    "perm twice": ("Transpose", [A, Constant(np.int64([0, 0]))], {}, [Out(A)]),
    "no attribute": ("AddN", [A, A], {}, [Out(2 * A)]),
    "inputs": ("Neg", [A, A], {}, [Out(-A)]),
    "outputs": ("Neg", [A], {}, [Out(-A), Out(-A)]),
    "uneven parts": (
        *("SplitD", [A], {"split_dim": 0, "num_split": 2}),
        [Out(A[:2]), Out(A[2:])],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(device, name):
    assert call(device, *REFUSED[name])[0] == INVALID
    assert f"aclop {REFUSED[name][0]}" in recent_error()


def test_index_outside(device):
    places = np.array([-1], np.int32)
    axis = Constant(np.int64([0]))
    status, _ = call(device, "GatherV2", [A, places, axis], {}, [Out(A[-1:])])
    assert status not in (SUCCESS, INVALID) and "an index is out of range" in recent_error()


def test_masks_of_dropout(device):
    """Masks of one seed follow one another; each has the asked share."""
    masks = []
    for seed in (1, 1, 2, 0):
        inputs = [Constant(np.int64([8192])), np.float32(0.75)]
        out = [Out(np.zeros(1024, np.uint8))]
        status, done = call(device, "DropOutGenMask", inputs, {"seed": seed}, out)
        assert status == SUCCESS, recent_error()
        masks.append(np.unpackbits(done.results()[0]))
        assert abs(masks[-1].mean() - 0.75) < 0.02
    for i, one in enumerate(masks):
        assert all(0.3 < (one != other).mean() < 0.45 for other in masks[:i])
