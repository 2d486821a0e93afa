#!/bin/bash
# Makes the virtual environment $1 with Python $2 and installs this package with its test and demo
# extras from a freshly built wheel. The CMake build folder is kept, so that a second run compiles
# only what changed.
set -euo pipefail
venv=$1
python=$2
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# setuptools would pack modules deleted since the last build.
rm -rf build/lib.* build/bdist.*
NSA_BUILD_DIR=build/wheel "$venv/bin/python" -m pip install --disable-pip-version-check --quiet ".[demo,test]"
