"""A missing instruction of dav-c220 does not compile: the error names instruction and type."""

import re

import pytest

from twin.tests import builds

HEAD = """
#include "kernel_operator.h"
using namespace AscendC;
"""

ARITHMETIC = ("uint16_t", "uint32_t", "int8_t", "uint8_t", "bfloat16_t", "int64_t")
NOT_FLOAT = ("int16_t", "int32_t", "bfloat16_t", "uint8_t")
NOT_BITS = ("int32_t", "uint32_t", "half", "float", "bfloat16_t")
BINARY = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min"), ARITHMETIC),
    **dict.fromkeys(("Div", "FusedMulAdd", "MulAddRelu"), NOT_FLOAT),
    **dict.fromkeys(("And", "Or"), NOT_BITS),
    **dict.fromkeys(("AddRelu", "SubRelu"), ("int32_t", "bfloat16_t")),
}
SCALAR = {
    **dict.fromkeys(("Adds", "Muls", "Maxs", "Mins"), ARITHMETIC),
    "LeakyRelu": NOT_FLOAT,
    **dict.fromkeys(("ShiftLeft", "ShiftRight"), ("half", "float", "int8_t", "int64_t")),
}
UNARY = {
    **dict.fromkeys(("Exp", "Ln", "Abs", "Sqrt", "Rsqrt", "Reciprocal"), NOT_FLOAT),
    "Relu": ("int16_t", "bfloat16_t", "uint32_t"),
    "Not": NOT_BITS,
}
FILL = ("int8_t", "uint8_t", "int64_t", "uint64_t", "double")

# name: (call on tensors t of the type T, illegal types)
CALLS = {
    **{name: ("{name}(t, t, t, 8)", types) for name, types in BINARY.items()},
    **{name: ("{name}(t, t, T(1), 8)", types) for name, types in SCALAR.items()},
    **{name: ("{name}(t, t, 8)", types) for name, types in UNARY.items()},
    "SoftMax": ("SoftMax(t, t, SoftMaxTiling())", ("int32_t", "bfloat16_t")),
    "TopK": (
        "TopK(t, {{}}, t, {{}}, {{}}, 1, TopkTiling(), TopKInfo())",
        ("int16_t", "int32_t", "bfloat16_t"),
    ),
    "Broadcast": (
        "Broadcast<T, 1, 0>(t, t, nullptr, nullptr)",
        ("int16_t", "uint16_t", "int32_t", "bfloat16_t", "int64_t"),
    ),
    "InitOutput": ("InitOutput(GlobalTensor<T>(), 8, T(1))", ("int8_t", "uint8_t", "int64_t")),
    "MulAddDst": ("MulAddDst(t, t, t, 8)", ("int32_t", "bfloat16_t")),
    "Axpy": ("Axpy(t, t, T(1), 8)", ("int16_t", "bfloat16_t")),
    "Duplicate": ("Duplicate(t, T(1), 8)", FILL),
    "Brcb": ("Brcb(t, t, 1, BrcbRepeatParams())", FILL),
    "Copy": ("Copy(t, t, uint64_t(8), 1, CopyRepeatParams())", FILL),
    "CreateVecIndex": ("CreateVecIndex(t, T(1), 8u)", ("uint16_t", "bfloat16_t", "int8_t")),
    "Gather": ("Gather(t, t, offsets, 0, 8u)", FILL),
    "Gatherb": ("Gatherb(t, t, offsets, 1, GatherRepeatParams())", ("half", "float", "int8_t")),
    "GatherMask": ("GatherMask(t, t, 1, false, 0, GatherMaskParams(), kept)", FILL),
    "Compare": ("Compare(bits, t, t, CMPMODE::EQ, 64u)", ("int16_t", "bfloat16_t", "uint32_t")),
    "Compares": ("Compares(bits, t, T(1), CMPMODE::EQ, 64u)", ("int16_t", "bfloat16_t")),
    "Select": (
        "Select(t, bits, t, t, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64u)",
        ("int32_t", "bfloat16_t"),
    ),
    "ReduceSum": ("ReduceSum(t, t, t, 8)", NOT_FLOAT),
    "ReduceMax": ("ReduceMax(t, t, t, 8)", NOT_FLOAT),
    "ReduceMin": ("ReduceMin(t, t, t, 8)", NOT_FLOAT),
    "WholeReduceSum": ("WholeReduceSum(t, t, 8, 1, 1, 1, 8)", NOT_FLOAT),
    "WholeReduceMax": ("WholeReduceMax(t, t, 8, 1, 1, 1, 8)", NOT_FLOAT),
    "BlockReduceSum": ("BlockReduceSum(t, t, 1, 8, 1, 1, 8)", NOT_FLOAT),
    "PairReduceSum": ("PairReduceSum(t, t, 1, 8, 1, 1, 8)", NOT_FLOAT),
    "ReduceDataBlock": ("ReduceDataBlock<ReduceType::SUM>(t, t, 8, 1, 1, 1, 8)", NOT_FLOAT),
    "ReduceRepeat": ("ReduceRepeat<ReduceType::MAX>(t, t, 8, 1, 1, 1, 8)", NOT_FLOAT),
    "ReducePairElem": ("ReducePairElem<ReduceType::SUM>(t, t, 8, 1, 1, 1, 8)", NOT_FLOAT),
    "Sort32": ("Sort32(t, t, offsets, 1)", ("int32_t", "bfloat16_t")),
    "MrgSort": ("MrgSort(t, MrgSortSrcList<T>(t, t, t, t), MrgSort4Info())", ("int32_t",)),
    "Transpose": ("Transpose(t, t)", ("float", "int32_t", "bfloat16_t")),
    "TransDataTo5HD": (
        "TransDataTo5HD<T>(addresses, addresses, TransDataTo5HDParams())",
        ("bfloat16_t", "int64_t"),
    ),
}

