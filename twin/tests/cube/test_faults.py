"""Every check of the cube side finds the fault planted for it, and says where and what."""

import re

import numpy as np
import pytest

from twin.tests import builds, harness

# In the order of HardEvent.
MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, M_FIX, FIX_M = 0, 1, 2, 3, 17, 18


@pytest.fixture
def launch(kernels, rng):
    a, b = (rng.standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    buffers = [(harness.INPUT, a), (harness.INPUT, b)]

    def run(kernel, *numbers, type=harness.AIC_ONLY):
        out = np.zeros((32, 32), np.float32)
        return kernels.launch(kernel, [*buffers, (harness.OUTPUT, out)], numbers, type=type)

    return run


def refuse(report, *texts):
    assert not report.ok, "the fault was not found"
    for text in ("faults.cc:", *texts):
        assert text in report.error, report.error


@pytest.mark.parametrize(
    "event, instruction, kind, advice",
    [
        (MTE2_MTE1, "LoadData(", "read after write", "HardEvent::MTE2_MTE1"),
        (MTE1_M, "Mmad(", "read after write", "HardEvent::MTE1_M"),
        (M_FIX, "Fixpipe(", "read after write", "HardEvent::M_FIX"),
        (MTE1_MTE2, "DataCopy(", "write after read", "HardEvent::MTE1_MTE2"),
        (M_MTE1, "LoadData(", "write after read", "HardEvent::M_MTE1"),
        (FIX_M, "Mmad(", "write after read", "HardEvent::FIX_M"),
    ],
)
def test_missing_flag(launch, event, instruction, kind, advice):
    refuse(launch("pipeline", event), instruction, "hazard, " + kind, advice)


def test_pipeline_with_all_flags(launch):
    report = launch("pipeline", -1)
    assert report.ok, report.error
    assert report.kinds() == []


@pytest.mark.parametrize(
    "numbers, texts",
    [
        ((256, 256, 16, 0, 0, 0), ["out of bounds"]),
        ((16, 16, 16, 512, 0, 0), ["dst is at byte 512 of L0C", "multiple of 1024"]),
        ((16, 16, 16, 0, 256, 0), ["fm is at byte 256 of L0A", "multiple of 512"]),
        ((16, 16, 16, 0, 0, 64), ["filter is at byte 64 of L0B", "multiple of 512"]),
        ((4096, 16, 16, 0, 0, 0), ["m is 4096, expected 0 to 4095"]),
        ((16, 70000, 16, 0, 0, 0), ["n is 70000, expected 0 to 4095"]),
        ((16, 16, 5000, 0, 0, 0), ["k is 5000, expected 0 to 4095"]),
        ((16, 16, 16, 0, 0, 0, 1), ["unitFlag is 1, expected 0, 2 or 3"]),
        ((16, 16, 80, 0, 0, 0), ["uninitialised read", "fm"]),
    ],
)
def test_mmad_arguments(launch, numbers, texts):
    refuse(launch("mmad_of", *numbers), "Mmad(", *texts)


def test_mmad_with_nothing_to_do_is_told(launch):
    report = launch("mmad_of", 0, 16, 16, 0, 0, 0)
    assert report.ok and report.kinds() == ["instruction without effect"]


@pytest.mark.parametrize(
    "kernel, texts",
    [
        ("mmad_dst_in_l0a", ["dst lies in L0A; this instruction takes L0C"]),
        ("mmad_without_load", ["uninitialised read", "fm"]),
        ("mmad_accumulates_on_nothing", ["uninitialised read", "dst"]),
    ],
)
def test_mmad_operands(launch, kernel, texts):
    refuse(launch(kernel), "Mmad(", *texts)


@pytest.mark.parametrize("m, n, barrier, legal", [
    (16, 16, 0, False),
    (47, 80, 0, True),
    (48, 47, 0, False),
    (32, 64, 0, False),
    (32, 64, 1, True),
    (128, 128, 0, True),
])  # fmt: skip
def test_short_sums_need_a_barrier(launch, m, n, barrier, legal):
    report = launch("accumulate", m, n, barrier)
    if legal:
        assert report.ok, report.error
    else:
        refuse(report, "Mmad(", "hazard, read after write", "PipeBarrier<PIPE_M>")


@pytest.mark.parametrize("k, legal", [(20, True), (24, False)])
def test_k_beyond_what_was_loaded(launch, k, legal):
    report = launch("mmad_beyond_k", k)
    if legal:
        assert report.ok, report.error
    else:
        refuse(report, "Mmad(", "uninitialised read", "filter")


@pytest.mark.parametrize(
    "first, second, fixpipe, flag, texts",
    [
        (3, -1, 0, 1, ["Fixpipe(", "unit flag on one side only", "unitFlag 3"]),
        (0, -1, 3, 1, ["Fixpipe(", "waits for ever", "no Mmad with unitFlag 3"]),
        (2, -1, 3, 0, ["Fixpipe(", "waits for ever", "unitFlag 2"]),
        (2, -1, 0, 1, ["Fixpipe(", "unit flag on one side only", "unitFlag 2"]),
        (3, 3, 3, 0, ["Mmad(", "waits for ever"]),
        (2, 0, 3, 0, ["Mmad(", "unit flag on one side only"]),
        (3, -1, -1, 0, ["unit flag left at the end of the kernel"]),
        (3, -1, 2, 0, ["unit flag left at the end of the kernel"]),
        (0, -1, 0, 0, ["Fixpipe(", "hazard, read after write"]),
    ],
)
def test_unit_flag_faults(launch, first, second, fixpipe, flag, texts):
    refuse(launch("unit_flags", first, second, fixpipe, flag), *texts)


@pytest.mark.parametrize("first, second", [(3, -1), (2, 3)])
def test_unit_flag_takes_the_place_of_events(launch, first, second):
    report = launch("unit_flags", first, second, 3, 0)
    assert report.ok, report.error


def test_unit_flags_pass_on_what_they_waited_for(launch):
    report = launch("unit_flags_of_tiles", 1)
    assert report.ok, report.error
    refuse(launch("unit_flags_of_tiles", 0), "LoadData(", "hazard, write after read", "Mmad")


def test_unit_flags_are_reset(launch):
    report = launch("unit_flags_reset")
    assert report.ok, report.error


@pytest.mark.parametrize(
    "fields, texts",
    [
        ((1, 16, 16, 0, 70000, 16, 1, 0), ["srcDValue is 70000, expected 1 to 65535"]),
        ((1, 16, 16, 0, 0, 16, 1, 0), ["srcDValue is 0, expected 1 to 65535"]),
        ((5000, 16, 16, 0, 32, 16, 1, 0), ["ndNum is 5000, expected 0 to 4095"]),
        ((1, 20000, 16, 0, 32, 16, 1, 0), ["nValue is 20000, expected 0 to 16384"]),
        ((1, 16, 70000, 0, 32, 16, 1, 0), ["dValue is 70000, expected 0 to 65535"]),
        ((1, 16, 16, 0, 32, 0, 1, 0), ["dstNzC0Stride is 0, expected 1 to 16384"]),
        ((1, 16, 16, 0, 32, 16, 0, 0), ["dstNzNStride is 0, expected 1 to 16384"]),
        ((2, 1, 16, 70000, 32, 16, 1, 256), ["srcNdMatrixStride is 70000"]),
        ((2, 1, 16, 0, 32, 16, 1, 70000), ["dstNzMatrixStride is 70000"]),
        ((2, 1, 16, 0, 32, 16, 1, 8), ["dstNzMatrixStride is 8 elements, 16 bytes"]),
        ((1, 16, 32, 0, 32, 8, 1, 0), ["illegal overlap", "byte 256"]),
        ((2, 16, 16, 0, 32, 16, 1, 128), ["illegal overlap"]),
        ((4095, 16384, 65535, 0, 1, 1, 1, 16), ["illegal overlap", "more than L1 holds"]),
        ((1, 33, 32, 0, 32, 48, 1, 0), ["out of bounds", "buffer 0"]),
        ((1, 32, 32, 0, 32, 16384, 1, 0), ["out of bounds", "dst"]),
    ],
)
def test_nd2nz_arguments(launch, fields, texts):
    refuse(launch("nd2nz_of", *fields), "DataCopy(", *texts)


def test_nd2nz_address(launch):
    refuse(launch("nd2nz_to_odd_address"), "dst is at byte 16 of L1", "multiple of 32")


@pytest.mark.parametrize(
    "fields, texts",
    [
        ((0, 256, 1, 0, 0, 0, 0, 0), ["repeatTimes is 256, expected 0 to 255"]),
        ((70000, 1, 1, 0, 0, 0, 0, 0), ["startIndex is 70000"]),
        ((0, 1, 70000, 0, 0, 0, 0, 0), ["srcStride is 70000"]),
        ((0, 1, 1, 0, 70000, 0, 0, 0), ["dstGap is 70000"]),
        ((0, 1, 1, 16, 0, 0, 0, 0), ["sid is 16, expected 0 to 15"]),
        ((0, 1, 1, 0, 0, 0, 1, 0), ["addrMode is 1, expected 0 to 0"]),
        ((0, 1, 1, 0, 0, 0, 0, 256), ["dst is at byte 256 of L0A", "multiple of 512"]),
        ((0, 130, 0, 0, 0, 0, 0, 0), ["out of bounds", "dst"]),
        ((127, 2, 1, 0, 0, 0, 0, 0), ["out of bounds", "src"]),
    ],
)
def test_load_2d_arguments(launch, fields, texts):
    refuse(launch("load2d_of", *fields), "LoadData(", *texts)


@pytest.mark.parametrize(
    "kernel, texts",
    [
        ("load2d_transposes_float", ["ifTranspose takes 16-bit types", "32 bits"]),
        ("load2d_transposes_from_gm", ["ifTranspose is only for L1"]),
        ("load3d_without_map", ["SetFmatrix was not called"]),
        ("load3d_bytes_to_l0b", ["8-bit types are loaded into L0A"]),
        ("fixpipe_split_in_nd", ["isChannelSplit takes float to GM with CFG_NZ"]),
        ("fixpipe_subnormal_factor", ["the factor is infinite, NaN or subnormal"]),
        ("fixpipe_l1_twice", ["hazard, write after write", "PipeBarrier<PIPE_FIX>"]),
        ("hf32", ["HF32"]),
    ],
)
def test_refused(launch, kernel, texts):
    refuse(launch(kernel), *texts)


def test_transpose_overlap(launch):
    texts = ["LoadDataWithTranspose(", "illegal overlap", "fractal 1"]
    refuse(launch("transpose_overlaps", 0, 0), *texts)
    assert launch("transpose_overlaps", 1, 0).ok


@pytest.mark.parametrize(
    "numbers, texts",
    [
        ((20, 16, 0, 32, 0, 1), ["mExtension is 20, expected a multiple of 16"]),
        ((16, 24, 0, 32, 0, 1), ["kExtension is 24, expected a multiple of 16"]),
        ((16, 16, 8, 32, 0, 1), ["kStartPt is 8, expected a multiple of 16"]),
        ((16, 16, 32, 32, 0, 1), ["reaches element 48 of K", "has 32"]),
        ((16, 16, 0, 20, 0, 1), ["channelSize is 20"]),
        ((16, 16, 0, 32, 1, 1), ["enSmallK"]),
        ((16, 16, 0, 32, 0, 64), ["strideW is 64, expected 1 to 63"]),
        ((70000, 16, 0, 32, 0, 1), ["mExtension is 70000"]),
        ((65520, 65520, 0, 32, 0, 1), ["out of bounds"]),
    ],
)
def test_load_3d_arguments(launch, numbers, texts):
    refuse(launch("load3d_of", *numbers), "LoadData(", *texts)


def test_load_3d_boundary(launch):
    refuse(launch("load3d_boundary", 100), "boundaryValue is 100 bytes")
    refuse(launch("load3d_boundary", 1 << 20), "src begins at byte", "SetLoadDataBoundary(1048576)")
    assert launch("load3d_boundary", 0).ok


def test_sparse_faults(launch):
    refuse(launch("sparse_without_index", 32), "no LoadDataWithSparse has loaded the index")
    refuse(launch("sparse_without_index", 30), "k is 30, it has to be a multiple of 4")


@pytest.mark.parametrize(
    "numbers, texts",
    [
        ((32, 32, 32, 0, 0, 1, 0, 0, 0), ["dstStride is 0"]),
        (
            (32, 32, 32, 2**32 + 32, 0, 1, 0, 0, 0),
            ["dstStride is 4294967328, expected 0 to 4294967295"],
        ),
        ((32, 32, 32, 31, 0, 1, 0, 0, 0), ["illegal overlap", "dstStride is 31"]),
        ((5000, 32, 32, 32, 0, 1, 0, 0, 0), ["nSize is 5000, expected 0 to 4095"]),
        ((32, 9000, 32, 32, 0, 1, 0, 0, 0), ["mSize is 9000, expected 0 to 8192"]),
        ((32, 32, 70000, 32, 0, 1, 0, 0, 0), ["srcStride is 70000"]),
        ((32, 32, 32, 32, 1, 1, 0, 0, 0), ["quantPre is F322F16", "takes NoQuant"]),
        ((16, 32, 32, 16, 0, 2, 600, 512, 0), ["srcNdStride is 600, expected 1 to 512"]),
        ((16, 32, 32, 16, 0, 2, 2, 70000, 0), ["dstNdStride is 70000"]),
        ((16, 16, 32, 16, 0, 2, 2, 8, 0), ["illegal overlap", "dstNdStride is 8"]),
        ((32, 33, 32, 32, 0, 1, 0, 0, 0), ["uninitialised read", "src"]),
        ((16, 8192, 32, 16, 0, 65535, 1, 1, 0), ["out of bounds", "src"]),
        ((32, 32, 32, 33, 0, 1, 0, 0, 0), ["out of bounds", "buffer 2"]),
        ((16, 16, 32, 16, 0, 1, 0, 0, 32), ["src is at byte 32 of L0C", "multiple of 64"]),
    ],
)
def test_fixpipe_arguments(launch, numbers, texts):
    refuse(launch("fixpipe_nd", *numbers), "Fixpipe(", *texts)


@pytest.mark.parametrize(
    "numbers, texts",
    [
        ((24, 64, 0, 0), ["nSize is 24, expected a multiple of 16"]),
        ((20, 64, 0, 1), ["nSize is 20, expected a multiple of 8"]),
        ((32, 63, 0, 0), ["illegal overlap", "dstStride is 63 blocks"]),
        ((16, 64, 16, 0), ["dst lies 16 bytes into its buffer"]),
    ],
)
def test_fixpipe_nz_arguments(launch, numbers, texts):
    refuse(launch("fixpipe_nz", *numbers), "Fixpipe(", *texts)


@pytest.mark.parametrize(
    "numbers, texts",
    [
        ((3, 0, 0), ["quantPre is DEQF16 and SetFixpipePreQuantFlag was not called"]),
        ((4, 0, 0), ["quantPre is VDEQF16 and SetFixPipeConfig was not called"]),
        ((0, 1, 0), ["nz2ndEn is true and SetFixpipeNz2ndFlag was not called"]),
        ((0, 0, 1), ["no ClipReLU"]),
    ],
)
def test_data_copy_from_l0c(launch, numbers, texts):
    refuse(launch("copy_result", *numbers), "DataCopy", *texts)


def test_factors_lie_in_the_fixpipe_buffer(launch):
    refuse(launch("factors_in_l1"), "SetFixPipeConfig", "lies in L1")


def test_rows_that_were_not_loaded(launch):
    assert launch("padding_rows", 20).ok
    refuse(launch("padding_rows", 21), "Fixpipe(", "uninitialised read", "src")


@pytest.mark.parametrize(
    "numbers, texts",
    [
        ((0, 512), ["out of bounds", "C2 BT"]),
        ((32, 16), ["dst is at byte 32", "multiple of 64"]),
        ((0, 20), ["count 20 is 80 bytes, not a multiple of 64"]),
    ],
)
def test_bias_table(launch, numbers, texts):
    refuse(launch("bias_of", *numbers), "DataCopy", *texts)


@pytest.mark.parametrize(
    "numbers, texts",
    [
        ((0, 0, 1), ["uninitialised read", "bias"]),
        ((1, 1, 1), ["cmatrixInitVal is true"]),
        ((1, 0, 0), ["hazard, read after write", "HardEvent::MTE1_M"]),
    ],
)
def test_mmad_bias(launch, numbers, texts):
    refuse(launch("mmad_bias", *numbers), "Mmad(", *texts)
    assert launch("mmad_bias", 1, 0, 1).ok


def test_bias_of_fewer_columns(launch):
    """The columns beyond the bias are padding, and hold nothing."""
    report = launch("mmad_bias", 1, 0, 1, 16, 16)
    assert report.ok, report.error
    refuse(launch("mmad_bias", 1, 0, 1, 16, 24), "Fixpipe(", "uninitialised read")


@pytest.mark.parametrize(
    "kernel, texts",
    [
        ("vector_mmad", ["Mmad(", "PIPE_M is a pipe of cube cores (AIC)"]),
        ("vector_nd2nz", ["DataCopy(", "L1, which an AIV does not have"]),
        ("vector_load", ["LoadData(", "PIPE_MTE1 is a pipe of cube cores (AIC)"]),
        ("vector_fixpipe", ["Fixpipe(", "PIPE_FIX is a pipe of cube cores (AIC)"]),
        ("vector_registers", ["SetLoadDataPaddingValue", "this core is an AIV"]),
    ],
)
def test_wrong_core(launch, kernel, texts):
    refuse(launch(kernel, type=harness.AIV_ONLY), "AIV 0", *texts)


REFUSED_CALLS = [
    ("Mmad(l<half>(), l<half>(), l<half>(), {})", ["Mmad does not take", "T = half"]),
    ("Mmad(l<float>(), l<half>(), l<bfloat16_t>(), {})", ["Mmad does not take"]),
    ("Mmad(l<float>(), l<half>(), l<half>(), l<half>(), {})", ["Mmad does not take"]),
    ("DataCopy(l<double>(), g<double>(), Nd2NzParams())", ["DataCopy with Nd2NzParams"]),
    ("DataCopy(l<float>(), l<bfloat16_t>(), DataCopyParams())", ["takes float from half"]),
    ("LoadData(l<int64_t>(), l<int64_t>(), LoadData2DParams())", ["LoadData does not take"]),
    (
        "LoadDataWithTranspose(l<int16_t>(), l<int16_t>(), LoadData2dTransposeParams())",
        ["LoadDataWithTranspose does not take", "T = short int"],
    ),
    (
        "LoadData(l<uint16_t>(), l<uint16_t>(), LoadData3DParamsV2<uint16_t>())",
        ["LoadData with LoadData3DParamsV2 does not take"],
    ),
    ("Fill(l<int8_t>(), InitConstValueParams<int8_t>())", ["Fill does not take"]),
    (
        "Fixpipe<bfloat16_t, int32_t>(g<bfloat16_t>(), l<int32_t>(), FixpipeParamsV220())",
        ["Fixpipe to GM does not take"],
    ),
    (
        "Fixpipe<float, float, CFG_NZ>(l<float>(), l<float>(), FixpipeParamsV220())",
        ["Fixpipe to L1 does not take"],
    ),
    (
        "Fixpipe<half, float>(l<half>(), l<float>(), FixpipeParamsV220())",
        ["Fixpipe to L1 keeps the layout NZ"],
    ),
    ("LoadData(l<half>(), l<half>(), LoadData2DParamsV2())", ["LoadData2DParamsV2"]),
]


@pytest.fixture(scope="module")
def said():
    """Gives the compiler's words about each of the calls, all in one source."""
    head = """
        #include "kernel_operator.h"
        using namespace AscendC;
        template <typename T> const LocalTensor<T>& l();
        template <typename T> const GlobalTensor<T>& g();
    """.splitlines()
    calls = [f"void Kernel{i}() {{ {call}; }}" for i, (call, _) in enumerate(REFUSED_CALLS)]
    lines = builds.refused("\n".join([*head, *calls])).splitlines()
    # A message names the call's line; what the instantiation was comes just before it.
    places = {}
    for at, line in enumerate(lines):
        found = re.match(r"<stdin>:(\d+):", line)
        if found:
            places[at] = int(found.group(1)) - len(head) - 1
    result = {}
    starts = sorted(places)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        text = "\n".join(lines[max(start - 1, 0) : end])
        result[places[start]] = result.get(places[start], "") + text
    return result


@pytest.mark.parametrize("index", range(len(REFUSED_CALLS)))
def test_does_not_compile(said, index):
    assert index in said, "the compiler accepts the call"
    for expected in REFUSED_CALLS[index][1]:
        assert expected in said[index], said[index]
