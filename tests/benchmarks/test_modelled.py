"""`python -m benchmarks --target ascend_twin`."""

import csv

import pytest

from benchmarks import modelled
from mindspore_nsa import twin

from .test_run import python


@pytest.mark.parametrize("quick", [False, True])
def test_every_operator_with_a_kernel_has_a_case(quick):
    assert sorted(case.operator for case in modelled.cases(quick)) == twin.operators()


@pytest.mark.parametrize("name", [case.name for case in modelled.cases()])
def test_a_case_times_its_kernel(name):
    (case,) = modelled.select([name])
    timed = modelled._execute(case, 256, "910B4")
    assert timed["kernel"] == case.kernel
    assert timed["microseconds"] > max(timed["bound"].values()) > 0


def test_extrapolation_meets_execution():
    """Twice the largest executed size: a launch grows with the windows of its busiest core."""
    call, work, shape = modelled._compress(False)
    made = ("compress", "NsaCompress", "nsa_compress", call, work)
    guessed, executed = (
        modelled.rows_of(modelled.ModelledCase(*made, sizes, (16384,), shape), "910B1")[0]
        for sizes in ((4096, 8192), (16384,))
    )
    assert (guessed.extrapolated, executed.extrapolated) == (True, False)
    assert guessed.microseconds == pytest.approx(executed.microseconds, rel=0.15)
    assert guessed.bound_microseconds == pytest.approx(executed.bound_microseconds, rel=0.1)


def test_quick_run(tmp_path):
    path, picture = tmp_path / "modelled.csv", tmp_path / "timeline.png"
    options = ["--target", "ascend_twin", "--quick", "--chip", "910B3", "--only", "compress"]
    try:
        import matplotlib  # noqa: F401

        options += ["--png", str(picture)]
    except ImportError:
        pass
    done = python("-m", "benchmarks", *options, "--csv", str(path))
    assert done.returncode == 0, done.stdout
    assert "modelled time on Ascend910B3" in done.stdout
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["case"] for row in rows} == {"compress_forward", "compress_backward"}
    for row in rows:
        assert row["extrapolated"] == "True"
        assert float(row["microseconds"]) > float(row["bound_microseconds"]) > 0
    assert "--png" not in options or picture.read_bytes()[:4] == b"\x89PNG"


def test_refuses_another_case():
    done = python("-m", "benchmarks", "--target", "ascend_twin", "--only", "nothing")
    assert done.returncode == 2
    assert "no modelled case begins with 'nothing'" in done.stdout
