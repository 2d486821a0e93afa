"""NSA inside MindFormers from PyPI: what its classes ask of a self_attention, and a whole model."""

import pytest

from .environments import run

RELEASES = ("mindformers-1.9.0", "mindformers-2.1.0")


@pytest.mark.parametrize("release", RELEASES)
def test_layer(release, tmp_path):
    """With nothing replaced; a packed document is to the bit what it is alone."""
    assert run(release, "mindformers_layer.py", tmp_path) == ["packed 0.0", "refused"]


def test_model(tmp_path):
    """The page's program, then, in its process, models that train, are saved and loaded."""
    page, losses, saved, trainer, loaded = run(
        "mindformers-2.1.0", "mindformers_qwen3.py", tmp_path, page="mindformers.md"
    )
    assert page[-1] == "(1024, 128)"
    found = [float(text) for text in losses.split()[1:]]
    assert found == pytest.approx([4.8638, 4.7999, 4.7409, 4.6856], abs=1e-3)
    # By MindFormers' Trainer the first two of the same steps.
    assert trainer.split()[1:] == losses.split()[1:3]
    assert (saved, loaded) == ("saved and loaded", "saved and loaded by MindFormers")


def test_ascend(tmp_path):
    """The losses of the page, of bfloat16 on device Ascend; a CPU's in float32 are near them."""
    (losses,) = run("mindformers-2.1.0", "mindformers_ascend.py", tmp_path, ascend=True)
    found = [float(text) for text in losses.split()[1:]]
    assert found == pytest.approx([5.2029, 4.8162, 4.4546], rel=1e-3)


def test_pynative(tmp_path):
    """Through the registry and converted; built without memory, as MindFormers' trainer does it."""
    lines = run("mindformers-2.1.0", "mindformers_pynative.py", tmp_path, "2", "nsa", "qwen3")
    nsa, packed, converted = (line.split() for line in lines)
    assert packed == ["packed", "0.0"]
    for losses in (nsa[1:], converted[1:]):
        assert 4.7 < float(losses[1]) < float(losses[0]) < 4.9


def test_variants(tmp_path):
    """MindFormers' own dsa and dsv4_hybrid, on what is served, are the layers of our models."""
    lines = run("mindformers-2.1.0", "mindformers_variants.py", tmp_path)
    found = {line.rsplit(" ", 2)[0]: line.split()[-2:] for line in lines[2:]}
    # MindSpore's own gradient of a split, and the served one; the text is 0 to 7.
    assert lines[0] != lines[1] == "split 0 1 2 3 4 5 6 7"
    v4 = [f"{kind} {how}" for how in ("fused", "unfused") for kind in ("sliding", "CSA", "HCA")]
    for name in ("dsa", "warm-up", *v4):
        forward, gradients = map(float, found[name])
        assert forward <= 1e-6 and gradients <= 1e-5, (name, found[name])
    (losses,) = (line.split()[1:] for line in lines if line.startswith("trains"))
    assert float(losses[-1]) < 0.5 * float(losses[0])
    # The page says it of MindFormers: scores scaled as by YaRN, and a residual of entries.
    assert "scale 0.1622" in lines
    as_called, right = map(float, found["residual"])
    assert as_called > 0.01 and right <= 1e-6
    assert "stopped" in lines and "must be called before modules take the names" in lines[-1]


@pytest.mark.soak
@pytest.mark.parametrize("release", RELEASES)
def test_new_weights(release, tmp_path):
    """Without norms and the model's weights; seeds and rows move a loss by some hundredths."""
    (losses,) = run(release, "mindformers_qwen3.py", tmp_path, "new")
    found = [float(text) for text in losses.split()[1:]]
    assert found == pytest.approx([4.8610, 4.7977, 4.7500, 4.7059], abs=1e-3)
    # With other seeds, of an earlier layer.
    assert found == pytest.approx([4.8585, 4.7949, 4.7521, 4.7099], abs=1e-2)


@pytest.mark.soak
def test_pynative_curve(tmp_path):
    """NSA learns chains of tokens as DenseAttention does; the page has the losses."""
    lines = run("mindformers-2.1.0", "mindformers_pynative.py", tmp_path, "201", "qwen3", "dense")
    curves = {name: [float(loss) for loss in losses] for name, *losses in map(str.split, lines)}
    for step in (50, 100, 150, 200):
        assert curves["qwen3"][step] == pytest.approx(curves["dense"][step], abs=0.1)
