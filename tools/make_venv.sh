#!/bin/bash
# Makes the virtual environment $1 with Python $2 and installs this package with its test and demo
# extras from a freshly built wheel. The CMake build folder is kept, so that a second run compiles
# only what changed.
set -euo pipefail
venv=$1
python=$2
quiet=(--disable-pip-version-check --quiet)
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# setuptools would pack modules deleted since the last build.
rm -rf build/lib.* build/bdist.*
# In an isolated build pybind11 would lie in another folder each time, and what includes it would be
# compiled anew.
requirements='import runpy; print(*runpy.run_path("tools/build_wheels.py")["build_requirements"](), sep="\n")'
"$venv/bin/python" -c "$requirements" | "$venv/bin/python" -m pip install "${quiet[@]}" -r /dev/stdin
NSA_BUILD_DIR=build/wheel "$venv/bin/python" -m pip install "${quiet[@]}" --no-build-isolation ".[demo,test]"
