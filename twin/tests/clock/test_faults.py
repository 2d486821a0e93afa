"""A waste of time is shown slower, with its line on the critical path."""

import json
from pathlib import Path

import numpy as np
import pytest

from twin.tests.harness import AIV_ONLY, INPUT, OUTPUT

SOURCE = (Path(__file__).parent / "vector.cc").read_text().splitlines()


def _line(kernel, text):
    """Line of the first place of the kernel with the text."""
    begin = SOURCE.index(f"KERNEL({kernel}) {{")
    return next(i + 1 for i in range(begin, len(SOURCE)) if text in SOURCE[i])


def _time(kernels, kernel, numbers, count=4096, **options):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal(count, np.float32), np.empty(count, np.float32)
    report = kernels.time(kernel, [(INPUT, x), (OUTPUT, y)], numbers, type=AIV_ONLY, **options)
    assert report.ok, report.error
    return report


def _tiles(kernels, buffers=2, tiles=64, block_dim=1, **options):
    count = block_dim * tiles * 2048
    return _time(kernels, "tiles", [buffers, tiles], count, block_dim=block_dim, **options)


def test_needless_barrier(kernels):
    without, barrier = (_time(kernels, "products", [n]) for n in (0, 1))
    assert barrier.clock["cycles"] > without.clock["cycles"]
    line = _line("products", "if (p[0] != 0) PipeBarrier")
    assert without.share("PipeBarrier", line) == 0
    assert barrier.share("PipeBarrier", line) > 0


def test_missing_double_buffer(kernels):
    one, two = (_tiles(kernels, n) for n in (1, 2))
    assert one.clock["cycles"] > 1.3 * two.clock["cycles"]
    line = _line("tiles", "DataCopy(x, from")
    assert one.share("DataCopy", line) > 0.3
    assert one.timed("MTE2")["waits"]["flag"] > two.timed("MTE2")["waits"]["flag"]


def test_conflicting_banks(kernels):
    apart, same = (
        _time(kernels, "add_at", [0, src1, 0x20000, 1, 8, 64]) for src1 in (0x10100, 0x10000)
    )
    assert same.clock["cycles"] == apart.clock["cycles"] + 64
    assert same.timed("V")["conflicts"] == 64 and apart.timed("V")["conflicts"] == 0
    line = _line("add_at", "Add(dst")
    assert same.share("Add", line) > apart.share("Add", line)


def test_half_used_repeats(kernels):
    whole, half = (_time(kernels, "lanes", [n]) for n in (64, 32))
    assert half.timed("V")["ideal"] == 2 * whole.timed("V")["ideal"]
    assert half.clock["cycles"] > whole.clock["cycles"] + 64
    line = _line("lanes", "Muls(y[done")
    assert half.share("Muls", line) > whole.share("Muls", line)


def test_the_path_is_the_whole_time(kernels):
    for buffers in (1, 2):
        clock = _tiles(kernels, buffers).clock
        assert sum(p["cycles"] for p in clock["critical_path"]) == pytest.approx(clock["cycles"])


def test_time_does_not_depend_on_the_turns_of_the_cores(kernels):
    times = {json.dumps(_tiles(kernels, block_dim=3, seed=seed).clock) for seed in range(3)}
    assert len(times) == 1


def test_chips_and_waves(kernels):
    fast, slow = (_tiles(kernels, tiles=16, block_dim=48, chip=chip) for chip in ("910B1", "910B4"))
    assert (fast.clock["waves"], slow.clock["waves"]) == (1, 2)
    assert slow.clock["microseconds"] > 1.5 * fast.clock["microseconds"]


@pytest.mark.parametrize("cores", [1, 4])
def test_the_trace_opens(kernels, tmp_path, cores):
    path = tmp_path / "trace.json"
    report = _tiles(kernels, block_dim=cores, trace=path)
    events = json.loads(path.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == sum(p["instructions"] for p in report.clock["pipes"])
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} >= {"V", "MTE2"}
    by_pipe = {}
    for event in slices:
        by_pipe.setdefault((event["pid"], event["tid"]), []).append(event)
    assert len(by_pipe) == 3 * cores
    for pipe in by_pipe.values():
        for before, after in zip(pipe, pipe[1:]):
            assert before["ts"] + before["dur"] <= after["ts"] + 2e-4  # microseconds are rounded
        end = max(event["ts"] + event["dur"] for event in pipe)
        assert end <= report.clock["microseconds"] + 1e-3


def test_checks_and_results_are_the_same(kernels):
    """With the clock and without."""
    x = np.arange(4096, dtype=np.float32)
    found = []
    for start in (kernels.launch, kernels.time):
        y = np.empty(4096, np.float32)
        good = start("add_at", [(INPUT, x), (OUTPUT, y)], [0, 0x10100, 0x20000, 1, 8, 64])
        late = start("add_at", [(INPUT, x), (OUTPUT, y)], [0, 0x10100, 0x2F000, 1, 8, 64])
        assert good.ok and not late.ok
        assert late.clock == {}
        found.append((y.tobytes(), good.pipes, late.error))
    assert found[0] == found[1]
    np.testing.assert_array_equal(y, 2 * x)
