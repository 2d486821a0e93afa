"""Random and named calls of FlashAttentionScore and its gradient."""

from mindspore_nsa.testing.dtypes import DTYPES
from tests.common.cases import parity_cases
from tests.common.draw import Draw
from tests.common.flash_cases import (
    Sizes,
    flash_attention_score,
    flash_attention_score_grad,
    flash_attention_score_grad_of,
)
from tests.common.tiles import around, tile

from .flash_runner import dims

SIZES = "ascendc/attention/attention_sizes.h"
ROWS, STEP = tile("kTileRows", SIZES), tile("kStepKeys", SIZES)


def lengths(case):
    """[(queries, keys)] of every segment."""
    x, size = case.named(), dims(case)
    if case.attrs["input_layout"] != "TND":
        return [(size["s1"], size["s2"])] * size["batch"]
    ends = [[0, *x[name]] for name in ("actual_seq_qlen", "actual_seq_kvlen")]
    return list(zip(*([b - a for a, b in zip(e, e[1:])] for e in ends), strict=True))


def _many_keys(draw):
    """Sizes with several steps over the keys, and a few tiles of queries."""
    z = Sizes(draw)
    z.d, z.n2 = draw.pick((16, 24, 40, 64, 128)), 1
    z.dv, z.n1 = draw.pick((z.d, z.d, 16)), draw.pick((1, 2))
    rows = [draw.pick((1, 3, 17, 64, ROWS + 1, 150)) for _ in z.q[:2]]
    keys = [draw.pick((*around(STEP), 700, 2 * STEP + 1, 1300)) for _ in z.q[:2]]
    if not z.packed:
        rows, keys = rows[:1] * len(rows), keys[:1] * len(keys)
    z.q, z.kv = rows, keys
    return z


def make_flash_case(seed):
    """The random case of that seed; every fifth has many keys."""
    draw = Draw(seed, DTYPES[seed % len(DTYPES)])
    case = flash_attention_score(draw, _many_keys(draw) if seed % 5 == 4 else None)
    case.name = f"seed {seed}"
    return case


def make_grad_case(seed):
    """The gradient's random case of that seed; every fifth has many keys."""
    draw = Draw(seed, DTYPES[seed % len(DTYPES)])
    if seed % 5 == 4:
        forward = flash_attention_score(draw, _many_keys(draw))
        case = flash_attention_score_grad_of(forward, draw)
    else:
        case = flash_attention_score_grad(draw)
    case.name = f"seed {seed}"
    return case


def flash_parity(kind="flash"):
    """The named cases, of "flash" or "flash_grad": {name: function that builds the case}."""
    named = parity_cases(on_twin=True)
    return {name: build for name, build in named.items() if name.startswith(f"{kind} ")}
