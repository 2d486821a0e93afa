"""Calls of the operators that read or write a cache that Ascend accepts."""

from itertools import count

from tests.common import decode_cases
from tests.common.draw import Draw

HALVES = ("float16", "bfloat16")
GROUPS = (1, 2, 3, 8, 16, 17, 40, 128)
DIMS = (16, 32, 64, 112, 128, 192, 512)
# Further seeds of a case that Ascend does not accept.
STEP = 1_000_000


def make_compress_with_cache(seed):
    """The random case of that seed; every fourth has more heads than a tile of them holds."""
    draw = Draw(seed, HALVES[seed % 2])
    dims, heads = ((64, 128), 33) if seed % 4 == 3 else (DIMS, 5)
    case = decode_cases.nsa_compress_with_cache(draw, dims, heads)
    case.name = f"seed {seed}"
    return case


def make_selected_infer(seed):
    """The random case of that seed."""
    draw = Draw(seed, HALVES[seed % 2])
    sizes = {"dims": (16, 48, 128, 192, 256), "groups": GROUPS}
    case = decode_cases.nsa_selected_attention_infer(draw, **sizes)
    case.name = f"seed {seed}"
    return case


def make_compress_infer(seed):
    """The random case of that seed; every fourth has many keys and small heads."""
    draw = Draw(seed, HALVES[seed % 2])
    sizes = {"dims": (16, 48, 128, 192, 256), "groups": GROUPS}
    if seed % 4 == 3:
        sizes = {"dims": (16,), "groups": (1, 5, 16), "longest": (1100, 2600)}
    case = decode_cases.nsa_compress_attention_infer(draw, **sizes)
    case.name = f"seed {seed}"
    return case


def make_decode(seed):
    """The random case of that seed, with no more blocks than Ascend takes."""
    for attempt in count():
        draw = Draw(seed + attempt * STEP, HALVES[seed % 2])
        case = decode_cases.nsa_decode(draw, dims=(16, 48, 128, 192, 256), groups=GROUPS)
        if case.attrs["select_block_count"] <= 128:
            case.name = f"seed {seed}"
            return case
