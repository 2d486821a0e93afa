"""Modelled time as users ask for it: from Python, through MindSpore, of a program."""

import json

import mindspore as ms
import pytest

import mindspore_nsa
from mindspore_nsa import twin
from tests.ascendc import programs

from .shell import shell
from .test_target_twin import draw, gradients


def _timed(chip="910B1", **options):
    x, w = draw(160, 3, 16), draw(32, 3)
    with mindspore_nsa.target("ascend_twin"), twin.clock(chip, **options) as timed:
        results = gradients(x, w)
        bits = [r.astype(ms.float32).asnumpy().tobytes() for r in results]
        inside = timed()
    assert timed() == inside
    return bits, timed()


def test_a_gradient_through_mindspore():
    x, w = draw(160, 3, 16), draw(32, 3)
    with mindspore_nsa.target("ascend_twin"):
        plain = [r.astype(ms.float32).asnumpy().tobytes() for r in gradients(x, w)]
    bits, timings = _timed()
    assert bits == plain
    assert [t["kernel"] for t in timings] == ["msnsa_compress", "msnsa_compress_grad"]
    for timing in timings:
        assert 0 < max(timing["bound"].values()) < timing["microseconds"] < 100
        path = timing["critical_path"]
        assert sum(p["cycles"] for p in path) == pytest.approx(timing["cycles"])
        assert any(p["file"].startswith("ascendc/nsa_compress") for p in path)
        assert "modelled time" in timing["table"]
    assert _timed()[1] == timings


def test_chips_and_costs():
    fast, slow = (_timed(chip)[1] for chip in ("910B1", "910B4"))
    assert slow[0]["microseconds"] > fast[0]["microseconds"]
    dear = _timed(vector_end=100)[1]
    assert dear[0]["cycles"] > fast[0]["cycles"]


def test_what_there_is_not():
    with pytest.raises(ValueError, match="chip must be 910B1, 910B3 or 910B4, got '910A'"):
        with twin.clock("910A"):
            pass
    with pytest.raises(ValueError, match="there is no cost 'nothing'"):
        with twin.clock(nothing=1):
            pass
    for trace in (3, b"trace.json", [], True):
        with pytest.raises(TypeError, match="clock: trace must be a str or another path, got "):
            with twin.clock(trace=trace):
                pass
    for trace in ("", "a\0b"):
        with pytest.raises(ValueError, match="clock: trace must be the path of a file, got "):
            with twin.clock(trace=trace):
                pass
    with pytest.raises(TypeError, match=r"clock: chip must be a str, got 910 \(int\)"):
        with twin.clock(910):
            pass
    # The clock is off again.
    assert _timed()[1]


@pytest.mark.parametrize(
    "name, value, kind, text",
    [
        ("fix_to_gm", "86", TypeError, r"must be a number, got '86' \(str\)"),
        ("fix_to_gm", True, TypeError, r"must be a number, got True \(bool\)"),
        ("fix_to_gm", None, TypeError, r"must be a number, got None \(NoneType\)"),
        ("fix_to_gm", 0, ValueError, "must be finite and above 0, got 0"),
        ("gm_to_ub", -67.0, ValueError, "must be finite and above 0, got -67.0"),
        ("gm_to_ub", float("nan"), ValueError, "must be finite and above 0, got nan"),
        ("gm_to_ub", 10**400, ValueError, "must be finite and above 0, got 1000"),
        ("vector_end", -1, ValueError, "must be finite and at least 0, got -1"),
        ("vector_end", float("inf"), ValueError, "must be finite and at least 0, got inf"),
        ("queue_depth", 0.5, ValueError, "must be finite and at least 1, got 0.5"),
    ],
)
def test_costs_that_cannot_be(name, value, kind, text):
    with pytest.raises(kind, match=f"clock: {name} {text}"):
        with twin.clock(**{name: value}):
            pass


def test_the_least_costs():
    usual, cheap = _timed()[1], _timed(vector_end=0, launch=0, queue_depth=1)[1]
    assert 0 < cheap[0]["microseconds"] < usual[0]["microseconds"]


def test_costs_have_sources():
    rows = twin.costs()
    assert len(rows) > 40
    for row in rows:
        assert row["source"] and row["unit"], row
        assert min(row["low"], row["high"]) <= row["value"] <= max(row["low"], row["high"]), row
    fix = next(row for row in rows if row["name"] == "fix_to_gm")
    assert (fix["low"], fix["high"]) == (53, 86)


def test_the_command_times_a_program(tmp_path):
    program = programs.build(programs.EXAMPLES / "aclnn_nsa_compress.cpp", tmp_path)
    trace = tmp_path / "trace.json"
    command = ["-m", "mindspore_nsa.twin", "time", "--chip", "910B3", "--trace", trace, program]
    done = programs.python(*command)
    assert (done.returncode, done.stdout) == (0, programs.run(program)), done.stderr
    assert "modelled time of msnsa_compress on Ascend910B3" in done.stderr
    assert json.loads(trace.read_text())["traceEvents"]
    refused = shell([program], tmp_path, ASCENDC_TWIN_CLOCK="910A")
    assert refused.returncode != 0
    assert "ASCENDC_TWIN_CLOCK must be 0, 1 or a chip" in refused.stdout + refused.stderr
