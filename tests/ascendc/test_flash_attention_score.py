"""FlashAttentionScore in Ascend C, on the twin, against the float64 reference."""

import numpy as np
import pytest

from mindspore_nsa.testing.dtypes import decode
from tests.common.draw import Draw
from tests.common.parity import flash

from .attention_cases import flash_parity, lengths, make_flash_case
from .attention_checks import CALLS, calls_of, check_call
from .flash_runner import dims

# The first, which find the planted faults, and what they have too few of.
CONFIGURATIONS = (*range(125), 129, 134, 144)
CHUNK = 32


@pytest.mark.parametrize("name", flash_parity())
def test_parity(flash_runner, name):
    case = flash_parity()[name]()
    check_call(flash_runner, case, CALLS)


@pytest.mark.parametrize("first", range(0, len(CONFIGURATIONS), CHUNK))
def test_random_configurations(flash_runner, first):
    for number in CONFIGURATIONS[first : first + CHUNK]:
        check_call(flash_runner, make_flash_case(number), calls_of(number))


def test_the_cases_cover_what_matters():
    """Every layout, mode and bias; several steps and blocks of keys; empty and partial segments."""
    cases = [make_flash_case(number) for number in CONFIGURATIONS]
    attrs = [case.attrs for case in cases]
    assert {a["input_layout"] for a in attrs} == {"BSH", "SBH", "BSND", "BNSD", "TND"}
    assert {a["sparse_mode"] for a in attrs} == set(range(9))
    biased = [c for c in cases if c.named()["real_shift"] is not None]
    assert {c.attrs["pse_type"] for c in biased} == {0, 1, 2, 3}
    for name in ("drop_mask", "attn_mask", "prefix", "sink"):
        assert sum(case.named()[name] is not None for case in cases) > 10, name
    sizes = [dims(case) for case in cases]
    assert sum(s["d"] % 16 != 0 for s in sizes) > 10 and sum(s["dv"] != s["d"] for s in sizes) > 30
    assert {s["n1"] // s["n2"] for s in sizes} >= {1, 2, 3, 4, 16}
    segments = [lengths(case) for case in cases]
    assert sum(max(k for _, k in s) > 512 for s in segments) > 5
    assert sum(max(q for q, _ in s) > 128 for s in segments) > 20
    assert sum(any(q > 0 and k == 0 for q, k in s) for s in segments) > 5
    assert sum(any(q == 0 for q, _ in s) for s in segments) > 5


@pytest.mark.parametrize(
    ("dtype", "d", "dv"), [("bfloat16", 512, 512), ("float32", 512, 512), ("float16", 256, 200)]
)
def test_long_head_dimensions(flash_runner, dtype, d, dv):
    """Tiles have fewer rows and keys then."""
    case = flash(Draw(d, dtype), "BSND", batch=1, n1=2, n2=1, s1=150, s2=290, d=d, dv=dv)
    check_call(flash_runner, case, [(2, 0), (7, 1)])


def test_rows_that_see_nothing(flash_runner):
    case = flash(Draw(1, "float16"), "BSND", batch=2, n1=2, n2=1, s1=140, s2=121, d=64, mode=3)
    (out, row_max, row_sum), _ = flash_runner.run(case, 2)
    largest = np.finfo(np.float32).max
    assert (out[:, :19] == 0).all() and (out[:, 19:] != 0).any(axis=-1).all()
    assert (row_max[:, :, :19] == -largest).all() and (row_sum[:, :, :19] == largest).all()


def test_bands_that_begin_anywhere(flash_runner):
    """Keys come from a multiple of 16 on; what lies before the band is hidden, be it one key."""
    for back in range(40):
        case = flash(Draw(back, "float16"), "BSND", 1, 1, 1, 1, 40, 16, mode=4, pre=back)
        check_call(flash_runner, case, [(2, 0)])


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32"))
def test_a_nan_reaches_what_sees_it(flash_runner, dtype):
    """NaN of a query, a key or a value stays in its segment and head."""
    ends = [100, 300, 450]
    for name, heads in (("query", [1]), ("key", [2, 3]), ("value", [2, 3])):
        case = flash(Draw(5, dtype), "TND", 3, 4, 2, 450, 450, 64, mode=3, seq_q=ends, seq_kv=ends)
        (clean, *_), _ = flash_runner.run(case, 2)
        head = 1
        _spoil(case.named()[name], (180, head, 3))
        (dirty, *_), _ = flash_runner.run(case, 2)
        clean, dirty = decode(clean), decode(dirty)
        touched = np.isnan(dirty)
        assert np.array_equal(clean[~touched], dirty[~touched])
        rows = np.unique(np.argwhere(touched)[:, 0])
        assert set(np.argwhere(touched)[:, 1]) == set(heads)
        if name == "query":
            assert rows.tolist() == [180]
        elif name == "key":
            assert rows.tolist() == list(range(180, 300))
        else:
            # A probability of 0 does not hide a NaN: it reaches the earlier rows of its tile too.
            assert rows[-120:].tolist() == list(range(180, 300))
            assert rows[0] >= 100
            assert set(np.argwhere(touched)[:, 2]) == {3}


def _spoil(tensor, place):
    if isinstance(tensor, tuple):
        tensor[1][place] = 0x7FC0
    else:
        tensor[place] = np.nan
