"""Kernels of others use more than instructions."""

import string
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ascendc_twin
from twin.tests import builds
from twin.tests.harness import (
    AIV_ONLY,
    INOUT,
    INPUT,
    MIX_AIC_1_2,
    MIX_AIV_1_0,
    OUTPUT,
    WORKSPACE,
)

from .test_basics import HERE


@pytest.fixture
def launch(others):
    def run(kernel, numbers=(), cores=1, seed=0, more=None, type=AIV_ONLY):
        x = np.random.default_rng(7).standard_normal(1024).astype(np.float32)
        out = np.zeros(2048, np.float32)
        last = np.zeros(4096, np.float32) if more is None else more
        buffers = [(INPUT, x), (OUTPUT, out), (WORKSPACE, np.zeros(1024, np.float32))]
        report = others.launch(
            kernel, [*buffers, (INOUT, last)], numbers, block_dim=cores, seed=seed, type=type
        )
        return report, x, out

    return run


def test_allocated(launch):
    report, x, out = launch("allocated")
    assert report.ok and report.warnings == [], report.error
    assert (out[:64] == x[:64] + np.float32(1)).all()
    assert out[64:72].tolist() == [(64 + 72) * 4, 0, 1, 1, 1, 0, 10, 1]


@pytest.mark.parametrize("value", [0, -1, 1, -2, 5, -(1 << 63), 12345678901234567])
def test_bits(others, value):
    out = np.zeros(8, np.int64)
    report = others.launch("bits", [(OUTPUT, out)], [value])
    assert report.ok, report.error
    text = f"{value & (1 << 64) - 1:064b}"
    same = next((i for i in range(1, 64) if text[i] != text[0]), 0) - 1
    low = text[::-1]
    expected = [text.count("1"), text.count("0"), (text + "1").index("1"), same]
    expected += [low.find("0"), low.find("1"), text.count("1")]
    assert out[:7].tolist() == expected


@pytest.mark.parametrize("seed", range(6))
def test_block_flags(launch, seed):
    report, x, out = launch("block_flags", [3, 0], 3, seed, type=MIX_AIV_1_0)
    assert report.ok, report.error
    assert (out[: 3 * 2 * 64].reshape(3, 2, 64) == x[: 3 * 64].reshape(3, 1, 64)).all()


def test_block_flags_faults(launch):
    for seed in range(6):
        report = launch("block_flags", [1, 1], 3, seed)[0]
        assert "hazard" in report.error or "uninitialised read" in report.error
        report = launch("block_flags", [1, 2], 3, seed)[0]
        assert "deadlock" in report.error and "IBSet of block" in report.error


@pytest.mark.parametrize("seed", range(16))
def test_ring_of_slots(launch, seed):
    """Whatever the order of the cores, right slots are right and wrong slots are found."""
    report, x, out = launch("ring_of_slots", [12, 0], 2, seed, type=MIX_AIV_1_0)
    assert report.ok and (out[: 12 * 64] == x[: 12 * 64]).all(), report.error
    for fault in (1, 2, 3, 4):
        report = launch("ring_of_slots", [12, fault], 2, seed, type=MIX_AIV_1_0)[0]
        assert "hazard" in report.error or "uninitialised read" in report.error, fault


@pytest.mark.parametrize("seed", range(6))
def test_flag_past_the_cache(launch, seed):
    report, x, out = launch("flag_past_the_cache", [0], 3, seed)
    assert report.ok, report.error
    assert (out[:128].reshape(2, 64) == x[:64]).all()
    assert "hazard, read after write" in launch("flag_past_the_cache", [1], 3, seed)[0].error


@pytest.mark.parametrize("gap", [0, 2])
def test_slices(launch, gap):
    report, x, out = launch("slices", [gap])
    assert report.ok, report.error
    rows = x[:256].reshape(8, 32)[::2, 8:24]
    assert (out.reshape(-1, 16)[: 4 * (gap + 1) : gap + 1] == rows).all()


