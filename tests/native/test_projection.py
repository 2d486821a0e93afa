"""The products of bfloat16 without Python: exact-size tensors, spoiled scratch, sanitizers, and the
kernels for AMX on a model of its instructions."""

import pytest

from tests.common import projections

from . import builds
from .casefile import read_results, write_cases


@pytest.mark.parametrize("form", [builds.PLAIN, builds.ADDRESS], ids=lambda build: build.name)
def test_products(form, tmp_path):
    program = builds.compile_replay(form)
    cases = [call for size in projections.SIZES for call in projections.drawn_calls(size, 7)]
    write_cases(tmp_path / "cases", cases)
    isas = builds.run_replay(form, program, "-", "-", "?").stdout.split()
    assert "scalar" in isas
    for isa in isas:
        done = builds.run_replay(form, program, tmp_path / "cases", tmp_path / isa, isa)
        assert done.returncode == 0, f"{isa}: {done.stdout}{done.stderr[-5000:]}"
        for case, result in zip(cases, read_results(tmp_path / isa), strict=True):
            assert not result.error, f"{isa} {case}: {result.error}"
            case.check(result.outputs)