# Casts between types that have none (destination, source).
CASTS = (
    ("half", "bfloat16_t"),
    ("bfloat16_t", "half"),
    ("bfloat16_t", "bfloat16_t"),
    ("int8_t", "float"),
    ("uint8_t", "int32_t"),
    ("half", "int64_t"),
    ("int32_t", "int16_t"),
    ("float", "uint32_t"),
)

# Not on this architecture, or not in this form: (call, what the compiler names).
ABSENT = (
    ("Neg(f, f, 8u)", "Neg"),
    ("Subs(f, f, 1.0f, 8)", "Subs"),
    ("Divs(f, f, 1.0f, 8)", "Divs"),
    ("Ands(s, s, int16_t(1), 8)", "Ands"),
    ("Prelu(f, f, f, 8u)", "Prelu"),
    ("Truncate<float, RoundMode::CAST_RINT>(f, f, 8u)", "Truncate"),
    ("Interleave(f, f, f, f, 8)", "Interleave"),
    ("Scatter(f, f, offsets, 0u, 8u)", "Scatter"),
    ("RpSort16(h, h, 1)", "RpSort16"),
    ("Copy(f, f, 8u)", "Copy"),
    ("Duplicate(f, f, 8)", "Duplicate"),
    ("ShiftLeft(s, s, s, 8)", "ShiftLeft"),
    ("Abs(s, f, 8)", "Abs"),
    ("Adds(h, h, 1, 8)", "Adds"),
    ("ReducePairElem<ReduceType::MAX>(f, f, 8, 1, 1, 1, 8)", "ReducePairElem takes SUM"),
    ("ReduceRepeat<ReduceType::SUM>(f, h, 8, 1, 1, 1, 8)", "one data type for dst and src"),
    ("GatherMask(f, f, words, false, 0, GatherMaskParams(), kept)", "src1Pattern"),
    ("MulAddDst(h, f, f, 8)", "MulAddDst"),
    ("Axpy(h, f, 1.0f, 8)", "Axpy"),
    ("Exp<float, true, 3>(f, f, uint64_t(8), 1, UnaryRepeatParams())", "Exp"),
)

