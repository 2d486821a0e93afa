"""aclnn functions under CANN's names: its argument lists, and the kernels of this project."""

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from mindspore_nsa import _native, twin
from twin.tests.host.acl import INVALID, NULLPTR, SUCCESS, Device, recent_error

from .aclnn import first_phase, lib, second_phase

HALF = np.float16


def own(name):
    """Name of this project's function of the same kernel."""
    return f"aclnn{_native.ascend_type(name)}"


def parameters(function):
    """(kind, name without "Optional") of what the first phase takes before its results."""
    word = re.sub(r"\B([A-Z])", r"_\1", function.removeprefix("aclnn")).lower()
    (header,) = (
        path
        for folder in twin.include_dirs()
        for path in [Path(folder) / "aclnnop" / f"aclnn_{word}.h"]
        if path.exists()
    )
    found = re.search(rf"{function}GetWorkspaceSize\((.*?)\);", header.read_text(), re.DOTALL)[1]
    pairs = (
        re.fullmatch(r"(?:const )?(\w+) ?\*{0,2} ?(\w+)", p.strip()).groups()
        for p in found.split(",")
    )
    return [(kind, name.removesuffix("Optional")) for kind, name in pairs][:-2]


def draw(*shape, dtype=HALF):
    return (np.random.default_rng(sum(shape)).integers(-8, 9, shape) / 8).astype(dtype)


TOKENS, HEADS, DIM = 64, 2, 32
X = draw(TOKENS, HEADS, DIM)
STATISTICS = ((TOKENS, HEADS, 8), np.float32)
INDICES = np.zeros((TOKENS, HEADS, 1), np.int32)
BLOCKS = {"selectedBlockSize": 64, "selectedBlockCount": 1, "sparseMode": 0}
PACKED = {"actualSeqQLen": [TOKENS], "actualSeqKvLen": [TOKENS]}
FLASH = {
    "scaleValue": 0.125,
    "keepProb": 1.0,
    "preTokens": 65536,
    "nextTokens": 65536,
    "headNum": HEADS,
    "inputLayout": "BSND",
    "innerPrecise": 0,
    "sparseMode": 0,
}
QUERY = X[None]
BIAS = draw(1, HEADS, TOKENS, TOKENS)
QKV = {"query": X, "key": X, "value": X}
FLASH_STATISTICS = ((1, HEADS, TOKENS, 8), np.float32)