def test_list_of_tensors(launch):
    data = np.arange(1, 129, dtype=np.float32)
    words = np.zeros(1 + 2 * 3 + 2 + 64, np.uint64)
    words[0] = 8 * (1 + 2 * 3)
    for i in range(2):
        words[1 + 3 * i] = 2 | (2 if i == 0 else i) << 32
        words[2 + 3 * i : 4 + 3 * i] = 8, 8
    block = np.concatenate([words.view(np.float32), data])
    for i in range(2):
        block[14 + 2 * i : 16 + 2 * i].view(np.uint64)[0] = block.ctypes.data + 4 * (
            words.size * 2 + 64 * i
        )
    report, _, out = launch("list_of_tensors", [1], more=block)
    assert report.ok, report.error
    assert (out[:64] == data[:64] + data[64:]).all()
    report = launch("list_of_tensors", [2], more=block)[0]
    assert "ListTensorDesc: tensor 2 of a list of 2" in report.error


def test_assert(launch):
    assert launch("asserts", [1])[0].ok
    assert "ascendc_assert: p[0] == 1 does not hold" in launch("asserts", [2])[0].error


def run_host(mode, **options):
    program = builds.program(
        HERE / "host_main.cc", HERE / "host_kernel.cc", name="device_host_main"
    )
    return subprocess.run([program, mode], capture_output=True, text=True, timeout=60, env=options)


def test_printf_and_dump():
    done = run_host("printing")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "half 1.5, 7 and text"
    assert (
        lines[1].startswith("DumpTensor: desc=5, AIV 0, UB, half, ")
        and "host_kernel.cc" in lines[1]
    )
    assert lines[2] == "[1.5, 1.5, 1.5]"


def test_options_for_kernels_of_others():
    """Off: both faults are errors. On: the barrier is there, and the read counts by its result."""
    done = run_host("unsynchronised")
    assert done.returncode == 1 and "PipeBarrier<PIPE_V>" in done.stderr
    assert "ASCENDC_TWIN_AUTO_SYNC=1 makes it what CANN's compiler inserts" in done.stderr
    done = run_host("unsynchronised", ASCENDC_TWIN_AUTO_SYNC="1")
    assert done.returncode == 1 and "uninitialised read" in done.stderr
    only = "ASCENDC_TWIN_CARRY_UNINITIALISED=1 makes it an error only where the value counts"
    assert only in done.stderr
    options = ("AUTO_SYNC", "CARRY_UNINITIALISED")
    done = run_host("unsynchronised", **{f"ASCENDC_TWIN_{name}": "1" for name in options})
    assert (
        done.returncode == 1 and "DataCopy: uninitialised output: bytes [248, 256)" in done.stderr
    )
    assert "ASCENDC_TWIN_WARN_UNINITIALISED=1 makes it a warning" in done.stderr
    options = ("AUTO_SYNC", "WARN_UNINITIALISED")
    done = run_host("unsynchronised", **{f"ASCENDC_TWIN_{name}": "1" for name in options})
    assert done.returncode == 0, done.stderr
    assert "twin warning" in done.stderr and "src holds no value" in done.stderr


def test_harmless_padding():
    """A tile of 128 elements: 40 are loaded, all are computed with and 40 are stored."""
    done = run_host("padded")
    assert done.returncode == 1 and "ASCENDC_TWIN_CARRY_UNINITIALISED=1" in done.stderr
    done = run_host("padded", ASCENDC_TWIN_CARRY_UNINITIALISED="1")
    assert done.returncode == 0 and done.stderr == ""


def test_padding_in_a_workspace():
    """Memory that a kernel reads again counts as a workspace, with a warning, else as an output."""
    options = {"ASCENDC_TWIN_CARRY_UNINITIALISED": "1"}
    done = run_host("workspace", **options)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("twin warning: ") and "DataCopy: bytes [96, 256) of GmAlloc 4" in line
    assert line.endswith("the kernel reads GmAlloc 4 itself, so it is taken for a workspace")
    done = run_host("workspace not read", **options)
    assert done.returncode == 1
    assert "DataCopy: uninitialised output: bytes [96, 256) of GmAlloc 4" in done.stderr


