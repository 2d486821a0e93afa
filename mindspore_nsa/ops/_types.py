"""Types of arguments that several functions share."""

from typing import TypeAlias

from mindspore import Tensor

# Prefix sums or lengths of segments; a Tensor may change its values without a new graph.
IntList: TypeAlias = tuple[int, ...] | list[int] | Tensor
