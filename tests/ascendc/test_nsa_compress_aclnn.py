"""Definition and tiling of NsaCompress and NsaCompressGrad, through the aclnn functions."""

import ctypes

import numpy as np
import pytest

from tests.common.draw import Draw
from tests.common.parity import compress, compress_grad
from twin.tests.host import acl

from . import aclnn
from .compress_cases import make_case
from .runner import bits, same_bits

OK, NULLPTR, INVALID, LIMIT = 0, 161001, 161002, 561002
KINDS = {"NsaCompress": compress, "NsaCompressGrad": compress_grad}
MISSING = object()


def call(case, **change):
    """(status, outputs, the error): a case with some of its arguments replaced.

    Shapes of tensors are replaced by `<name>_shape`, their dtypes by `<name>_dtype`.
    """
    named, attrs = case.named(), case.attrs
    x, w = bits(named["input"]).shape, bits(named["weight"]).shape
    backward = "output_grad" in named
    outs = (
        {"input_grad": x, "weight_grad": w}
        if backward
        else {"output": (attrs["num_windows"], *x[1:])}
    )
    with acl.Device() as device:
        memory = {}

        def tensor(name, data):
            if change.get(name) is MISSING:
                return None
            memory[name] = device.put(data)
            shape = change.get(f"{name}_shape", data.shape)
            return device.tensor(memory[name], shape, change.get(f"{name}_dtype", case.dtype))

        def number(name, value):
            return ctypes.c_int64(change.get(name, value))

        names = ["output_grad", "input", "weight"] if backward else ["input", "weight"]
        tensors = [tensor(name, bits(named[name])) for name in names]
        results = [tensor(name, np.full(shape, 0x7EA5, np.uint16)) for name, shape in outs.items()]
        ends = change.get("list", named["actual_seq_len"].tolist())
        ends = None if ends is MISSING else device.int_array(ends)
        layout = ctypes.c_char_p(change.get("layout", b"TND"))
        sizes = [
            number("compress_block_size", attrs["compress_block_size"]),
            number("compress_stride", attrs["compress_stride"]),
            number("type", 0),
        ]
        options = [*sizes, layout] if backward else [layout, *sizes]
        function = f"aclnn{case.op}"
        status, size, executor = aclnn.first_phase(function, *tensors, ends, *options, *results)
        if status != OK:
            return status, None, acl.recent_error() or ""
        assert aclnn.second_phase(device, function, size, executor) == OK, acl.recent_error()
        assert device.synchronize() == OK, acl.recent_error()
        got = [
            device.get(memory[name], shape, np.uint16)
            if memory[name] is not None
            else np.empty(shape, np.uint16)
            for name, shape in outs.items()
        ]
    return OK, got, ""


def small(op):
    return KINDS[op](Draw(5, "float16"), [40, 40, 100], 3, 48, 32, 16)


@pytest.mark.parametrize("op", KINDS)
def test_same_bits_as_the_kernel_alone(runner, op):
    for seed in range(24):
        case = make_case(op, seed)
        if bits(case.named()["input"]).size == 0:
            continue
        with acl.cores((1, 7, 24, 48)[seed // 2 % 4]):
            status, outputs, error = call(case)
        assert status == OK, f"{case}\n{error}"
        alone = [bits(x) for x in runner.run(case, 5)[0]]
        assert same_bits(outputs, alone), case


# The changed argument, the return code, and the text of the reason.
RULES = {
    "block size not a multiple": (
        *({"compress_block_size": 24, "weight_shape": (24, 3)}, LIMIT),
        "compress_block_size must be a multiple of 16 on Ascend, got 24",
    ),
    "stride not a multiple": (
        *({"compress_stride": 8}, LIMIT),
        "compress_stride must be at least 16 on Ascend, got 8",
    ),
    "stride beyond the block": (
        *({"compress_stride": 48}, INVALID),
        "compress_block_size must be at least compress_stride (48), got 32",
    ),
    "stride zero": ({"compress_stride": 0}, INVALID, "compress_stride must be >= 1, got 0"),
    "list missing": ({"list": MISSING}, INVALID, "actual_seq_len"),
    "list empty": ({"list": []}, INVALID, "actual_seq_len"),
    "list falls": (
        *({"list": [40, 30, 100]}, INVALID),
        "actual_seq_len must be non-decreasing (prefix sums), got 30 after 40 at index 1",
    ),
    "list ends early": (
        *({"list": [40, 99]}, INVALID),
        "actual_seq_len must end at T = 100, got 99",
    ),
    "list negative": (
        *({"list": [-1, 100]}, INVALID),
        "actual_seq_len must be non-negative, got -1 at index 0",
    ),
    "layout": ({"layout": b"BSH"}, INVALID, "layout must be 'TND', got 'BSH'"),
    "type": ({"type": 1}, INVALID, "actSeqLenType must be 0 (prefix sums), got 1"),
    "weight shape": ({"weight_shape": (3, 32)}, INVALID, "weight must be of shape"),
    "input rank": ({"input_shape": (100, 144)}, INVALID, "input must be of shape (T, N, D)"),
    "input missing": ({"input": MISSING}, NULLPTR, ""),
    "weight missing": ({"weight": MISSING}, NULLPTR, ""),
    "dtype": ({"weight_dtype": "bfloat16"}, INVALID, ""),
    "head dim": (
        *({"input_shape": (100, 6, 24), "weight_shape": (16, 6), "compress_block_size": 16}, LIMIT),
        "D of input must be a multiple of 16 on Ascend, got 24",
    ),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("op", KINDS)
def test_rule(op, name):
    change, code, reason = RULES[name]
    change = dict(change)
    if name == "head dim" and op == "NsaCompressGrad":
        change["output_grad_shape"] = (bits(small(op).inputs[0]).shape[0], 6, 24)
    status, _, error = call(small(op), **change)
    assert status == code, f"{status}: {error}"
    assert reason in error, error


def test_rows_of_the_output():
    """More than the windows fill are zero; fewer are refused."""
    case = small("NsaCompress")
    exact = case.attrs["num_windows"]
    _, (exactly,), _ = call(case)
    case.attrs["num_windows"] = exact + 3
    status, (rows,), _ = call(case)
    assert status == OK and np.array_equal(rows[:exact], exactly) and (rows[exact:] == 0).all()
    case.attrs["num_windows"] = exact - 1
    status, _, error = call(case)
    assert status == INVALID and f"at least {exact}" in error


def test_shapes_of_the_gradients():
    for name, shape in (("input_grad", (99, 3, 48)), ("weight_grad", (16, 3))):
        status, _, error = call(small("NsaCompressGrad"), **{f"{name}_shape": shape})
        assert status == INVALID and name in error, error