def test_elements_left_to_the_compiler():
    done = run_host("elements")
    assert done.returncode == 1 and "SetFlag/WaitFlag<HardEvent::MTE2_S>" in done.stderr
    assert "ASCENDC_TWIN_AUTO_SYNC=1" in done.stderr
    done = run_host("elements", ASCENDC_TWIN_AUTO_SYNC="1")
    assert done.returncode == 1 and "out of bounds: dst has 64 bytes" in done.stderr
    assert "ASCENDC_TWIN_WARN_BEYOND_TENSOR=1" in done.stderr
    # The last copy waits for the scalar unit, and for nothing else: that flag is the kernel's.
    options = ("AUTO_SYNC", "WARN_BEYOND_TENSOR")
    done = run_host("elements", **{f"ASCENDC_TWIN_{name}": "1" for name in options})
    assert "twin warning" in done.stderr and "dst has 64 bytes" in done.stderr
    assert done.returncode == 1 and "SetFlag/WaitFlag<HardEvent::V_MTE3>" in done.stderr
    assert "=1 makes it" not in done.stderr.splitlines()[-1]


def test_a_view_that_begins_beyond_its_tensor():
    done = run_host("view")
    assert done.returncode == 1 and "dst begins beyond the end of the tensor" in done.stderr
    assert "ASCENDC_TWIN_WARN_BEYOND_TENSOR=1 makes it a warning where the" in done.stderr
    done = run_host("view", ASCENDC_TWIN_WARN_BEYOND_TENSOR="1")
    assert done.returncode == 0 and "twin warning" in done.stderr, done.stderr


@pytest.mark.parametrize("seed", range(4))
def test_turns(launch, seed):
    last = np.zeros(4096, np.float32)
    report = launch("turns", [3, 0], 5, seed, more=last, type=MIX_AIV_1_0)[0]
    assert report.ok, report.error
    y = 0
    for _ in range(3):
        for core in range(5):
            y = 2 * y + 1 + core
    assert (last[1024:1088] == y).all()
    errors = [launch("turns", [3, f], 5, seed, type=MIX_AIV_1_0)[0].error for f in (1, 2, 3)]
    assert "hazard" in errors[0] or "WaitPreBlock comes first" in errors[0]
    assert "deadlock" in errors[1] and "NotifyNextBlock of the block before" in errors[1]
    assert "InitDetermineComputeWorkspace comes first" in errors[2]


@pytest.mark.parametrize("every", [0, 1])
def test_adjusted_rows(others, every):
    x = np.arange(256, dtype=np.float32)
    most = x[128:192]
    most[:] = 1
    (most if every else most[::8])[[2, 5]] = -np.inf
    out = np.zeros(256, np.float32)
    bits = int(np.float32(-np.inf).view(np.uint32))
    for value, hit in ((bits, True), (bits + 1, False)):
        report = others.launch("adjusted_rows", [(INPUT, x), (OUTPUT, out)], [value, every])
        assert report.ok, report.error
        expected = x[:128].reshape(8, 16).copy()
        if hit:
            expected[[2, 5]] = 7
        assert (out[:128].reshape(8, 16) == expected).all() and out[128] == hit


def test_set_by_hand(launch):
    report, x, out = launch("set_by_hand")
    assert report.ok, report.error
    assert (out[:32] == x[32:64] + np.float32(1)).all() and (out[32:64] == x[:32]).all()


@pytest.mark.parametrize("left", [32, 96, 100000])
def test_fills_what_is_left(launch, left):
    report, x, out = launch("fills_what_is_left", [left])
    assert report.ok, report.error
    assert (out[:600] == 3).all() and (out[600:700] == 4).all()
    assert "there is none left" in launch("fills_what_is_left", [0])[0].error


def test_two_kinds(launch):
    report, x, out = launch("two_kinds", type=MIX_AIC_1_2)
    assert report.ok, report.error
    assert (out[:64] == x[:64]).all() and (out[64:128] == x[:64] + np.float32(1)).all()


