"""`python -m benchmarks` from the outside, and its refusal of wrong operators."""

import csv
import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path

import mindspore
import pytest

from benchmarks import check, isolate, peers, program, registry, speed, workloads

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=550,
    )


def quick_run(path, names, *options):
    """{case: its row of the file} of a run of these cases."""
    chosen = [option for name in names for option in ("--only", name)]
    done = python("-m", "benchmarks", "--quick", "--csv", str(path), *chosen, *options)
    assert done.returncode == 0, done.stdout
    measured = f"{len(names)} cases measured"
    for part in ("cpu ", "isa ", "threads ", "mindspore 2.", "load ", measured, *names):
        assert part in done.stdout
    assert "training_2048" not in names or "context measured" in done.stdout
    with open(path, newline="") as file:
        rows = {row["case"]: row for row in csv.DictReader(file)}
    assert sorted(rows) == sorted(names)
    return rows


@pytest.mark.slow
def test_quick_run(tmp_path):
    """Every case in a process of its own, and, which is quicker, in one."""
    picture, options = tmp_path / "results.png", ["--one-process"]
    isolated = ["flash_float16_backward", "memory_compress_attention_float32_group1"]
    names = [
        "compress_float32_forward",
        "overhead_selected_forward_pynative",
        "overhead_selected_forward_graph",
        "training_2048",
        "layer_bfloat16_both_8192",
        "other_nsa_both",
    ]
    try:
        import matplotlib  # noqa: F401

        options += ["--png", str(picture)]
    except ImportError:
        pass
    rows = quick_run(tmp_path / "isolated.csv", isolated)
    flash, memory = (rows[name] for name in isolated)
    rows = quick_run(tmp_path / "results.csv", names, *options)
    compress, eager, graph, training, layer, other = (rows[name] for name in names)
    assert 0 < float(flash["kernel_seconds"]) <= 1.5 * float(flash["seconds"])
    for row in (flash, compress):
        assert float(row["rate"]) > 0 and float(row["share"]) > 0
    assert float(flash["baseline_ratio"]) > 0 and float(flash["speedup_over_mindspore"]) > 0
    assert compress["share_of"].startswith("copy") and flash["share_of"].startswith("gemm")
    # By two independent counts: the allocator's and the system's.
    assert 1 < float(memory["ratio"]) < 3 and 0.5 < float(memory["resident_ratio"]) < 4
    assert float(training["rate"]) > 0 and float(training["speedup_over_dense"]) > 0
    assert training["tokens"] == "256"
    # The layer does what its parts do, and something between them.
    parts = float(layer["attention_seconds"]) + float(layer["product_seconds"])
    assert float(layer["ratio"]) == pytest.approx(float(layer["seconds"]) / parts)
    assert float(layer["ratio"]) > 0.5
    theirs = other["speedup_over_lucidrains"]
    assert theirs == "not installed" or float(theirs) > 0
    for row in (eager, graph):
        assert float(row["seconds"]) > float(row["kernel_seconds"]) / 2 > 0
        assert float(row["empty_seconds"]) > 0
    if "--png" in options:
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_wrong_operator_is_refused(tmp_path):
    """A weight that is wrong by one percent: no figure, the reason, and an exit code."""
    script = tmp_path / "wrong.py"
    script.write_text(f"""
import sys
sys.path.append({str(ROOT)!r})
from benchmarks import __main__, program

right = program.tensor

def wrong(x):
    # Only NsaCompress has an input of two dimensions.
    return right(x * x.dtype.type(1.01) if getattr(x, "ndim", 0) == 2 else x)

program.tensor = wrong
sys.argv = ["benchmarks", "--quick", "--one-process", "--only", "flash_float32_forward",
            "--only", "compress_float32_forward", "--csv", {str(tmp_path / "results.csv")!r}]
sys.exit(__main__.main())
""")
    done = python(str(script))
    assert done.returncode == 1, done.stdout
    refusal = next(x for x in done.stdout.splitlines() if "REFUSED" in x)
    assert refusal.startswith("compress_float32_forward: REFUSED: Assertion")
    assert "refused: compress_float32_forward" in done.stdout
    with open(tmp_path / "results.csv", newline="") as file:
        assert [row["case"] for row in csv.DictReader(file)] == ["flash_float32_forward"]


