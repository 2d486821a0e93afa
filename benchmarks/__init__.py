"""Benchmarks of the operators: `python -m benchmarks`, from the root of the source tree.

registry.py lists the cases, runner.py runs them; every other file is one idea of theirs.
"""