REFUSED = {
    "int64_t n = 4; CopyRepeatParams p{1, 1, 8, n};": "narrowing",
    "int n = 4; BrcbRepeatParams p{1, n};": "narrowing",
    "int n = 4; BinaryRepeatParams p{1, 1, 1, n, 8, 8};": "narrowing",
    "int n = 4; UnaryRepeatParams p = {1, 1, n, 8};": "narrowing",
    "GlobalTensor<float> x; x.ReinterpretCast<int>();": "ReinterpretCast",
    "AscendC::GetSysWorkSpacePtr();": "not a member of",
    "AscendC::IsCubeCore();": "not a member of",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_refused_as_by_cann(statement):
    text = (
        f'#include "kernel_operator.h"\nusing namespace AscendC;\nvoid kernel() {{ {statement} }}'
    )
    said = builds.refused(text, ("-Wno-unused",))
    assert REFUSED[statement] in said


# Where the fields have the types that CANN declares, for constructors whose fields differ in type.
REFUSED_FIELDS = (
    "DataCopyParams p{1, 2, n, 0};",
    "DataCopyExtParams p{1, l, 0, 0, 0};",
    "DataCopyPadExtParams<float> p{true, 0, n, 0.0f};",
    "Nd2NzParams p{1, n, 16, 0, 16, 16, 1, 0};",
    "LoadData2DParams p{0, n, 1, 0, 0, false, 0};",
    "LoadData2dTransposeParams p = {0, 1, n, 0, 0};",
    "InitConstValueParams<half> p{n, 1, 0, half(0)};",
    "MmadParams p{u, 16, 16, 0, false, true};",
    "FixpipeParamsV220 p{16, u, 16, 16, false};",
)


@pytest.mark.parametrize("statement", REFUSED_FIELDS)
def test_fields_as_cann_declares_them(statement):
    text = f"""#include "kernel_operator.h"
    using namespace AscendC;
    void kernel([[maybe_unused]] int n, [[maybe_unused]] uint32_t u, [[maybe_unused]] int64_t l) {{
      {{ const DataCopyParams p(1, 2, n, 0); }}
      {statement}
    }}"""
    said = builds.refused(text, ("-DTWIN_FIELDS_AS_CANN", "-Wno-unused"))
    assert said.count("error:") == 1 and "narrowing" in said, said


def test_matmul_object_does_not_compile():
    text = """#include "lib/matmul_intf.h"
    using T = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, half>;
    struct Kernel { TCubeTiling tiling; %s };
    void kernel() { Kernel it; it.tiling.baseM = 16; }"""
    said = builds.refused(text % "matmul::Matmul<T, T, T> product;")
    assert "Matmul: the twin has no Matmul object" in said
    assert "TWIN_MATMUL_FAILS_AT_RUN_TIME" in said


def test_matmul_object_fails_where_it_is_used(launch):
    report, x, out = launch("product_of_a_library", [0])
    assert report.ok and out[0] == 8 + 2, report.error
    for kind, what in (1, "REGIST_MATMUL_OBJ(product)"), (2, "Matmul::Iterate"):
        error = launch("product_of_a_library", [kind])[0].error
        assert f"{what}: the twin has no Matmul object" in error


def test_words_of_others(launch):
    report, x, out = launch("words_of_others", [0])
    assert report.ok, report.error
    assert out[:8].tolist() == [7, 1.75, 10, 3, 4, 3, 48, 14]
    conditions = "p[0] != 1", 'p[0] != 2 && "two"', "p[0] != 3"
    for i, condition in enumerate(conditions, 1):
        assert condition in launch("words_of_others", [i])[0].error


def test_an_error_without_a_place_names_the_instruction_before_it(launch):
    error = launch("values_in_braces")[0].error
    assert "after Duplicate at " in error and "others.cc:" in error
    assert "1 values in braces" in error


# A source asks the preprocessor for these, in each of CANN's two compilations and without them.
ASKED = """#define K_MAX_SHAPE_DIM 0
#include "kernel_operator.h"
#if __CCE_AICORE__ != 220 || !defined(__DAV_C220__)
#error "the architecture"
#endif
#if DT_BF16 != 27 || DT_FLOAT != 0 || FORMAT_FRACTAL_NZ != 29
#error "numbers of dtypes and formats"
#endif
#if __DAV_C220_CUBE__
constexpr int half_of_it = 1;
#elif __DAV_C220_VEC__
constexpr int half_of_it = 2;
#else
constexpr int half_of_it = 0;
#endif
static_assert(half_of_it == HALF, "");
struct Tiling { int rows; };
void kernel(GM_ADDR tiling) {
  GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);
  data.rows += 1;
  GET_TILING_DATA_MEMBER(Tiling, rows, rows, tiling);
  rows += data.rows;
}
"""
COMPILATIONS = {"": 0, "__DAV_CUBE__": 1, "__DAV_C220_CUBE__": 1, "__DAV_VEC__": 2} | {
    "__DAV_C220_VEC__": 2
}


@pytest.mark.parametrize("macro", COMPILATIONS)
def test_macros_of_the_compilation(tmp_path, macro):
    source = tmp_path / "kernel.cpp"
    source.write_text(ASKED)
    flags = [f"-D{macro}"] if macro else []
    builds.accepted(source, (*flags, f"-DHALF={COMPILATIONS[macro]}"))


def test_macros_of_one_letter(tmp_path):
    """Macros of a build do not reach into the headers, and are there behind them."""
    source = tmp_path / "kernel.cpp"
    source.write_text(
        '#include "lib/matmul_intf.h"\n#include "tikicpulib.h"\n'
        "static_assert(N + T + x == 24);\nTCubeTiling tiling;"
    )
    # The library of C++ uses some of the others as parameters and suffixes.
    letters = (*string.ascii_uppercase, "n", "x", "m", "k")
    builds.accepted(source, [f"-D{letter}=8" for letter in letters])


def test_types_at_the_scope_of_a_file(tmp_path):
    """Declared there, as in CANN, for one key or for all; and in every place of a kernel."""
    source = tmp_path / "kernel.cpp"
    source.write_text("""#include "kernel_operator.h"
KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
KERNEL_TASK_TYPE(1, KERNEL_TYPE_AIC_ONLY); KERNEL_TASK_TYPE(2, KERNEL_TYPE_MIX_AIC_1_1);
void kernel(int n) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  if (n > 1) KERNEL_TASK_TYPE(3, KERNEL_TYPE_AIC_ONLY);
  else KERNEL_TASK_TYPE(4, KERNEL_TYPE_AIC_ONLY);
  static_assert(TILING_KEY_IS(7));
}""")
    builds.accepted(source, ["-DTILING_KEY_VAR=7"])


def test_older_parameters_of_copies(tmp_path):
    source = tmp_path / "kernel.cpp"
    source.write_text("""#include "kernel_operator.h"
using namespace AscendC;
void kernel(GlobalTensor<float> gm, LocalTensor<float> ub, LocalTensor<half> l1) {
  FixpipeParams<float> params(2, 32, 0, 4);
  params.nz2ndParams = Nz2NdParams(true, 1, 0, 0, 32);
  params.quantParams = QuantParams(QuantMode_t::F322F16);
  Fixpipe(gm, ub, params);
  Fixpipe(l1, ub, FixpipeParams<float>());
  const DataCopyEnhancedParams plain;
  DataCopy(ub, gm, DataCopyParams(1, 8, 0, 0), plain);
  DataCopy(gm, ub, DataCopyParams(), DataCopyEnhancedParams(
      BlockMode::BLOCK_MODE_NORMAL, DeqScale::DEQ, 0, 0, false, pad_t::PAD_NONE, 0));
}""")
    builds.accepted(source)


def test_one_compilation_is_of_one_half():
    said = builds.refused('#include "kernel_operator.h"', ("-D__DAV_CUBE__", "-D__DAV_C220_VEC__"))
    assert "for cube cores or for vector cores" in said


def test_other_names_of_headers(tmp_path):
    """Every header under every name, in one source."""
    root = Path(ascendc_twin.include_dirs()[0])
    own = {"twin", "aclnnop"}
    names = [
        path.relative_to(root)
        for path in sorted(root.rglob("*.h"))
        if path.relative_to(root).parts[0] not in own
    ]
    wanted = ("kernel_vec_intf.h", "basic_api/kernel_basic_intf.h", "lib/matrix/matmul/tiling.h")
    assert {*wanted} <= {str(name) for name in names} and len(names) > 100
    source = tmp_path / "kernel.cpp"
    source.write_text("".join(f'#include "{name}"\n' for name in names))
    builds.accepted(source)