# CANN's arguments of every function, with outputs as (shape, dtype), and the further arguments of
# this project's function.
CALLS = {
    "NsaCompress": (
        {
            **{"input": X, "weight": draw(32, HEADS), "actSeqLen": [TOKENS], "layout": "TND"},
            **{"compressBlockSize": 32, "compressStride": 16, "actSeqLenType": 0},
            "output": ((3, HEADS, DIM), HALF),
        },
        {},
    ),
    "NsaCompressGrad": (
        {
            **{"outputGrad": X[:3], "input": X, "weight": draw(32, HEADS), "actSeqLen": [TOKENS]},
            **{"compressBlockSize": 32, "compressStride": 16, "actSeqLenType": 0, "layout": "TND"},
            "inputGradOut": (X.shape, HALF),
            "weightGradOut": ((32, HEADS), HALF),
        },
        {},
    ),
    "NsaCompressAttention": (
        {
            **{"query": X, "key": X[:3], "value": X[:3], "attenMask": None, "topkMask": None},
            **{"actualSeqQLen": [TOKENS], "actualCmpSeqKvLen": [3], "actualSelSeqKvLen": [1]},
            **{"scaleValue": 0.125, "headNum": HEADS, "inputLayout": "TND", "sparseMode": 0},
            **{"compressBlockSize": 32, "compressStride": 16, "selectBlockSize": 64},
            "selectBlockCount": 1,
            **{"softmaxMaxOut": STATISTICS, "softmaxSumOut": STATISTICS},
            "attentionOutOut": (X.shape, HALF),
            "topkIndicesOut": ((TOKENS, HEADS, 1), np.int32),
        },
        {"causal": 0, "initBlocks": 0, "localBlocks": 0, "importance": "cann"},
    ),
    "NsaSelectedAttention": (
        {
            **{**QKV, "topkIndices": INDICES, "attenMask": None, **PACKED},
            **{"scaleValue": 0.125, "headNum": HEADS, "inputLayout": "TND", **BLOCKS},
            **{"softmaxMaxOut": STATISTICS, "softmaxSumOut": STATISTICS},
            "attentionOut": (X.shape, HALF),
        },
        {},
    ),
    "NsaSelectedAttentionGrad": (
        {
            **{**QKV, "attentionOut": X, "attentionOutGrad": X, "topkIndices": INDICES},
            "softmaxMax": np.zeros(*STATISTICS),
            "softmaxSum": np.ones(*STATISTICS),
            **{**PACKED, "attenMask": None, "scaleValue": 0.125, **BLOCKS},
            **{"headNum": HEADS, "inputLayout": "TND"},
            **dict.fromkeys(("dqOut", "dkOut", "dvOut"), (X.shape, HALF)),
        },
        {},
    ),
    "FlashAttentionScore": (
        {
            **{"query": QUERY, "key": QUERY, "value": QUERY, "realShift": BIAS},
            **dict.fromkeys(("dropMask", "paddingMask", "attenMask", "prefix")),
            **FLASH,
            **{"softmaxMaxOut": FLASH_STATISTICS, "softmaxSumOut": FLASH_STATISTICS},
            "softmaxOutOut": ((0,), HALF),
            "attentionOutOut": (QUERY.shape, HALF),
        },
        {"pseType": 1},
    ),
    "FlashAttentionScoreGrad": (
        {
            **{"query": QUERY, "keyIn": QUERY, "value": QUERY, "dy": QUERY, "pseShift": BIAS},
            **dict.fromkeys(("dropMask", "paddingMask", "attenMask", "prefix", "softmaxIn")),
            "softmaxMax": np.zeros(*FLASH_STATISTICS),
            "softmaxSum": np.ones(*FLASH_STATISTICS),
            **{"attentionIn": QUERY, **FLASH},
            **dict.fromkeys(("dqOut", "dkOut", "dvOut"), (QUERY.shape, HALF)),
            "dpseOut": (BIAS.shape, HALF),
        },
        {
            **{"pseType": 1, "compressBlockSize": 0, "compressStride": 0, "pseGrad": 1},
            "dsinkOut": ((1,), np.float32),
        },
    ),
}


# Outputs that CANN calls otherwise than the definition does.
RENAMED = {
    ("NsaCompress", "output"): "out",
    ("NsaSelectedAttention", "attentionOut"): "attentionOutOut",
}


def argument(device, kind, value, outputs):
    """A value as the function takes it."""
    if kind == "double":
        return ctypes.c_double(value or 0)
    if kind == "int64_t":
        return ctypes.c_int64(value or 0)
    if value is None:
        return None
    if kind == "char":
        return value.encode()
    if kind == "aclIntArray":
        return device.int_array(value)
    if isinstance(value, np.ndarray):
        return device.tensor(device.put(value), value.shape, value.dtype)
    shape, dtype = value
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = device.malloc(size) if size else None
    outputs.append((memory, shape, dtype))
    return device.tensor(memory, shape, np.dtype(dtype))


def run(device, function, values):
    """Bytes of the outputs of a call, whose arguments are given by name."""
    names = [name for _, name in parameters(function)]
    assert set(values) <= set(names), set(values).difference(names)
    outputs = []
    arguments = [
        argument(device, kind, values.get(name), outputs) for kind, name in parameters(function)
    ]
    status, size, executor = first_phase(function, *arguments)
    assert status == SUCCESS, recent_error()
    assert second_phase(device, function, size, executor) == SUCCESS
    assert device.synchronize() == SUCCESS, recent_error()
    return [device.get(*output).tobytes() for output in outputs if output[1] not in ((0,), (1,))]