def test_list_and_bad_arguments():
    listed = python("-m", "benchmarks", "--list", "--only", "selected_float32_")
    assert "selected_float32_forward" in listed.stdout and listed.returncode == 0
    assert "flash" not in listed.stdout
    unknown = python("-m", "benchmarks", "--only", "nonsense")
    assert unknown.returncode == 2 and "nonsense" in unknown.stdout


def test_files_that_cannot_be_written(tmp_path):
    """Before anything is measured."""
    for option, path in (("--csv", tmp_path / "nothing" / "x.csv"), ("--png", tmp_path)):
        done = python("-m", "benchmarks", "--only", "flash_float16_backward", option, str(path))
        assert done.returncode == 2, done.stdout
        assert f"{option} {path}: must be a file in a folder that exists" in done.stdout


@pytest.fixture
def fresh():
    check.problem.cache_clear()
    yield
    check.problem.cache_clear()


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("build", [workloads.compress, workloads.compress_attention])
def test_check_sees_one_wrong_element(monkeypatch, fresh, build, direction):
    assert check.problem(build, "float32", direction) is None
    check.problem.cache_clear()
    right = program.Program.arrays
    calls = []

    def wrong(self):
        outputs = [x.copy() for x in right(self)]
        calls.append(self)
        # The operator itself forward, its gradient backward.
        if len(calls) == (1 if direction == "forward" else 2):
            outputs[0].flat[-1] += 1e-2
        return outputs

    monkeypatch.setattr(program.Program, "arrays", wrong)
    assert "AssertionError" in check.problem(build, "float32", direction)


def test_peer_without_memory(monkeypatch):
    monkeypatch.setattr(peers, "available_memory", lambda: 10**6)
    query, key, value = workloads.flash(512, "float32").dense()
    for direction, of_score in peers.DENSE_BYTES["float32"].items():
        size = 16 * 512**2 * of_score
        with pytest.raises(peers.DoesNotFit, match=f"{size / 1e9:.0f} GB"):
            peers.mindspore_dense(query, key, value, 1.0, direction)


def test_a_failed_compilation_is_a_problem(monkeypatch):
    # MindSpore's rewriting leaves this folder on the path; its math.py must not hide Python's.
    monkeypatch.syspath_prepend(Path(mindspore.__file__).parent / "nn" / "layer")
    case = registry.select(["flash_float32_forward"])[0]
    monkeypatch.setenv("CXX", "/bin/false")  # the probe cannot be compiled
    problem, result = isolate.isolated(case, speed.Settings(quick=True))
    assert result is None and "/bin/false" in problem


def test_child_that_crashes():
    """Its case has the cause, which Python writes on stderr."""
    case = dataclasses.replace(registry.CASES[0], name="no such case")
    problem, result = isolate.isolated(case, speed.Settings(quick=True))
    assert result is None and problem.startswith("its process ended with 1\nTraceback")
    assert "StopIteration" in problem


@pytest.mark.parametrize("written", [True, False])
def test_child_that_dies_at_its_end(monkeypatch, capsys, written):
    """An answer that is complete counts; without one the case has a problem."""

    def dies(module, name, quick, path, **options):
        if written:
            path.write_bytes(pickle.dumps((None, "figures")))
        return subprocess.CompletedProcess(module, -11, "", "a warning\n")

    monkeypatch.setattr(isolate, "run_module", dies)
    found = isolate.isolated(registry.CASES[0], speed.Settings(quick=True))
    problem = "its process ended with -11\na warning\n"
    assert found == ((None, "figures") if written else (problem, None))
    assert capsys.readouterr().err == ("a warning\n" if written else "")
