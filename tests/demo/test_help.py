"""Every option of the demo's programs says what it is."""

import argparse
import importlib

import pytest

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
