"""Calls of the operators, and when their outputs are right: for tests and benchmarks."""
