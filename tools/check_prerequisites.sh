#!/bin/bash
# Names every Debian package that building and testing needs and that is missing. $1: the Python to use.
python=${1:-python3}
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need g++ g++
need make make
need git git
if ! command -v "$python" >/dev/null; then
  missing+=(python3)
else
  "$python" - <<'PY' || exit 1
import sys
if not (3, 10) <= sys.version_info[:2] <= (3, 12):
    sys.exit(f"mindspore_nsa needs Python 3.10, 3.11 or 3.12, got {sys.version.split()[0]} "
             f"at {sys.executable}; give another one with SYSTEM_PYTHON=")
PY
  "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  "$python" -c 'import os, sysconfig as s, sys
sys.exit(not os.path.exists(os.path.join(s.get_paths()["include"], "Python.h")))' || missing+=(python3-dev)
fi
if ((${#missing[@]})); then
  echo "missing: ${missing[*]}; install with: apt-get install ${missing[*]}" >&2
  exit 1
fi
