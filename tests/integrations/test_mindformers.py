"""NSA inside MindFormers from PyPI: what its classes ask of a self_attention, and a whole model."""

import pytest

from .environments import example, printed, run

RELEASES = ("mindformers-1.9.0", "mindformers-2.1.0")


@pytest.mark.parametrize("release", RELEASES)
def test_layer(release, tmp_path):
    """With nothing replaced; a packed document is to the bit what it is alone."""
    assert run(release, "mindformers_layer.py", tmp_path) == ["packed 0.0", "refused"]


def test_model(tmp_path):
    """A converted Qwen3 trains and is saved and loaded; every release gives the same losses."""
    losses, saved = run("mindformers-2.1.0", "mindformers_qwen3.py", tmp_path)
    found = [float(text) for text in losses.split()[1:]]
    assert found == pytest.approx([4.8638, 4.7999, 4.7409, 4.6856], abs=1e-3)
    assert saved == "saved and loaded"


def test_page(tmp_path):
    """The program of the page runs as it stands there."""
    lines = printed("mindformers-2.1.0", example("mindformers.md"), tmp_path)
    assert lines[-1] == "(1024, 128)"