FRAME = """
void Kernel(LocalTensor<float> f, LocalTensor<half> h, LocalTensor<int16_t> s,
            LocalTensor<uint16_t> words, LocalTensor<uint32_t> offsets,
            LocalTensor<uint8_t> bits, uint64_t kept) {
%s
}
"""


@pytest.fixture(scope="module")
def said_of_types():
    """Gives the compiler's words about every illegal call, in one compilation."""
    lines = []
    for name, (text, types) in CALLS.items():
        for dtype in types:
            call = text.format(name=name)
            lines.append(
                f"void {name}_{dtype}(LocalTensor<{dtype}> t, LocalTensor<uint32_t> offsets, "
                f"LocalTensor<uint8_t> bits, uint64_t kept, uint64_t* addresses) "
                f"{{ using T = {dtype}; {call}; (void)addresses; (void)kept; }}"
            )
    for dst, src in CASTS:
        lines.append(
            f"void Cast_{dst}_{src}(LocalTensor<{dst}> d, LocalTensor<{src}> s) "
            "{ Cast(d, s, RoundMode::CAST_RINT, 8u); }"
        )
    return builds.refused(HEAD + "\n".join(lines))


# How g++ writes the types.
SPELLED = {
    "int8_t": "signed char",
    "uint8_t": "unsigned char",
    "int16_t": "short int",
    "uint16_t": "short unsigned int",
    "int32_t": "int",
    "uint32_t": "unsigned int",
    "int64_t": "long int",
    "uint64_t": "long unsigned int",
}


def instantiations(said, name):
    """The data types with which an instruction was refused."""
    pattern = rf"In instantiation of [^\n]*AscendC::{name}\([^\n]*\[with ([^\n]*)\]"
    refused = set()
    for block in re.split(r"(?=[^\n]*In instantiation of)", said):
        match = re.match(rf"[^\n]*?{pattern}", block)
        if match and f"{name} does not take th" in block:
            refused.add(match.group(1))
    return refused


@pytest.mark.parametrize(
    "name, dtype", [(name, dtype) for name, (_, types) in CALLS.items() for dtype in types]
)
def test_data_type(said_of_types, name, dtype):
    spelled = SPELLED.get(dtype, dtype)
    assert any(
        re.search(rf"\bT = {re.escape(spelled)}(;|,|$)", one)
        for one in instantiations(said_of_types, name)
    ), f"{name} takes {dtype}"


@pytest.mark.parametrize("dst, src", CASTS)
def test_cast(said_of_types, dst, src):
    d, s = SPELLED.get(dst, dst), SPELLED.get(src, src)
    assert any(
        re.search(rf"T = {re.escape(d)};.*U = {re.escape(s)}(;|,|$)", one)
        for one in instantiations(said_of_types, "Cast")
    )


@pytest.fixture(scope="module")
def said_of_absent():
    lines = "\n".join(f'#line {1000 + i} "absent"\n{text};' for i, (text, _) in enumerate(ABSENT))
    return builds.refused(HEAD + FRAME % lines)


@pytest.mark.parametrize("index", range(len(ABSENT)), ids=[text for text, _ in ABSENT])
def test_absent(said_of_absent, index):
    """The compiler complains about that very line and names the API."""
    name = ABSENT[index][1]
    at = f"absent:{1000 + index}:"
    parts = re.split(r"(?=absent:\d+:)", said_of_absent)
    about = "".join(part for part in parts if part.startswith(at))
    assert about, f"{ABSENT[index][0]} compiles"
    assert name in about or name in said_of_absent


def test_the_legal_calls_compile():
    """The frame itself is fine: without the illegal lines nothing is refused."""
    text = HEAD + FRAME % "Add(f, f, f, 8); Cast(h, f, RoundMode::CAST_RINT, 8u);"
    with pytest.raises(AssertionError, match="accepts"):
        builds.refused(text, ["-Wno-unused-parameter"])
