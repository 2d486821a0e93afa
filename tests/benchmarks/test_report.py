"""Tables show results, and rounds put their times together."""

import csv
import io

import pytest

from benchmarks import branches, report, runner, timing
from benchmarks.result import Result


def result(**more):
    common = {
        "case": "one",
        "kind": "speed",
        "operator": "FlashAttentionScore",
        "dtype": "float32",
        "direction": "forward",
        "shape": "S=1",
        "seconds": 0.5,
        "kernel_seconds": 0.25,
        "rate": 100.0,
        "unit": "GFLOP/s",
        "share": 0.5,
        "share_of": "gemm numpy",
        "share_of_rate": 200.0,
        "bytes": 10**6,
        "peers": {"mindspore": "34 GB", "torch": 2.0},
    }
    return Result(**(common | more))


def test_missed_targets():
    assert result().missed() == []
    assert result(share_target=0.5).missed() == []
    assert result(share_target=0.6).missed() == ["share 0.50 < 0.60"]
    slower = result(baseline="float32", baseline_ratio=1.4, baseline_limit=1.3)
    assert slower.missed() == ["1.40x float32 > 1.30x"]
    assert result(ratio=3.1, resident_ratio=2.9, ratio_limit=3).missed() == ["ratio 3.10 > 3.00"]
    assert result(ratio=1.5004, ratio_limit=1.5).missed() == ["ratio 1.5004 > 1.5000"]


def test_spread_of_rounds():
    assert timing.ratios([2, None, 3], [1, 1, 2]) == [2, 1.5]
    assert timing.spread([1.5, 2.0, 1.6]) == pytest.approx(1 / 3)
    assert not result(spread=0.2).unsteady() and result(spread=0.21).unsteady()
    assert not result().unsteady()  # of memory there is one round


class _Case:
    """A case that finds what it is told, one result a time."""

    name = "one"

    def __init__(self, *found):
        self.found = list(found)

    def problem(self):
        return None

    def run(self, settings):
        return self.found.pop(0)


MISSED = {"ratio": 1.6, "ratio_limit": 1.5}


@pytest.mark.parametrize(
    "found, left, reported, doubted",
    [
        # A target that is met is met, however the rounds went.
        ([result(ratio=1.4, ratio_limit=1.5, spread=0.9)], 0, "", False),
        # Steady rounds are believed.
        ([result(**MISSED, spread=0.1)], 0, "1.60 > 1.50", False),
        # The second try is steady and meets the target.
        ([result(**MISSED, spread=0.5), result(ratio=1.4, ratio_limit=1.5, spread=0.1)],
         0, "", False),
        # The second try is steady and misses it too; there is no third.
        ([result(**MISSED, spread=0.5), result(**{**MISSED, "ratio": 1.7}, spread=0.1), None],
         1, "1.70 > 1.50", False),
        # Twice again, then the steadiest is reported, with a doubt.
        ([result(**MISSED, spread=s) for s in (0.9, 0.4, 0.5)], 0, "1.60 > 1.50", True),
    ],
)  # fmt: skip
def test_unsteady_cases_are_measured_again(found, left, reported, doubted):
    case, out = _Case(*found), io.StringIO()
    assert runner.run([case], one_process=True, out=out) == []
    text = out.getvalue()
    assert len(case.found) == left
    tries = len(found) - left
    assert text.count("disagree by") == tries - 1 + doubted
    assert text.count("measured again") == tries - 1
    assert f"{int(bool(reported))} targets missed" in text
    assert reported in text.splitlines()[-2]
    assert ("in doubt: its rounds disagree by 40%" in text) == doubted
    assert runner.NEEDS in text


def test_line():
    text = report.line(result(share_target=0.75))
    for part in ("one", "500.0", "250.0", "100.0 GFLOP/s", "0.50 (0.75)", "34 GB", "2.00x", "S=1"):
        assert part in text
    assert len(report.header("speed").splitlines()[-1].split("  ")) > 5


def test_bound_of_decoding():
    """Reading alone takes three quarters of a call's time."""
    decoding = {"kind": "decode", "share": 0.3, "share_target": 0.8}
    assert "0.30 (0.80)    0.40 " in report.line(result(**decoding, peers={"reader": 0.75}))
    assert "0.30 (0.80)       - " in report.line(result(**decoding))


def test_summary():
    text = report.summary([result(share_target=0.75), result()], ["broken"])
    assert "2 cases measured, 1 targets missed" in text
    assert "one: share 0.50 < 0.75" in text
    assert "refused: broken" in text


def test_csv(tmp_path):
    path = tmp_path / "results.csv"
    cases = [result(), result(case="two", peers={}), result(case="three", peers={"blocks": 1.5})]
    report.write_csv(path, cases, {"cpu": "this one"})
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["case"] for row in rows] == ["one", "two", "three"]
    assert rows[0]["cpu"] == "this one"
    assert float(rows[0]["share"]) == 0.5
    assert (rows[0]["speedup_over_mindspore"], rows[0]["speedup_over_torch"]) == ("34 GB", "2.0")
    assert rows[1]["speedup_over_torch"] == rows[1]["ratio"] == ""
    assert [row["speedup_over_blocks"] for row in rows] == ["", "", "1.5"]


