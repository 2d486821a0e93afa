"""An argument that an Ascend kernel does not take is an error there; nothing is dropped."""

import os
import subprocess
from pathlib import Path

import pytest

from mindspore_nsa import _native

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "binding/ascend_signature.cc",
    "infer/bound_attrs.cc",
    "infer/check.cc",
    "infer/format.cc",
    "infer/op.cc",
    "infer/seq.cc",
)
PROBE = ROOT / "tests" / "infer" / "dropped_probe.cc"


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """Runs the probe, which prints a line for each call."""
    program = tmp_path_factory.mktemp("dropped") / "probe"
    sources = [PROBE, *(ROOT / source for source in SOURCES)]
    compiler = os.environ.get("CXX", "g++")
    options = ["-std=c++17", "-O0", f"-I{ROOT}", f"-I{ROOT / 'twin' / 'include'}"]
    subprocess.run([compiler, *options, *sources, "-o", program], check=True)

    def run(*arguments):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return run


def test_what_the_function_does_not_take_is_refused(probe):
    reason = "on Ascend, whose kernel does not take it"
    assert probe() == [
        "defaults: taken",
        "on a CPU: taken",
        "known: taken",
        "rows: taken",
        "default float: taken",
        f"bias: 561002 nsa_probe: bias must be None {reason}, got a Tensor",
        f"renormalize: 561002 nsa_probe: renormalize must be False {reason}, got True",
        f"scaled: 561002 nsa_probe: scaled must be True {reason}, got False",
        f"sinks: 561002 nsa_probe: sinks must be 2 (int) {reason}, got 3 (int)",
        f"temperature: 561002 nsa_probe: temperature must be 0.100000001 (float) "
        f"{reason}, got 0.25 (float)",
        f"kind: 561002 nsa_probe: kind must be 'plain' (str) {reason}, got 'other' (str)",
    ]


def test_a_function_without_what_every_call_has(probe):
    assert probe("without head_num") == [
        "aclnnNsaProbe: no parameter is head_num, without which there is no call of nsa_probe"
    ]


@pytest.mark.parametrize("op", _native.ascend_operators())
def test_today_all_is_taken(op):
    """But the number of windows, which the shape of the output says."""
    taken = {(p["source"], p["index"]) for p in _native.ascend_signature(op)}
    schema = _native.schema(op)
    dropped = [
        spec["name"]
        for source, specs in (("input", schema["inputs"]), ("attr", schema["attrs"]))
        for place, spec in enumerate(specs)
        if (source, place) not in taken
    ]
    assert dropped == (["num_windows"] if op == "NsaCompress" else [])
