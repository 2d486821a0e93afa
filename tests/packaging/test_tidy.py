"""`make tidy` tells what clang-tidy finds, and .clang-tidy says why it does without some checks."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
import yaml

from .conftest import ROOT


@pytest.fixture(scope="module")
def tidy():
    spec = importlib.util.spec_from_file_location("tidy", ROOT / "tools" / "tidy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build(tmp_path):
    """A folder whose list of commands has two of our files and one of somebody else's."""
    names = ["infer/op.cc", "cpu/engine/threads/threads.cc", "twin/device/names.cc"]
    commands = [{"directory": str(ROOT), "file": str(ROOT / name)} for name in names]
    (tmp_path / "compile_commands.json").write_text(json.dumps(commands))
    return tmp_path


def program(folder, text):
    path = folder / "clang-tidy"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_findings(tidy, build, capsys):
    """A file with a finding fails the run, which goes on to the others."""
    found = program(build, 'for x; do :; done; case $x in *op.cc) echo "$x: wrong"; exit 1;; esac')
    assert tidy.main(["--build", str(build)], found) == 1
    said = capsys.readouterr().out
    assert f"{ROOT / 'infer/op.cc'}: wrong" in said and "threads.cc: nothing found" in said
    assert "twin" not in said and said.endswith("1 of 2 files with findings\n")
    threads = str(ROOT / "cpu/engine/threads/threads.cc")
    assert tidy.main(["--build", str(build), threads], found) == 0


def test_without_clang_tidy(tidy, build, capsys):
    assert tidy.main(["--build", str(build)], Path(build, "none")) == 2
    assert f"pip install clang-tidy=={tidy.version()}" in capsys.readouterr().out


def test_a_check_is_left_out_for_a_reason():
    text = (ROOT / ".clang-tidy").read_text()
    checks = re.split(r",\s*", yaml.safe_load(text)["Checks"].strip())
    assert checks[0] == "-*" and {"bugprone-*", "performance-*"} <= set(checks)
    left_out = [check.partition("-")[2] for check in (c[1:] for c in checks[1:] if c[0] == "-")]
    reasons = re.findall(r"^#   ([\w, -]+): \w", text, re.MULTILINE)
    assert sorted(left_out) == sorted(name for names in reasons for name in names.split(", "))
