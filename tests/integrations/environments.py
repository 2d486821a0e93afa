"""An environment with a framework, over the packages of the one that runs the tests.

Frameworks disagree about the versions of transformers, so each has its own, under build/. What a
framework would install beside, another MindSpore above all, is left out: `--no-deps`.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import mindspore_nsa
from mindspore_nsa import _ascend_twin

ROOT = Path(__file__).resolve().parents[2]
# datasets 5.2 wants pyarrow 24, and that numpy 2.
_MINDFORMERS = (
    *("pyyaml", "deprecated", "regex", "requests", "jieba", "rouge_chinese", "tokenizers"),
    *("sentencepiece", "tiktoken", "mindpet", "tensorboardX", "datasets<5.2", "pyarrow<24"),
    "numpy<2",
)
# Name: what is installed without what it needs, and what of that is needed.
FRAMEWORKS = {
    "mindformers-1.9.0": (["mindformers==1.9.0"], [*_MINDFORMERS, "nltk"]),
    "mindformers-2.1.0": (["mindformers==2.1.0"], [*_MINDFORMERS]),
    "mindone-0.5.0": (
        ["mindone==0.5.0", "omegaconf", "antlr4-python3-runtime"],
        ["transformers==4.57.1", "numpy<2"],
    ),
}
# PyTorch comes with what it needs: its builds differ in that.
FRAMEWORKS["transformers-5.24.0"] = (
    ["transformers==5.24.0"],
    [
        *("torch==2.13.0", "huggingface-hub<3", "tokenizers", "safetensors", "regex", "pyyaml"),
        *("typer", "packaging", "tqdm", "numpy<2"),
    ],
)
PROGRAMS = Path(__file__).parent / "programs"


def _pip(python, *arguments):
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    # Few of their modules are ever imported; Python compiles those then.
    options = ["--disable-pip-version-check", "--no-compile"]
    done = subprocess.run([*command, *options, *arguments], capture_output=True, text=True)
    if done.returncode == 0:
        return
    absent = "No matching distribution found" in done.stderr
    if absent and not os.environ.get("CI"):
        pytest.skip(f"the registry has no {' '.join(arguments)}")
    pytest.fail(done.stdout + done.stderr)


def python_of(name):
    """The Python of an environment, which is made where it is not there yet."""
    bare, needed = FRAMEWORKS[name]
    folder = ROOT / "build" / "integrations" / name
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    packages = sysconfig.get_path("purelib")
    made_of = hashlib.sha256(repr((bare, needed, packages, sys.version)).encode()).hexdigest()
    ready = folder / "ready"
    # The processes of the tests meet here; in the folder, --clear would remove the lock.
    with open(folder.with_name(f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != made_of:
            command = [sys.executable, "-m", "venv", "--without-pip", "--clear", str(folder)]
            subprocess.run(command, check=True)
            library = f"python{sys.version_info[0]}.{sys.version_info[1]}"
            site = folder / "lib" / library / "site-packages"
            (site / "packages_of_the_tests.pth").write_text(f"{packages}\n")
            _pip(python, "--no-deps", *bare)
            _pip(python, *needed)
            ready.write_text(made_of)
    return python


def example(page):
    """The program that a page of docs/ has its readers paste."""
    text = (ROOT / "docs" / page).read_text()
    (source,) = re.findall(r"^```py\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return source


def run(name, program, tmp_path, *arguments, page=None, ascend=False):
    """Output of a program of the folder `programs` in an environment, its results as lines.

    With a page, its program runs before, in the same process, and what it prints last comes first.
    With `ascend`, MindSpore's device Ascend is the twin there.
    """
    path, first = PROGRAMS / program, []
    if page is not None:
        path = tmp_path / program
        end = "print('end of the page')\n"
        path.write_text(f"{example(page)}{end}{(PROGRAMS / program).read_text()}")
    starter = ("-m", "mindspore_nsa.twin", "run") if ascend else ()
    lines = _run(name, starter, path, tmp_path, *arguments).splitlines()
    if page is not None:
        first = [lines[: lines.index("end of the page")]]
    mark = "result: "
    return first + [line[len(mark) :] for line in lines if line.startswith(mark)]


def _run(name, starter, program, tmp_path, *arguments):
    python = python_of(name)
    # Not the whole source tree, whose mindspore_nsa would hide an installed one; and not the
    # packages of the tests, which would hide those of the environment.
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "model_zoo_demo").symlink_to(ROOT / "model_zoo_demo")
    tested = Path(mindspore_nsa.__file__).parents[1]
    installed = tested == Path(sysconfig.get_path("purelib"))
    paths = [str(tmp_path / "source"), str(PROGRAMS), *([] if installed else [str(tested)])]
    if starter and not installed:
        paths.append(str(Path(_ascend_twin.package().__file__).parents[1]))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [str(python), *starter, str(program), *arguments],
        cwd=tmp_path, capture_output=True, text=True, timeout=1200, env=env)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout
