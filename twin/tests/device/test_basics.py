"""16-bit types, queues in every form, tiling data, CANN's host interface, refused types."""

import ctypes
import re
import subprocess

import numpy as np
import pytest

from twin.tests import builds
from twin.tests.harness import INPUT, OUTPUT, TILING

HERE = builds.ROOT / "twin" / "tests" / "device"


@pytest.fixture(scope="module")
def functions():
    return ctypes.CDLL(str(builds.shared(HERE / "basics.cc", name="device_basics")))


def apply(function, source, out):
    function(*[ctypes.c_void_p(a.ctypes.data) for a in (source, out)], ctypes.c_int64(source.size))
    return out


def bits_of_interest():
    """float32 bit patterns around every rounding boundary of half and bfloat16, and random ones."""
    rng = np.random.default_rng(0)
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    steps = np.array([-0x1001, -0x1000, -0xFFF, -1, 0, 1, 0xFFF, 0x1000, 0x1001], np.int64)
    near = (halves.astype(np.int64)[:, None] + steps).ravel()
    brains = (np.arange(65536, dtype=np.int64) << 16)[:, None] + [0, 1, 0x7FFF, 0x8000, 0x8001]
    anything = rng.integers(0, 1 << 32, 200000)
    return (np.concatenate([near, brains.ravel(), anything]) & 0xFFFFFFFF).astype(np.uint32)


def test_half_conversions(functions):
    every = np.arange(65536, dtype=np.uint16)
    wide = apply(functions.half_to_float, every, np.zeros(65536, np.float32))
    np.testing.assert_array_equal(wide, every.view(np.float16).astype(np.float32))
    floats = bits_of_interest().view(np.float32)
    narrow = apply(functions.float_to_half, floats, np.zeros(floats.size, np.uint16))
    with np.errstate(over="ignore"):
        expected = floats.astype(np.float16)
    np.testing.assert_array_equal(narrow.view(np.float16), expected)
    signs = ~np.isnan(floats)
    assert (narrow[signs] == expected.view(np.uint16)[signs]).all()


def test_bfloat16_conversions(functions):
    bits = bits_of_interest()
    floats = bits.view(np.float32)
    narrow = apply(functions.float_to_bfloat16, floats, np.zeros(floats.size, np.uint16))
    number = ~np.isnan(floats)
    # The two neighbours, and the nearer one; of a tie the even one.
    low, rest = (bits >> 16).astype(np.int64), (bits & 0xFFFF).astype(np.int64)
    expected = low + ((rest > 0x8000) | ((rest == 0x8000) & (low % 2 == 1)))
    assert (narrow[number] == expected[number]).all()
    wide = apply(functions.bfloat16_to_float, narrow, np.zeros(narrow.size, np.float32))
    assert np.isnan(wide[~number]).all()
    assert (wide.view(np.uint32) == narrow.astype(np.uint32) << 16).all()


def test_half_arithmetic(functions):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 65536, (2, 100000)).astype(np.uint16)
    out = np.zeros((100000, 8), np.uint16)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)]
    functions.half_arithmetic(*pointers, ctypes.c_int64(a.size))
    x, y = a.view(np.float16).astype(np.float64), b.view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = [x + y, x - y, x * y, x / y, -x, x + 1, 2 * y, (x < y).astype(np.float64)]
        expected = np.stack(exact, 1).astype(np.float16)
    np.testing.assert_array_equal(out.view(np.float16), expected)


@pytest.mark.parametrize("tiles", [0, 1, 2, 9])
@pytest.mark.parametrize(
    "kernel",
    ["queue_depth_0", "queue_depth_1", "queue_depth_2", "queue_depth_4", "queue_user_positions"],
)
def test_queue(basics, kernel, tiles):
    x = np.random.default_rng(tiles).random((tiles + 1, 128), np.float32)
    y = np.zeros_like(x)
    report = basics.launch(kernel, [(INPUT, x), (OUTPUT, y)], [tiles])
    assert report.ok, report.error
    assert (y[:tiles] == x[:tiles] + np.float32(1)).all()
    assert report.kinds() == ([] if tiles else ["no instruction"])
    assert report.unwritten[1] == 512
    assert report.pipe("V")["instructions"] == tiles


def test_queues_with_all_events(basics):
    x = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    y = np.zeros(128, np.float32)
    report = basics.launch("queues_with_all_events", [(INPUT, x), (OUTPUT, y)])
    assert report.ok, report.error
    assert (y == x.sum(0)).all() and report.warnings == []


def test_queue_answers(basics):
    out = np.zeros(16, np.int32)
    x = np.zeros(64, np.float16)
    report = basics.launch("queue_answers", [(INPUT, x), (OUTPUT, out)])
    assert report.ok, report.error
    # 100 bytes become 128.
    assert out.tolist() == [64, 0, 1, 1, 1, 0, 0, 2, 3, 0, 1, 54, 32, 4, 1, 1]
    assert report.warnings == []


