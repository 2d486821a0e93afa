"""Calls of the operators and when their results are right: for tests, benchmarks and the check.

`Case` is one native call with its float64 reference, `compare` judges outputs by the project's
tolerance rule (docs/testing.md).
"""

from .case import Case, compare, run_plain, run_reference

__all__ = ["Case", "compare", "run_plain", "run_reference"]
