"""FlashAttentionScoreGrad in Ascend C, on the twin, against the float64 reference."""

import pytest

from tests.common.draw import Draw
from tests.common.parity import flash_grad

from .attention_cases import accepted, flash_parity, lengths, make_grad_case
from .attention_checks import CORES, SEEDS, check_call
from .flash_runner import dims

CONFIGURATIONS = 300
CHUNK = 60


@pytest.mark.parametrize("name", flash_parity("flash_grad"))
def test_parity(flash_runner, name):
    case = flash_parity("flash_grad")[name]()
    if accepted(case):
        check_call(flash_runner, case, [(cores, cores) for cores in CORES])


@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, CHUNK))
def test_random_configurations(flash_runner, first):
    for number in range(first, first + CHUNK):
        cores, seed = CORES[number // 3 % 4], SEEDS[number % 3]
        other = CORES[(number // 3 + 1 + number % 3) % 4]
        check_call(flash_runner, make_grad_case(number), [(cores, seed), (other, (seed + 1) % 3)])


def test_the_cases_cover_what_matters():
    """Every layout, mode and bias; several steps and blocks; compressed keys; empty segments."""
    cases = [make_grad_case(number) for number in range(CONFIGURATIONS)]
    attrs = [case.attrs for case in cases]
    assert {a["input_layout"] for a in attrs} == {"BSH", "SBH", "BSND", "BNSD", "TND"}
    assert {a["sparse_mode"] for a in attrs} == set(range(9))
    assert sum(a["compress_block_size"] > 0 for a in attrs) > 15
    biased = [c for c in cases if c.named()["real_shift"] is not None]
    assert {c.attrs["pse_type"] for c in biased} == {0, 1, 2, 3}
    assert sum(c.attrs["pse_grad"] for c in biased) > 10
    for name in ("drop_mask", "attn_mask", "prefix", "sink", "q_offset"):
        assert sum(case.named()[name] is not None for case in cases) > 5, name
    sizes = [dims(case) for case in cases]
    assert {s["n1"] // s["n2"] for s in sizes} >= {1, 2, 3, 4, 16}
    segments = [lengths(case) for case in cases]
    assert sum(max(k for _, k in s) > 512 for s in segments) > 20
    assert sum(max(q for q, _ in s) > 128 for s in segments) > 20
    assert sum(any(q == 0 and k > 0 for q, k in s) for s in segments) > 5


@pytest.mark.parametrize(
    ("dtype", "d", "dv"), [("bfloat16", 512, 512), ("float32", 512, 512), ("float16", 256, 200)]
)
def test_long_head_dimensions(flash_runner, dtype, d, dv):
    """Tiles have fewer rows and keys then."""
    case = flash_grad(Draw(d, dtype), "BSND", 1, 2, 1, 100, 190, d, dv)
    check_call(flash_runner, case, [(2, 0), (7, 1)])


def test_more_queries_than_a_step(flash_runner):
    """A tile of keys has several steps over the queries of each of its heads."""
    case = flash_grad(Draw(3, "bfloat16"), "BNSD", 1, 3, 1, 1100, 130, 32, mode=3)
    check_call(flash_runner, case, [(2, 0), (7, 1)])
