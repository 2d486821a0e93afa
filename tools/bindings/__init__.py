"""Sources of the functions that `make generate` writes from the schemas of the operators."""
