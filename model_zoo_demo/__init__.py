"""Training programs that use mindspore_nsa."""
