"""Mutants that nobody can tell from the program: (file, lines before, lines after): why."""

EQUIVALENT = {}
