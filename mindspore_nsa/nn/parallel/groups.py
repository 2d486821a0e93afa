"""Groups of workers: which of them share a text, the heads of a layer, or the weights only."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, communication
from mindspore.ops import constexpr

from ...ops._plan import fail_type, shown


@dataclass(frozen=True)
class WorkerGroup:
    """Workers that exchange Tensors, made by `parallel_groups`.

    Attributes:
        name (str): What MindSpore's collectives call it.
        ranks (tuple[int]): Its workers, by their number among all.
        rank (int): Place of this worker among them.
        world (bool): Whether these are all workers.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> from mindspore_nsa import nn
        >>> group = nn.parallel_groups().tensor
        >>> print(group.size, group.ranks)
        1 (0,)
    """

    name: str
    ranks: tuple[int, ...]
    rank: int
    world: bool

    @property
    def size(self) -> int:
        """Number of its workers, an int."""
        return len(self.ranks)


@dataclass(frozen=True)
class ParallelGroups:
    """The groups of this worker, made by `parallel_groups`.

    Attributes:
        data (WorkerGroup): Workers with other documents, and the same part of text and heads.
        context (WorkerGroup): Workers with other parts of the same text, and the same heads.
        tensor (WorkerGroup): Workers with other heads, and the same part of the text.
        replicas (WorkerGroup): Workers with the same heads: data times context, over which the
            gradients of weights are averaged.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> from mindspore_nsa import nn
        >>> print(nn.parallel_groups().seed(7))
        7
    """

    data: WorkerGroup
    context: WorkerGroup
    tensor: WorkerGroup
    replicas: WorkerGroup

    def seed(self, base: Any) -> Any:
        """A seed for what is drawn within layers, as dropout is: ``mindspore.set_seed(...)``.

        The same on the workers of a tensor group, whose outputs are the same, and different
        elsewhere. It has to be set before the layers are made, which keep the seed of their
        dropout.
        """
        return base + self.replicas.rank


def _world() -> tuple[Any, ...]:
    """(rank, size) of this worker; (0, 1) where there are no others."""
    try:
        return communication.get_rank(), communication.get_group_size()
    except (RuntimeError, ValueError):
        return 0, 1


@cache
def _group(ranks: Any, size: int) -> Any:
    """MindSpore's name of a group of this worker, which is made where there is none yet."""
    if len(ranks) == size:
        return communication.GlobalComm.WORLD_COMM_GROUP
    name = f"mindspore_nsa_{'_'.join(map(str, ranks))}"
    if len(ranks) > 1:
        communication.create_group(name, list(ranks))
    return name


def _check_size(name: str, value: Tensor) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        fail_type("parallel_groups", name, "an int", value)
    if value < 1:
        raise ValueError(f"parallel_groups: {name} must be at least 1, got {value}")


def parallel_groups(context: int = 1, tensor: int = 1) -> ParallelGroups:
    """The groups of a grid of workers, after ``mindspore.communication.init()``.

    Neighbouring workers share the heads of a layer, then come those that share a text; the rest
    are for other texts. All workers must call it with the same sizes.

    Args:
        context (int, optional): Workers that share a text. Default: ``1``.
        tensor (int, optional): Workers that share the heads. Default: ``1``.

    Returns:
        ParallelGroups.

    Raises:
        TypeError: If a size is no int.
        ValueError: If a size is below 1, or if their product does not divide the workers.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> from mindspore_nsa import nn
        >>> groups = nn.parallel_groups()  # without msrun there is one worker
        >>> print(groups.context.size, groups.context.rank)
        1 0
    """
    _check_size("context", context)
    _check_size("tensor", tensor)
    rank, size = _world()
    if size % (context * tensor):
        raise ValueError(
            f"parallel_groups: context * tensor must divide the {size} workers, got context "
            f"{shown(context)} and tensor {shown(tensor)}"
        )
    grid = np.arange(size).reshape(-1, context, tensor)
    found = {}
    for kind, axes in (("data", (0,)), ("context", (1,)), ("tensor", (2,)), ("replicas", (0, 1))):
        kept = [axis for axis in range(3) if axis not in axes]
        rows = grid.transpose(*kept, *axes).reshape(-1, int(np.prod([grid.shape[a] for a in axes])))
        ranks = next(tuple(ranks) for ranks in rows.tolist() if rank in ranks)
        name = _group(ranks, size)
        found[kind] = WorkerGroup(name, ranks, ranks.index(rank), len(ranks) == size)
    return ParallelGroups(**found)


@constexpr
def on_cpu() -> Any:
    """Whether the collectives are those of a CPU."""
    return mindspore.context.get_context("device_target") == "CPU"
