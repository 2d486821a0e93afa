"""A kernel asks the UB for as many bytes as its sizes add up to, by which tiling chooses its tiles.

A queue with one buffer more changes no result, and fits as long as a tile leaves room.
"""

import random
import re

import pytest

from tests.common.tiles import ROOT

ASCENDC = ROOT / "ascendc"
_WEIGHTS = "compress/head_weights.h"
# The sizes of a vector core's buffers: their header, and what asks for them.
KERNELS = {
    "NsaCompressBuffers": ("nsa_compress/op_kernel/nsa_compress_tiling.h",
                           "nsa_compress/op_kernel/nsa_compress_kernel.h", _WEIGHTS),
    "NsaCompressGradBuffers": ("nsa_compress_grad/op_kernel/nsa_compress_grad_tiling.h",
                               "nsa_compress_grad/op_kernel/nsa_compress_grad_kernel.h", _WEIGHTS),
    "NsaCompressWithCacheBuffers": (
        "nsa_compress_with_cache/op_kernel/nsa_compress_with_cache_tiling.h",
        "nsa_compress_with_cache/op_kernel/nsa_compress_with_cache_kernel.h"),
    "NsaCompressAttentionBuffers": (
        "nsa_compress_attention/op_kernel/nsa_compress_attention_tiling.h",
        "nsa_compress_attention/op_kernel/nsa_compress_attention_vector.h",
        "nsa_compress_attention/op_kernel/nsa_compress_attention_ranking.h"),
    "NsaSelectedAttentionBuffers": (
        "nsa_selected_attention/op_kernel/nsa_selected_attention_tiling.h",
        "nsa_selected_attention/op_kernel/nsa_selected_attention_vector.h"),
    "NsaSelectedAttentionGradBuffers": (
        "nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad_tiling.h",
        "nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad_vector.h"),
    "FlashAttentionScoreBuffers": (
        "flash_attention_score/op_kernel/flash_attention_score_tiling.h",
        "flash_attention_score/op_kernel/flash_attention_score_vector.h"),
    "FlashAttentionScoreGradBuffers": (
        "flash_attention_score_grad/op_kernel/flash_attention_score_grad_tiling.h",
        "flash_attention_score_grad/op_kernel/flash_attention_score_grad_vector.h",
        "flash_attention_score_grad/op_kernel/flash_attention_score_grad_bias.h"),
    "SplitBuffers": ("decoding/split_tiling.h", "decoding/split_vector.h"),
    "BranchMixBuffers": ("decoding/branch_mix.h", "decoding/branch_mix.h"),
    "StepRopeBuffers": ("nsa_cache_step/op_kernel/nsa_cache_step_tiling.h",
                        "nsa_cache_step/op_kernel/nsa_cache_step_rope.h"),
    "StepWriteBuffers": ("nsa_cache_step/op_kernel/nsa_cache_step_tiling.h",
                         "nsa_cache_step/op_kernel/nsa_cache_step_write.h"),
    "StepCompressBuffers": ("nsa_cache_step/op_kernel/nsa_cache_step_tiling.h",
                            "nsa_cache_step/op_kernel/nsa_cache_step_compress.h"),
}  # fmt: skip
# Buffers of no such sum: those of cube cores, and of second phases, which begin with an empty UB.
OTHERS = {
    *("attention/tile_product.h", "decoding/decode_row_ranking.h"),
    "nsa_compress_grad/op_kernel/weight_grad_sum.h",
    "nsa_cache_step/op_kernel/nsa_cache_step_finish.h",
}
# Calls that count as one number each, beside members and constants.
_CALLS = ("RawWeightBytes", "WeightBytes")


def _inside(text, start):
    """Return what stands in the parentheses that begin at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1 : at]
    raise AssertionError(f"parentheses do not end: {text[start : start + 60]}")


def _arguments(text):
    """Split the arguments of a call, which may hold calls."""
    depth, found = 0, [""]
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found


def _asked(text):
    """[(how many, bytes)] of the buffers of `text`, as expressions."""
    calls = (_inside(text, m.end() - 1) for m in re.finditer(r"->InitBuffer\(", text))
    found = [_arguments(call)[1:] for call in calls]
    # A size that comes from elsewhere is of the other sum: the ranking beside the splits.
    return [(["1", *one])[-2:] for one in found if "::RankedBytes" not in one[-1]]


class _Numbers(dict):
    """A number for each name; those of constants are less than those of members."""

    def __missing__(self, name):
        rng = random.Random(name)
        self[name] = rng.randrange(2, 50) if name[0] == "k" else rng.randrange(10**4, 10**6)
        return self[name]


def _value(expression, numbers):
    """Value of an expression of C++ of numbers by their names."""
    text = re.sub(r"static_cast<\w+>|\bbytes\.|\bt_->", "", " ".join(expression.split()))
    for call in _CALLS:
        text = re.sub(rf"\b{call}\([^()]*\)", call, text)
    return eval(text, {"__builtins__": {}}, numbers)


def _numbers(struct):
    """Numbers of the members of a struct, by what initialises them where that is constant."""
    numbers = _Numbers(Max=max)
    members = re.findall(r"^  uint32_t ([\w, ]+);", struct, re.MULTILINE)
    for name in (x.strip() for line in members for x in line.split(",")):
        at = re.search(rf"[:,]\s+{name}\(", struct)
        text = _inside(struct, at.end() - 1)
        plain = re.sub(r"static_cast<\w+>", "", text)
        words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"(\w+Bytes)\([^()]*\)", r"\1", plain)))
        if all(re.match(r"k[A-Z]", word) or word in _CALLS for word in words):
            numbers[name] = _value(text, numbers)
    return numbers


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_asks_for_what_its_sizes_add_up_to(name):
    header, *askers = ((ASCENDC / file).read_text() for file in KERNELS[name])
    struct = header[header.index(f"struct {name} {{") :]
    struct = struct[: struct.index("\n};")]
    total = re.search(r"constexpr uint32_t Total\([^)]*\) const \{\s*return (.*?);", struct, re.S)
    numbers = _numbers(struct)
    asked = [one for text in askers for one in _asked(text)]
    assert len(asked) > 1
    found = sum(_value(count, numbers) * _value(size, numbers) for count, size in asked)
    assert found == _value(total[1], numbers)


def test_every_kernel_is_here():
    asking = {
        str(path.relative_to(ASCENDC))
        for path in ASCENDC.rglob("*.h")
        if "->InitBuffer(" in path.read_text() and not path.stem.endswith("_cube")
    }
    assert asking == {*OTHERS, *(file for _, *files in KERNELS.values() for file in files)}
