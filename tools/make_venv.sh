#!/bin/bash
# Makes the virtual environment $1 with Python $2 and installs the two packages of this repository from
# freshly built wheels, mindspore_nsa with its test and demo extras. One CMake build folder serves both,
# so nothing is compiled twice, and it is kept, so that a second run compiles only what changed.
set -euo pipefail
venv=$1
python=$2
quiet=(--disable-pip-version-check --quiet)
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# setuptools would pack modules deleted since the last build.
rm -rf build/lib.* build/bdist.* twin/build
# In an isolated build pybind11 would lie in another folder each time, and what includes it would be
# compiled anew.
requirements='import runpy; print(*runpy.run_path("tools/build_wheels.py")["build_requirements"](), sep="\n")'
"$venv/bin/python" -c "$requirements" | "$venv/bin/python" -m pip install "${quiet[@]}" -r /dev/stdin
export NSA_BUILD_DIR=$PWD/build/wheel ASCENDC_TWIN_BUILD_DIR=$PWD/build/wheel
"$venv/bin/python" -m pip install "${quiet[@]}" --no-build-isolation ".[demo,test]"
"$venv/bin/python" -m pip install "${quiet[@]}" --no-build-isolation ./twin
