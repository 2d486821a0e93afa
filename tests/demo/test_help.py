"""Every option of the demo's programs says what it is, and what is missing is said at once."""

import argparse
import importlib
import sys

import pytest

from model_zoo_demo import drawing

PROGRAMS = ("train", "generate", "recall", "compare", "convert", "selection", "dsa")


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_has_words(name, monkeypatch, capsys):
    silent = []
    add = argparse.ArgumentParser.add_argument

    def spy(parser, *flags, **options):
        if not options.get("help"):
            silent.append(flags)
        return add(parser, *flags, **options)

    monkeypatch.setattr(argparse.ArgumentParser, "add_argument", spy)
    program = importlib.import_module(f"model_zoo_demo.{name}")
    with pytest.raises(SystemExit) as end:
        program.main(["--help"])
    assert end.value.code == 0 and "--mode" in capsys.readouterr().out
    assert silent == []


@pytest.mark.parametrize("name", ["train", "recall", "compare", "dsa"])
def test_without_matplotlib(name, monkeypatch, tmp_path):
    """Before anything is trained or written."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    program = importlib.import_module(f"model_zoo_demo.{name}")
    said = program.main(["--out", str(tmp_path / "out")])
    assert said.startswith(f"{name}: matplotlib draws the pictures, and cannot be imported")
    assert said.endswith("pip install '.[demo]' in the clone") and not [*tmp_path.iterdir()]


def test_a_picture(tmp_path):
    figure, axes = drawing.pyplot().subplots()
    axes.plot([1, 2])
    drawing.save(figure, tmp_path / "a.png", dpi=20)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert drawing.pyplot().get_fignums() == []
