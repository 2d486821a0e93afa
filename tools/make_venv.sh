#!/bin/bash
# Makes the virtual environment $1 with Python $2 and installs the two packages of this repository from
# freshly built wheels, mindspore_nsa with its test and demo extras. One CMake build folder serves both,
# so nothing is compiled twice, and it is kept, so that a second run compiles only what changed.
set -euo pipefail
venv=$1
python=$2
# Few of the thousands of modules are ever imported; Python compiles those then.
install=("$venv/bin/python" -m pip --disable-pip-version-check --quiet install --no-compile)
# Requirements that pyproject.toml lists under these names.
listed() {
  "$venv/bin/python" -c 'import runpy, sys
print(*runpy.run_path("tools/build_wheels.py")["listed"](*sys.argv[1:]), sep="\n")' "$@"
}
# The versions that the tests have passed with, which are Python 3.11's; users get what the looser
# bounds allow. An empty PIP_CONSTRAINT takes the newest.
case $("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') in
  3.11) export PIP_CONSTRAINT=${PIP_CONSTRAINT-$PWD/tools/constraints.txt} ;;
esac
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# setuptools would pack modules deleted since the last build.
rm -rf build/lib.* build/bdist.* twin/build
# In an isolated build pybind11 would lie in another folder each time, and what includes it would be
# compiled anew.
listed requires | "${install[@]}" -r /dev/stdin
export NSA_BUILD_DIR=$PWD/build/wheel ASCENDC_TWIN_BUILD_DIR=$PWD/build/wheel
# To download and to unpack keeps hardly one processor busy, so everything is compiled meanwhile.
# setuptools has looked through the installed packages when pip begins to add to them. What the
# compiler objects to is shown by the builds of the wheels, which find the rest compiled.
"$venv/bin/python" setup.py -q build_ext >/dev/null 2>&1 &
trap 'kill "$!" 2>/dev/null || true' EXIT
listed dependencies demo test | "${install[@]}" -r /dev/stdin
wait "$!" || true
"${install[@]}" --no-build-isolation ".[demo,test]"
"${install[@]}" --no-build-isolation ./twin