def test_ratios_are_of_one_round():
    # A machine that gets ten times slower from round to round.
    assert timing.median_ratio([1, 10, 100], [2, 20, 200]) == 0.5
    assert timing.median_ratio([None, 3, 8], [1, 1, 2]) == 3.5
    assert timing.median([None, 3, 1, 2]) == 2


def test_interleaved_rounds(monkeypatch):
    calls = []

    def seconds(function, repeats):
        function()
        calls.append(repeats)
        return 2.0 if repeats == 1 else 0.03

    monkeypatch.setattr(timing, "seconds", seconds)
    order = []
    functions = {name: lambda n=name: order.append(n) for name in ("gemm", "ours", "slow")}
    times = timing.interleave(functions, rounds=4, budget=5.0)
    assert order[:9] == ["gemm", "ours", "slow"] * 3  # warm-up, its time, the first round
    assert times["gemm"] == times["ours"] == [2.0] * 4
    assert times["slow"] == [2.0, 2.0, None, None]


def test_long_calls(monkeypatch):
    """The first function is warmed up whatever that takes; a long call of a peer counts itself."""
    clock = [0.0]
    monkeypatch.setattr(branches.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(branches.time, "sleep", lambda seconds: None)
    order = []

    def takes(name, *seconds):
        def function():
            clock[0] += seconds[min(order.count(name), len(seconds) - 1)]
            order.append(name)

        return function

    functions = {"nsa": takes("nsa", 20.0, 15.0), "dense": takes("dense", 90.0)}
    functions["short"] = takes("short", 4.0)
    times = branches.interleaved(functions, rounds=4, budget=18.0)
    assert times == {"nsa": [15.0] * 3, "dense": [90.0], "short": [4.0] * 4}
    assert order == ["nsa", "dense", "short"] + ["nsa", "short"] * 3 + ["short"]


def test_short_calls_are_repeated(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: None)
    calls = []

    def function():
        calls.append(clock[0])
        clock[0] += 0.03

    times = timing.interleave({"short": function}, rounds=2, budget=1.0)
    assert times["short"] == pytest.approx([0.03, 0.03])
    assert len(calls) == 2 + 2 * (1 + 4)  # warm-up and its time; one more and four in each round


def test_line_of_training():
    text = report.line(result(kind="training", rate=8123.4, peers={"dense": 1.75}))
    assert "8123" in text and "1.75x" in text and "vs dense" in report.header("training")


def training(*ratios):
    lengths = (2048, 8192, 32768)
    return [
        result(kind="training", tokens=tokens, peers={"dense": ratio})
        for tokens, ratio in zip(lengths, ratios)
    ]


@pytest.mark.parametrize(
    "ratios, text",
    [
        ((0.5, 2.0, 8.0), "between 2048 and 8192 tokens of context, interpolated 4096"),
        ((0.25, 0.5, 2.0), "between 8192 and 32768 tokens of context, interpolated 16384"),
        ((0.5, 1.0, 2.0), "between 2048 and 8192 tokens of context, interpolated 8192"),
        ((1.1, 0.9, 1.1), "between 8192 and 32768"),  # noise: the last crossing counts
        ((1.0, 2.0, 3.0), "NSA is faster from the shortest context measured on (2048)"),
        ((0.1, 0.2, 0.9), "dense is faster up to the longest context measured (32768)"),
        ((0.5,), "dense is faster up to the longest context measured (2048)"),
    ],
)
def test_crossover(ratios, text):
    measured = training(*ratios)
    assert text in report.crossover(measured[::-1])
    assert text in report.summary([result(), *measured], []).splitlines()[-1]


def test_no_crossover_without_training():
    assert report.crossover([result()]) is None
    assert "crossover" not in report.summary([result()], [])


def test_line_of_another_nsa():
    one = result(kind="other", peers={"lucidrains": 72.5}, speedup=72.5, speedup_target=80.0)
    assert "72.50x" in report.line(one) and "vs lucidrains" in report.header("other")
    assert one.missed() == ["speedup 72.50 < 80.00"]
    missing = result(kind="other", peers={"lucidrains": "not installed"})
    assert "not installed" in report.line(missing) and missing.missed() == []


def test_line_of_layer_memory():
    one = result(kind="layer memory", scratch_bytes=1, resident_bytes=2)
    one.resident_ratio, one.ratio_limit = 1.75, 1.5
    assert "1.75 (1.50)" in report.line(one) and one.missed() == ["resident ratio 1.75 > 1.50"]


@pytest.mark.parametrize("kind", ["memory", "overhead", "layer"])
def test_lines_of_other_kinds(kind):
    more = {"scratch_bytes": 1, "resident_bytes": 2, "ratio": 1.25, "ratio_limit": 3.0}
    more |= {"resident_ratio": 1.5, "empty_seconds": 0.25}
    more |= {"attention_seconds": 0.25, "product_seconds": 0.125}
    text = report.line(result(kind=kind, **more))
    assert "1.25 (3.00)" in text
