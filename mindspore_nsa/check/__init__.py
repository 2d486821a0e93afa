"""`python -m mindspore_nsa.check`: every operator with an Ascend kernel, beside its definition."""

from .calls import CHECKS

__all__ = ["CHECKS"]