@pytest.mark.parametrize("name", CALLS)
def test_same_bits_as_this_projects_function(name):
    values, further = CALLS[name]
    taken = [n for _, n in parameters(f"aclnn{name}")]
    assert sorted(taken) == sorted(values)
    ours = {RENAMED.get((name, n), n): value for n, value in values.items()}
    with Device() as device:
        theirs = run(device, f"aclnn{name}", values)
        assert theirs == run(device, own(name), {**ours, **further})
        assert any(any(output) for output in theirs)


# Attributes that have one value here, or no effect: what is refused, and the reason given.
REFUSED = {
    **{
        (name, "innerPrecise", value): f"must be in [0, 4], got {value}"
        for name in ("FlashAttentionScore", "FlashAttentionScoreGrad")
        for value in (-1, 5)
    },
    ("NsaCompressAttention", "sparseMode", -1): "must be in [0, 1], got -1",
    ("NsaCompressAttention", "sparseMode", 2): "must be in [0, 1], got 2",
    **{
        (name, "inputLayout", "BSH"): "must be 'TND', got 'BSH'"
        for name in ("NsaCompressAttention", "NsaSelectedAttention", "NsaSelectedAttentionGrad")
    },
    **{
        (name, attribute, value): reason
        for name in ("NsaCompress", "NsaCompressGrad")
        for attribute, value, reason in (
            ("layout", "BSH", "must be 'TND', got 'BSH'"),
            ("actSeqLenType", 1, "must be 0 (prefix sums), got 1"),
        )
    },
}


def test_every_attribute_of_one_value_is_refused_another():
    """But those of NsaCompressWithCache, which has no function under CANN's name."""
    folder = Path(__file__).resolve().parents[2] / "ascendc"
    for path in folder.glob("*/op_host/*.cpp"):
        name = "".join(word.title() for word in path.stem.split("_"))
        found = set(re.findall(r'\.(?:without_effect|fixed)\("(\w+)"', path.read_text()))
        if found and name in CALLS:
            assert found == {attribute for op, attribute, _ in REFUSED if op == name}, name


@pytest.mark.parametrize("name, attribute, value", REFUSED)
def test_a_value_that_is_not_served_is_refused(name, attribute, value):
    function = f"aclnn{name}"
    with Device() as device:
        values = {**CALLS[name][0], attribute: value}
        arguments = [argument(device, k, values[n], []) for k, n in parameters(function)]
        status, _, _ = first_phase(function, *arguments)
        assert status == INVALID
        assert f"{attribute} {REFUSED[name, attribute, value]}" in recent_error()


@pytest.mark.parametrize(
    "name, attribute, most",
    [("FlashAttentionScore", "innerPrecise", 4), ("NsaCompressAttention", "sparseMode", 1)],
)
def test_every_number_of_cann_without_effect_is_taken(name, attribute, most):
    with Device() as device:
        found = [
            run(device, f"aclnn{name}", {**CALLS[name][0], attribute: value}) for value in (0, most)
        ]
        assert found[0] == found[1]


def test_every_operator_has_both_names():
    # Cache operators have lengths on the device, which CANN's functions take from the host.
    with_cache = {
        "NsaCacheStep",
        "NsaCompressWithCache",
        "NsaCompressAttentionInfer",
        "NsaSelectedAttentionInfer",
        "NsaDecode",
    }
    assert {*CALLS, *with_cache} == set(_native.ascend_operators())
    for name in CALLS:
        for function in (f"aclnn{name}", own(name)):
            assert getattr(lib, function) and getattr(lib, f"{function}GetWorkspaceSize")


def test_a_required_output_is_asked_for():
    """An output that is null is an error, as it is in CANN; the gradient of a bias may be."""
    values, _ = CALLS["FlashAttentionScoreGrad"]
    function = "aclnnFlashAttentionScoreGrad"
    with Device() as device:
        without = {**values, "pseShift": None, "dpseOut": None}
        assert len(run(device, function, without)) == 3
        arguments = [
            argument(device, kind, {**values, "dqOut": None}[name], [])
            for kind, name in parameters(function)
        ]
        status, _, _ = first_phase(function, *arguments)
        assert status == NULLPTR and "dqOut must not be null" in recent_error()
