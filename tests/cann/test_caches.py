"""Layers that generate from their caches on MindSpore's device Ascend, beside target cpu."""

import pytest

from .caches import generated
from .judge import run


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_generation(mode, tmp_path):
    done = run("-m", "tests.cann.caches", mode, folder=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "aclDestroy" not in done.stdout + done.stderr
    found = [line for line in done.stdout.splitlines() if line.startswith(("NOT", "TEXTS"))]
    assert found == [f"TEXTS {[text.hex() for text in generated('pynative', 'CPU')]}"]
