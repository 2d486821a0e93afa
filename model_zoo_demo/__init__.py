"""Training programs that use mindspore_nsa."""

import sys
from pathlib import Path

# `python -m model_zoo_demo.train` puts the source tree first on sys.path. Where mindspore_nsa is
# installed that one is meant, so the tree goes last.
_ROOT = Path(__file__).resolve().parents[1]
if any(Path(p or ".").resolve() == _ROOT for p in sys.path[:1]):
    sys.path.append(sys.path.pop(0) or str(_ROOT))
