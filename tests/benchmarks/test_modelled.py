"""`python -m benchmarks --target ascend_twin`."""

import csv
from dataclasses import replace

import pytest

from benchmarks import modelled, tiling
from mindspore_nsa import _native

from .test_run import python


@pytest.mark.parametrize("quick", [False, True])
def test_every_operator_with_a_kernel_has_a_case(quick):
    assert sorted({case.operator for case in modelled.cases(quick)}) == _native.ascend_operators()


@pytest.mark.parametrize("name", [case.name for case in modelled.cases()])
def test_a_case_times_its_kernel(name):
    (case,) = modelled.select([name])
    timed = modelled._execute(case, 256, "910B4")
    assert timed["kernel"] == case.kernel
    assert timed["microseconds"] > max(timed["bound"].values()) > 0


@pytest.mark.parametrize(
    ("name", "executed", "asked", "tolerance"),
    [
        ("compress_forward", (6144, 8192), 16384, 0.05),
        ("compress_backward", (6144, 8192), 16384, 0.05),
        ("flash_forward", (256, 512), 768, 0.15),
    ],
)
def test_extrapolation_meets_execution(name, executed, asked, tolerance):
    """A launch grows with what tiling gives its busiest core."""
    (case,) = modelled.select([name])
    guessed, executed = (
        modelled.rows_of(replace(case, executed=sizes, asked=(asked,)), "910B1")[0]
        for sizes in (executed, (asked,))
    )
    assert (guessed.extrapolated, executed.extrapolated) == (True, False)
    assert guessed.microseconds == pytest.approx(executed.microseconds, rel=tolerance)
    assert guessed.bound_microseconds == pytest.approx(executed.bound_microseconds, rel=0.02)


def test_what_reads_a_cache_has_a_case_for_each_number_of_rows():
    """And a step is executed where the twin has room for its caches."""
    found = [case for case in modelled.cases(rows=(1, 64)) if "B=" in case.shape]
    names = ["selected_infer", "compress_infer", "decode", "cache_step"]
    assert [case.name for case in found] == names * 2
    for case, rows in zip(found, [1] * 4 + [64] * 4, strict=True):
        assert case.rows == rows and case.shape.startswith(f"B={rows} ")
        beyond = case.asked[2:] if (case.name, rows) == ("cache_step", 64) else ()
        assert (*case.executed, *beyond) == case.asked == (4096, 16384, 65536)
        assert case.work(65536, "910B1") == (65536, 65536)


@pytest.mark.parametrize("name", ["compress_infer", "decode"])
def test_new_tokens_of_a_row(name):
    """Four tokens that share products take less than four times one, and the cache counts once."""
    cases = [modelled.select([name], rows=(8,), new=new)[0] for new in (1, 4)]
    assert "4 tokens of each row" in cases[1].shape
    one, four = (modelled._execute(case, 4096, "910B1") for case in cases)
    assert one["microseconds"] < four["microseconds"] < 3 * one["microseconds"]
    assert four["bound"]["hbm"] < 1.5 * one["bound"]["hbm"]


def test_tiling_is_asked_for_the_work():
    """The shapes are some whose work follows from the definition."""
    # A core for each head: 2 tiles of queries, the second with 256 keys; then those of keys.
    scores = 128 * 128 * (1 + 2)
    found = tiling.work("flash_attention_score", 256, 24, 128, cores=24)
    assert found == (scores, 24 * scores)
    found = tiling.work("flash_attention_score_grad", 256, 24, 128, cores=24)
    assert found == (2 * scores, 48 * scores)
    # Each of 64 queries counts with the 3 compressed tokens of 24 key heads that the last sees.
    sizes = (48, 24, 64, 64, 32, 16, 64, 4)
    found = tiling.work("nsa_compress_attention", 64, *sizes, cores=24)
    assert found == (64 * 2 * 3, 24 * 64 * 2 * 3)
    # Every slice of 16 tokens on the one core that there is.
    for kernel in ("nsa_compress", "nsa_compress_grad"):
        assert tiling.work(kernel, 4096, 4, 128, 32, 16, cores=1) == (1024, 1024)
    for kernel, sizes in (("nsa_compress", (4, 128, 32, 16)), ("flash_attention_score", (16, 128))):
        most = [tiling.work(kernel, 4096, *sizes, cores=cores)[0] for cores in (1, 7, 24)]
        assert most == sorted(most, reverse=True) and most[0] > 20 * most[-1]


def test_quick_run(tmp_path):
    path, picture = tmp_path / "modelled.csv", tmp_path / "timeline.png"
    options = ["--target", "ascend_twin", "--quick", "--chip", "910B3"]
    options += ["--only", "compress_forward", "--only", "compress_backward"]
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


def test_refuses_no_rows():
    done = python("-m", "benchmarks", "--target", "ascend_twin", "--rows", "8", "0")
    assert done.returncode == 2
    assert "--rows must be positive" in done.stdout


def test_refuses_another_case():
    done = python("-m", "benchmarks", "--target", "ascend_twin", "--only", "nothing")
    assert done.returncode == 2
    assert "no modelled case begins with 'nothing'" in done.stdout
