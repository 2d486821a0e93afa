"""Real workers, started by msrun, compute what one worker computes."""

from pathlib import Path

import numpy as np
import pytest

from .starts import msrun
from .workers import CASES, one_worker, whole

PROGRAM = Path(__file__).with_name("workers.py")


@pytest.fixture(scope="module", params=sorted(CASES))
def finished(request, tmp_path_factory):
    """(workers, folder with what they computed)."""
    folder = tmp_path_factory.mktemp(f"workers_{request.param}")
    code, printed = msrun(folder / "logs", request.param, PROGRAM, folder)
    assert code == 0, "".join(text[-3000:] for text in printed)
    return request.param, folder


def close(one, several, limit, names):
    for name in names:
        scale = np.abs(one[name]).max()
        assert one[name].shape == several[name].shape, name
        assert np.abs(one[name] - several[name]).max() <= limit * scale, name


def test_same_as_one_worker(finished):
    """Outputs, gradients of x and of every parameter, and weights after steps of SGD.

    In bfloat16 gradients of keys and values are rounded on every worker before they are summed.
    """
    size, folder = finished
    for case in CASES[size]:
        parts = [dict(np.load(folder / f"{case.name}.{rank}.npz")) for rank in range(size)]
        one, several = one_worker(case), whole(case, parts)
        assert one.keys() == several.keys() and len(one) >= 5, case
        kinds = {kind: [n for n in one if n.startswith(kind)] for kind in ("out", "dx", "gr", "we")}
        narrow = case.dtype == "bfloat16"
        close(one, several, 2**-7 if narrow else 1e-6, kinds["out"])
        close(one, several, 2**-6 if narrow else 1e-6, kinds["dx"])
        close(one, several, 1e-2 if narrow else 2e-6, kinds["gr"])
        close(one, several, 1e-5, kinds["we"])