@pytest.mark.parametrize("count, first, length", [(64, 0, 64), (128, 16, 5), (96, 80, 16)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_scalar_unit(basics, dtype, count, first, length):
    """Views, SetSize, GetValue, SetValue and operator() of both kinds of tensors."""
    x = np.random.default_rng(count).integers(-99, 99, count).astype(dtype)
    y = np.zeros(count + 2 * length, dtype)
    name = {"float32": "scalar_float", "float16": "scalar_half", "int32": "scalar_int32"}[dtype]
    report = basics.launch(name, [(INPUT, x), (OUTPUT, y)], [count, first, length])
    assert report.ok, report.error
    view = x[first : first + length]
    negated = x.copy()
    negated[first : first + length] *= -1
    np.testing.assert_array_equal(y, np.concatenate([negated, view[::-1], view]))


@pytest.mark.parametrize("count, first", [(64, 0), (128, 32), (256, 192)])
@pytest.mark.parametrize(
    "kernel, dtype, other",
    [
        ("half_as_float", "float16", "float32"),
        ("float_as_half", "float32", "float16"),
        ("int8_as_int32", "int8", "int32"),
    ],
)
def test_reinterpret_cast(basics, kernel, dtype, other, count, first):
    """The size follows the type, from an offset on."""
    x = np.random.default_rng(first).integers(-128, 127, count).astype(dtype)
    expected = x[first:].view(other)
    y = np.zeros(expected.size + 8, other)
    report = basics.launch(kernel, [(INPUT, x), (OUTPUT, y)], [count, first])
    assert report.ok, report.error
    assert (y[: expected.size].tobytes(), y[expected.size :].any()) == (expected.tobytes(), False)


def test_phases(basics):
    x = np.random.default_rng(0).random(6 * 128, np.float32)
    y = np.zeros_like(x)
    report = basics.launch("phases", [(INPUT, x), (OUTPUT, y)])
    assert report.ok, report.error
    assert (y == x).all() and report.warnings == []


SHAPE = np.dtype([("rows", "<i8"), ("scale", "<f4"), ("flags", "<i4", 3)])


@pytest.mark.parametrize(
    "kernel, key, expected",
    [
        ("tiling_class", 0, [1234, 0.5, 9]),
        ("tiling_registered", 4, [1234, 0.5, 8]),
        ("tiling_registered", 5, [1234, 0, 0]),
        ("tiling_member", 0, [0, 0.5, 0]),
    ],
)
def test_tiling_data(basics, kernel, key, expected):
    data = np.array([(1234, 0.5, (7, 8, 9))], SHAPE)
    out = np.zeros(16, np.float32)
    report = basics.launch(kernel, [(TILING, data.view(np.uint8)), (OUTPUT, out)], key=key)
    assert report.ok, report.error
    assert out[:3].tolist() == expected


def test_in_place(basics):
    """An input that is an output as well."""
    x = np.random.default_rng(0).random((5, 128), np.float32)
    expected = x + np.float32(1)
    report = basics.launch("queue_depth_1", [(INPUT, x), (OUTPUT, x)], [5])
    assert report.ok, report.error
    assert (x == expected).all() and report.unwritten == [0, 0]


def test_workspaces(basics):
    out = np.zeros(16, np.float32)
    assert basics.launch("workspaces", [(OUTPUT, out)]).ok
    assert out[:2].tolist() == [1, 1]


@pytest.fixture(scope="module")
def host_program():
    return builds.program(HERE / "host_main.cc", HERE / "host_kernel.cc", name="device_host_main")


def run_host(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_host_interface(host_program, seed, monkeypatch):
    """ICPU_RUN_KF, ICPU_SET_TILING_KEY, GmAlloc, GmFree and SetKernelMode as in CANN's examples."""
    monkeypatch.setenv("ASCENDC_TWIN_SEED", seed)
    done = run_host(host_program, "right")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2048 of 2048 sums are right, key 3\n"


@pytest.mark.parametrize("seed", ["abc", "-1", "1.5"])
def test_a_seed_that_is_no_number(host_program, seed, monkeypatch):
    monkeypatch.setenv("ASCENDC_TWIN_SEED", seed)
    done = run_host(host_program, "right")
    assert done.returncode == 1
    message = f"twin error: ASCENDC_TWIN_SEED must be a number from 0 to {2**64 - 1}"
    assert done.stderr == f"{message}, got '{seed}'\n"


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_several_kernels_in_one_program(seed, monkeypatch):
    """Modes, tiling keys and memory are those of the last call before a kernel starts."""
    monkeypatch.setenv("ASCENDC_TWIN_SEED", seed)
    done = run_host(builds.program(HERE / "host_several.cc", name="device_host_several"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "384 of 384 are right\n" and done.stderr == ""


@pytest.mark.parametrize(
    "fault, message",
    [
        ("short", r"out of bounds: .* \[3840, 4096\) of GmAlloc 1, which has 3840"),
        ("unwritten", r"uninitialised read: nothing was written to bytes .* of GmAlloc 2"),
        ("free", r"GmFree: 0x[0-9a-f]+ is not from GmAlloc"),
    ],
)
def test_host_interface_errors(host_program, fault, message):
    done = run_host(host_program, fault)
    assert done.returncode == 1
    assert re.match("twin error: .*" + message, done.stderr), done.stderr


def test_an_output_never_written_is_told_of(host_program):
    done = run_host(host_program, "forgetful")
    assert done.returncode == 0, done.stderr
    text = "4064 of the 4096 bytes of GmAlloc 3 hold no value"
    assert done.stderr.count("twin warning") == 1 and text in done.stderr


def test_warnings_are_printed_once_per_place(host_program):
    done = run_host(host_program, "careless")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and all(
        line.startswith("twin warning: kernel careless_custom, ") and "host_kernel.cc:" in line
        for line in lines
    )
    assert "SetFlag<HardEvent::MTE2_V>(7): ids 6 and 7 are reserved" in lines[0]
    assert "SetFlag<HardEvent::MTE2_V>(7) is set already, at" in lines[1]


REFUSED = {
    "DataCopy": ("DataCopy(l, g, 8);", "bool"),
    "DataCopyPad": (
        "DataCopyPad(l, g, DataCopyExtParams(), DataCopyPadExtParams<bool>());",
        "bool",
    ),
    "SetAtomicAdd": ("SetAtomicAdd<bool>();", "bool"),
    "SetAtomicMax": ("SetAtomicMax<uint32_t>();", "unsigned int"),
    "SetPadValue": ("SetPadValue(true);", "bool"),
}


@pytest.mark.parametrize("instruction", REFUSED)
def test_refused_types(instruction):
    call, dtype = REFUSED[instruction]
    text = f"""#include "kernel_operator.h"
    using namespace AscendC;
    void kernel(LocalTensor<bool> l, GlobalTensor<bool> g) {{ {call} }}"""
    said = builds.refused(text, ("-Wno-unused-parameter",))
    assert f"{instruction} does not take this data type on dav-c220" in said.replace('"', "")
    assert f"T = {dtype}" in said


@pytest.mark.parametrize(
    "call, message",
    [
        ("PipeBarrier<PIPE_S>();", "PipeBarrier does not take PIPE_S"),
        ("CrossCoreSetFlag<4, PIPE_MTE3>(0);", "dav-c220 has the modes 0, 1 and 2"),
        ("CrossCoreSetFlag<0, PIPE_ALL>(0);", "does not take PIPE_S or PIPE_ALL"),
        ("TQue<TPosition::VECCALC, 1> q;", "VECCALC memory is a TBuf"),
        ("TQue<TPosition::VECIN, 0> q; q.AllocTensor<float>();", "needs a depth"),
    ],
)
def test_refused_uses(call, message):
    text = f"""#include "kernel_operator.h"
    using namespace AscendC;
    void kernel(LocalTensor<float> l) {{ {call} }}"""
    assert message in builds.refused(text, ("-Wno-unused-parameter",))


# Documented names that the twin does not have, as a kernel may write them: what the compiler says.
ABSENT = {
    "Prelu(l, l, 8);": "'Prelu' was not declared",
    "AscendC::Tanh(l, l);": "'Tanh' is not a member of 'AscendC'",
    "Gelu<float>(l, l);": "'Gelu' was not declared",
    "Matmul<int, int, int> mm;": "'Matmul' was not declared",
    "REGIST_MATMUL_OBJ(&pipe, nullptr, l);": "'REGIST_MATMUL_OBJ' was not declared",
    "KfcWorkspace space(nullptr);": "'KfcWorkspace' was not declared",
    "pipe.InitSpmBuffer(l, 8);": "'class AscendC::TPipe' has no member named 'InitSpmBuffer'",
    "queue.SetTBufPoolHandle(0);": "has no member named 'SetTBufPoolHandle'",
    "l.Print();": "has no member named 'Print'",
    "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AICORE);": "'KERNEL_TYPE_AICORE' was not declared",
    "CrossCoreSetFlagAll(0);": "'CrossCoreSetFlagAll' was not declared",
    "half_scale(l);": "'Subs' was not declared in this scope",
}


def test_absent_names():
    """Every use of an API that the twin does not have is an error on its line, and names it."""
    calls = "\n".join(f'#line {100 + i} "absent"\n{call}' for i, call in enumerate(ABSENT))
    said = builds.refused(
        f"""#include "kernel_operator.h"
        using namespace AscendC;
        template <typename T> void half_scale(T t) {{
        #line {100 + len(ABSENT) - 1} "absent"
        Subs(t, t, 1, 8); }}
        void kernel(LocalTensor<float> l, TPipe& pipe, TQue<TPosition::VECIN, 1>& queue) {{
        {calls}
        }}""",
        ("-Wno-unused-parameter",),
    )
    said = said.replace("\N{LEFT SINGLE QUOTATION MARK}", "'").replace(
        "\N{RIGHT SINGLE QUOTATION MARK}", "'"
    )
    for i, message in enumerate(ABSENT.values()):
        about = [line for line in said.splitlines() if line.startswith(f"absent:{100 + i}:")]
        assert any("error: " in line and message in line for line in about), (message, about)


@pytest.mark.parametrize("header", ["lib/normalization/layernorm.h"])
def test_absent_headers(header):
    assert f"{header}: No such file" in builds.refused(f'#include "{header}"')
