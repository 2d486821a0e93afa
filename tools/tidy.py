"""Runs clang-tidy on binding/, infer/ and cpu/, or on the files given: `make tidy`.

The checks are in .clang-tidy. CMake's list of commands is that of `make build`, which calls g++, so
options that only g++ knows are passed over, and omp.h is g++'s.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("binding", "infer", "cpu")
PROGRAM = Path(sys.executable).with_name("clang-tidy")


def version():
    """The version that pyproject.toml pins."""
    return re.search(r'"clang-tidy==([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]


def sources(build, wanted):
    """The files that are compiled here, of `wanted` or of all FOLDERS."""
    commands = json.loads((build / "compile_commands.json").read_text())
    known = {Path(command["directory"], command["file"]).resolve() for command in commands}
    if not wanted:
        return sorted(f for f in known if f.is_relative_to(ROOT) and _folder(f) in FOLDERS)
    wanted = {Path(path).resolve() for path in wanted}
    return sorted(wanted & known)


def _folder(path):
    return path.relative_to(ROOT).parts[0]


def openmp():
    """Options by which clang-tidy, which has no OpenMP of its own, finds g++'s omp.h."""
    found = subprocess.run(
        [os.environ.get("CXX", "g++").split()[0], "-print-file-name=include/omp.h"],
        capture_output=True,
        text=True,
    ).stdout.strip()
    if not os.path.isabs(found):
        return []
    return ["--extra-arg=-idirafter", f"--extra-arg={Path(found).parent}"]


def findings(program, build, path, options):
    """Output of clang-tidy for one file, or "" if it has nothing to say."""
    command = [program, "-p", build, "--quiet", *options, path]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def main(arguments=None, program=PROGRAM):
    """Returns the exit code: 1 where clang-tidy finds something."""
    parser = argparse.ArgumentParser(prog="make tidy", description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    given = parser.parse_args(arguments)
    if not program.exists():
        print(f"make tidy: {program} is missing: pip install clang-tidy=={version()}")
        return 2
    # Compilers differ in the warnings that they know, which the build itself shows.
    options = ["--extra-arg=-Wno-everything", "--extra-arg=-Wno-unknown-warning-option", *openmp()]
    paths = sources(given.build, given.files)
    failed = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        calls = pool.map(lambda path: findings(program, given.build, path, options), paths)
        for path, text in zip(paths, calls):
            failed += bool(text)
            print(f"{path.relative_to(ROOT)}: {text.strip() or 'nothing found'}", flush=True)
    print(f"{failed} of {len(paths)} files with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
