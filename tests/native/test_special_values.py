"""NaN, infinities, denormals and signed zeros in the functions that the kernels are made of: one
table, on every instruction set there is."""

import shutil
import subprocess

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import round_to

from . import builds
from .test_softmax import ROOT, UNITS, run

PROBE = ROOT / "tests" / "native" / "special_values_probe.cc"
ANYTHING = object()


def floats(words):
    return np.array([int(word, 16) for word in words], np.uint32).view(np.float32)


def of_exp(lowest, function):
    """The expected exponential: exactly 0 below `lowest`; None: anything but a number."""

    def expected(x):
        if np.isnan(x) or x == np.inf:
            return None
        if x > 87:  # no caller has one
            return ANYTHING
        return 0.0 if x < lowest else function(np.float64(x))

    return expected


def second_of_nan(function):
    """max and min give the second operand where either is NaN."""
    return lambda a, b: b if np.isnan(a) or np.isnan(b) else function(a, b)


def among_numbers(*row):
    return np.nanmax(row)


def close(ours, expected):
    if expected is ANYTHING:
        return True
    if expected is None:
        return not np.isfinite(ours)
    if np.isnan(expected) or np.isinf(expected):
        return np.array_equal(np.float32(ours), np.float32(expected), equal_nan=True)
    # A score times log2(e) is rounded before it becomes the exponent.
    return abs(np.float64(ours) - expected) <= 1e-5 * abs(expected)


TABLE = {
    "exp": of_exp(-87.3365, np.exp),
    "exp2": of_exp(-126, np.exp2),
    "max": second_of_nan(max),
    "min": second_of_nan(min),
    "less": lambda a, b: float(a < b),
    "largest": lambda *row: np.max(row),
    "raw_max": among_numbers,
    "scaled_max": among_numbers,
    "all_finite": lambda *row: float(np.isfinite(row).all()),
}


def check_divergence(p, q, a, b):
    """By NumPy, in float64: p log p - p log y where p is not 0."""
    mass, score = np.array([p, q], np.float64), np.array([a, b], np.float64)
    with np.errstate(all="ignore"):
        top = score.max() if not np.isnan(score).all() else np.nan
        if np.isnan(score).any():
            log_y = np.full(2, np.nan)
        elif top == np.inf:
            log_y = np.where(score == np.inf, np.nan, -np.inf)
        else:
            log_y = score - top - np.log(np.exp(score - top).sum())
        terms = np.where(mass == 0, 0, mass * (np.log(np.abs(mass)) - log_y))
    return terms.sum()


def check(lines):
    """Errors, a line for each; and the number of calls of each function."""
    wrong, counts, orders = [], {}, {}
    for line in lines:
        left, right = line.split(":")
        name, *given = left.split()
        counts[name] = counts.get(name, 0) + 1
        results = right.split()
        if name in ("picks", "blocks"):
            orders[name] = [int(place) for place in results]
            continue
        if name in ("scores", "picked"):
            orders[name] = floats(given or results)
            continue
        given = floats(given)
        if name == "log":
            ours = np.array([int(results[0], 16)], np.uint64).view(np.float64)[0]
            with np.errstate(all="ignore"):
                expected = np.log(np.float64(given[0]))
            right = np.isclose(ours, expected, rtol=1e-13, atol=1e-14, equal_nan=True)
            if not right:
                wrong.append(f"{line}: {ours}, expected {expected}")
            continue
        ours = floats(results)
        if name in ("float16", "bfloat16"):
            with np.errstate(over="ignore"):
                expected = round_to(given, name)[0]
            same = np.array_equal(ours, np.array([expected, expected]), equal_nan=True)
            signs = np.isnan(expected) or (np.signbit(ours) == np.signbit(expected)).all()
            if not (same and signs):
                wrong.append(f"{line}: {ours}, expected {expected}")
            continue
        function = check_divergence if name == "divergence" else TABLE[name]
        expected = function(*given)
        if not close(ours[0], expected):
            wrong.append(f"{line}: {given} gives {ours}, expected {expected}")
    return wrong + wrong_orders(**orders), counts


def wrong_orders(scores, picks, picked, blocks):
    """Larger ones first, equal ones by index, where -0 is 0; NaN comes last as a pick, and among
    blocks it counts as -inf."""
    index = np.arange(len(scores))
    nan = np.isnan(scores)
    falling = np.where(nan, np.inf, -scores)
    wrong = []
    if picks != np.lexsort((index, falling, nan)).tolist():
        wrong.append(f"picks: {scores[picks]}")
    if not np.array_equal(picked, scores[picks], equal_nan=True):
        wrong.append(f"scores of picks: {picked}")
    if blocks != np.lexsort((index, falling)).tolist():
        wrong.append(f"blocks: {scores[blocks]}")
    return wrong


@pytest.mark.parametrize("name", [name for name in UNITS if name in _native.available_isas()])
def test_table(name, tmp_path):
    done = run(name, tmp_path, PROBE)
    assert done.returncode == 0, done.stderr
    wrong, counts = check(done.stdout.splitlines())
    assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(wrong[:20])
    assert set(counts) >= {*TABLE, "log", "divergence", "picks", "blocks", "float16", "bfloat16"}


def test_table_on_arm(tmp_path):
    builds.need(builds.NEON)
    program = tmp_path / "probe"
    options = ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-trapping-math", f"-I{ROOT}"]
    command = [builds.CROSS, *options, *UNITS["neon"], "-static", PROBE, "-o", program]
    subprocess.run(command, check=True)
    done = subprocess.run([shutil.which(builds.QEMU), program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wrong, _ = check(done.stdout.splitlines())
    assert not wrong, f"{len(wrong)} wrong\n" + "\n".join(wrong[:20])
