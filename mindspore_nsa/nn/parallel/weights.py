"""Parameters of a layer whose heads are split over a tensor group, and of the whole one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore.nn import Cell

from ...ops._plan import fail_type, shown
from ..config import NSAConfig
from .collectives import Gather, agree
from .groups import WorkerGroup


class HeadSplit(NamedTuple):
    """Where a parameter of a layer has its heads.

    A layer says so of its own parameters: the Cells in it that hold them have a dict `head_splits`
    of their names there.

    Attributes:
        axis (int): Dimension along which the heads are.
        blocks (tuple[int]): Lengths of what stands there one after another, of which every worker
            has a share: such as keys, then values.
        heads (int): Key heads of the layer, which the workers share.
        workers (int): Workers that the layer was made for, each of which has as much.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> from mindspore_nsa import nn
        >>> config = nn.NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> print(nn.DenseAttention(config).key_value.head_splits["weight"])
        HeadSplit(axis=0, blocks=(32, 32), heads=2, workers=1)
    """

    axis: int
    blocks: tuple[Any, ...]
    heads: int
    workers: int


def local_config(function: str, config: NSAConfig, size: int) -> Any:
    """The configuration of one worker's heads."""
    if config.num_kv_heads % size:
        raise ValueError(
            f"{function}: num_kv_heads must be a multiple of the {size} workers of tensor_group, "
            "because the heads that share a key choose blocks together, got "
            f"{config.num_kv_heads}"
        )
    return replace(
        config, num_heads=config.num_heads // size, num_kv_heads=config.num_kv_heads // size
    )


# Instead of a HeadSplit, of a parameter in a layer of which no Cell says where its heads are.
_UNKNOWN = "unknown"


def _claimed(function: str, model: Any) -> Any:
    """{name of a parameter: HeadSplit, None where all workers have the same, or _UNKNOWN}."""
    splits: dict[int, Any] = {}
    inside: set[int] = set()
    named: dict[str, Any] = {}
    for _, cell in model.cells_and_names():
        if getattr(type(cell), "splits_heads", False):
            inside.update(map(id, cell.get_parameters()))
        for name, split in vars(cell).get("head_splits", {}).items():
            parameter = getattr(cell, name)
            if parameter is None:
                continue
            if splits.setdefault(id(parameter), split) != split:
                raise ValueError(
                    f"{function}: {parameter.name} of model must be split alike by the layers that "
                    f"share it, got {splits[id(parameter)]} and {split}"
                )
    for parameter in model.get_parameters():
        split = splits.get(id(parameter), _UNKNOWN if id(parameter) in inside else None)
        if named.setdefault(parameter.name, split) != split:
            raise ValueError(
                f"{function}: model must have a name for each parameter, got {parameter.name} "
                "twice, for one that is split and for one that is not"
            )
    return named


def _owner(function: str, name: str, claimed: Any, parameters: Any = None) -> Any:
    """The parameter that a name is of: itself, one whose state it is, or None.

    Of an optimizer's states the names end with those of the parameters, and the shapes are theirs;
    `parameters` are then those given, which have both.
    """
    if name in claimed:
        return name
    ends = [name.split(".", i)[i] for i in range(1, name.count(".") + 1)]
    owner = next((end for end in ends if end in claimed), None)
    if owner is None or claimed[owner] is None or parameters is None:
        return owner
    if owner not in parameters or parameters[owner].shape != parameters[name].shape:
        raise ValueError(
            f"{function}: {name} must be the name of a parameter of model, or of what an optimizer "
            f"keeps of one that is given, too; model has {owner} only: give the model whose names "
            "these are"
        )
    return owner


def _owned(function: str, parameters: Any, model: Any) -> dict[Any, Any]:
    """{name: HeadSplit or None} of the parameters."""
    claimed = _claimed(function, model)
    owners = {name: _owner(function, name, claimed, parameters) for name in parameters}
    return {name: claimed.get(owner) for name, owner in owners.items()}


def split_axis(name: str, model: nn.Cell) -> int | None:
    """The axis along which a parameter is split over a tensor group.

    For a norm of the whole gradient the squares of such parameters are summed over the group, those
    of the others are the same on all its workers.

    Args:
        name (str): Of a parameter of the model, or of what an optimizer keeps of it.
        model (Cell): A `NativeSparseAttention` or `DenseAttention`, or a model around such layers.

    Returns:
        int, or None where all workers have the same.

    Raises:
        TypeError: If an argument has the wrong type.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> from mindspore_nsa import nn
        >>> config = nn.NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> layer = nn.NativeSparseAttention(config)
        >>> print(nn.split_axis("output.weight", layer), nn.split_axis("norm.weight", layer))
        1 None
    """
    function = "split_axis"
    if not isinstance(name, str):
        fail_type(function, "name", "a str", name)
    _check_model(function, model)
    claimed = _claimed(function, model)
    split = claimed.get(_owner(function, name, claimed))
    if split == _UNKNOWN:
        _fail_unknown(function, name)
    return None if split is None else split.axis


def _check_model(function: str, model: Any) -> None:
    if not isinstance(model, Cell):
        fail_type(function, "model", "a Cell, the model whose parameters these are", model)


def _check(function: str, parameters: Any, model: Any, group: Any) -> None:
    _check_model(function, model)
    if not isinstance(group, WorkerGroup):
        fail_type(function, "tensor_group", "a WorkerGroup", group)
    if not isinstance(parameters, Mapping):
        fail_type(function, "parameters", "a dict of names and arrays", parameters)


def _fail_unknown(function: str, name: str) -> None:
    raise ValueError(
        f"{function}: {name} must be a parameter of which a Cell of model says in its head_splits "
        "where the heads are (None: all workers have the same), got one in the place of a layer's "
        "own"
    )


def _check_workers(function: str, name: str, split: Any, size: int) -> None:
    """The errors of a parameter that so many workers cannot share."""
    if split == _UNKNOWN:
        if size == 1:
            return
        _fail_unknown(function, name)
    if split.workers not in (1, size):
        raise ValueError(
            f"{function}: model must be one of a worker alone or of the {size} workers of "
            f"tensor_group, got {name} of a layer made for {split.workers}"
        )
    if split.workers == 1 and split.heads % size:
        raise ValueError(
            f"{function}: num_kv_heads must be a multiple of the {size} workers of tensor_group, "
            "because the heads that share a key choose blocks together, got "
            f"{split.heads} in the layer of {name}"
        )


def _own_lengths(split: Any, size: int) -> list[Any]:
    """Lengths of one worker's blocks."""
    return [length * split.workers // size for length in split.blocks]


def _check_length(function: str, name: str, shape: Any, split: Any, expected: str) -> None:
    if len(shape) <= split.axis or shape[split.axis] != expected:
        raise ValueError(
            f"{function}: {name} must have {expected} values along axis {split.axis}, as the layer "
            f"of model says, got shape {shown(tuple(shape))}"
        )


def _array(value: Tensor) -> tuple[Any, ...]:
    """(NumPy array, what makes of another one like the value)."""
    if isinstance(value, np.ndarray):
        return value, lambda array: np.ascontiguousarray(array)
    dtype = value.dtype
    wide = value.astype(mindspore.float32) if dtype == mindspore.bfloat16 else value
    kind = (lambda t: Parameter(t, name=value.name)) if isinstance(value, Parameter) else Tensor
    return (
        wide.asnumpy(),
        lambda array: kind(Tensor(np.ascontiguousarray(array)).astype(dtype)),
    )


def shard_parameters(parameters: Any, model: nn.Cell, tensor_group: WorkerGroup) -> dict[str, Any]:
    """This worker's part of the parameters of whole layers.

    Checkpoints stay whole: any number of workers can read them.

    Args:
        parameters (dict[str, Union[Tensor, Parameter, numpy.ndarray]]): Those of the model by
            name, or some of them. What an optimizer keeps of one may be among them beside it, under
            a name that ends with its name.
        model (Cell): A `NativeSparseAttention` or `DenseAttention`, or a model around such layers,
            made for this group or for one worker: its layers say which parameters they split.
            Those of other Cells stay as they are.
        tensor_group (WorkerGroup): The workers that share the heads.

    Returns:
        dict, with the same names.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the number of workers does not divide the key heads, if a parameter has not
            the size that its layer says, or if a name may be that of another Cell.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> from mindspore_nsa import nn
        >>> config = nn.NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> layer = nn.NativeSparseAttention(config)
        >>> group = nn.parallel_groups().tensor
        >>> part = nn.shard_parameters(layer.parameters_dict(), layer, group)
        >>> print(part["query.weight"].shape)
        (64, 64)
    """
    function = "shard_parameters"
    _check(function, parameters, model, tensor_group)
    size, rank = tensor_group.size, tensor_group.rank
    owned, found = _owned(function, parameters, model), {}
    for name, value in parameters.items():
        split = owned[name]
        if split is not None:
            _check_workers(function, name, split, size)
        if split is None or size == 1:
            found[name] = value
            continue
        array, made = _array(value)
        lengths = [length * size for length in _own_lengths(split, size)]
        _check_length(function, name, array.shape, split, sum(lengths))
        blocks = np.split(array, np.cumsum(lengths)[:-1], split.axis)
        mine = [np.split(block, size, split.axis)[rank] for block in blocks]
        found[name] = made(np.concatenate(mine, split.axis))
    return found


def unshard_parameters(parts: Any, model: nn.Cell, tensor_group: WorkerGroup) -> dict[str, Any]:
    """Parameters of whole layers, from the parts of all workers of a tensor group.

    Args:
        parts (Sequence[dict]): What every worker has, in order.
        model (Cell): As for `shard_parameters`.
        tensor_group (WorkerGroup): The workers that share the heads.

    Returns:
        dict, with the same names. What is not split is the first worker's.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there are not as many parts as workers, if their names differ, if a part has
            not the size that its layer says, or if a name may be that of another Cell.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> from mindspore_nsa import nn
        >>> config = nn.NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> layer = nn.DenseAttention(config)
        >>> parts = [layer.parameters_dict()]
        >>> whole = nn.unshard_parameters(parts, layer, nn.parallel_groups().tensor)
        >>> print(whole["output.weight"].shape)
        (64, 64)
    """
    function = "unshard_parameters"
    if not isinstance(parts, (tuple, list)) or not parts:
        fail_type(function, "parts", "a tuple or list of dicts, one of each worker", parts)
    for part in parts:
        _check(function, part, model, tensor_group)
    size = tensor_group.size
    if len(parts) != size:
        raise ValueError(f"{function}: parts must be those of {size} workers, got {len(parts)}")
    owned, found = _owned(function, parts[0], model), {}
    for name, value in parts[0].items():
        missing = [i for i, part in enumerate(parts) if name not in part]
        if missing:
            raise ValueError(f"{function}: {name} is missing in the part of worker {missing[0]}")
        split = owned[name]
        if split is not None:
            _check_workers(function, name, split, size)
        if split is None or size == 1:
            found[name] = value
            continue
        lengths, blocks = _own_lengths(split, size), []
        for part in parts:
            array = _array(part[name])[0]
            _check_length(function, name, array.shape, split, sum(lengths))
            blocks.append(np.split(array, np.cumsum(lengths)[:-1], split.axis))
        whole = [np.concatenate(same, split.axis) for same in zip(*blocks)]
        found[name] = _array(value)[1](np.concatenate(whole, split.axis))
    return found


def gather_parameters(parameters: Any, model: nn.Cell, tensor_group: WorkerGroup) -> dict[str, Any]:
    """Parameters of whole layers on all workers of a tensor group: for a checkpoint.

    All workers of the group must call it.

    Args:
        parameters (dict[str, Union[Tensor, Parameter, numpy.ndarray]]): This worker's part, as
            `shard_parameters` makes it, with what an optimizer keeps of them.
        model (Cell): As for `shard_parameters`.
        tensor_group (WorkerGroup): The workers that share the heads.

    Returns:
        dict, with the same names.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If names, shapes or dtypes differ between the workers, if a parameter has not
            the size that its layer says, or if a name may be that of another Cell.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> from mindspore_nsa import nn
        >>> config = nn.NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> layer = nn.NativeSparseAttention(config)
        >>> group = nn.parallel_groups().tensor
        >>> whole = nn.gather_parameters(layer.parameters_dict(), layer, group)
        >>> print(whole["query.weight"].shape)
        (64, 64)
    """
    function = "gather_parameters"
    _check(function, parameters, model, tensor_group)
    described = [(n, list(p.shape), str(p.dtype)) for n, p in parameters.items()]
    agree(function, "parameters", described, tensor_group)
    owned = _owned(function, parameters, model)
    gather = Gather(tensor_group)
    parts = [dict(parameters) for _ in range(tensor_group.size)]
    made = {}
    for name, value in parameters.items():
        if owned[name] is None or tensor_group.size == 1:
            continue
        array, made[name] = _array(value)
        # Not called as a Cell, which would compile a graph for every shape.
        rows = gather.construct(Tensor(array[None])).asnumpy()
        for part, row in zip(parts, rows):
            part[name] = row
    whole = unshard_parameters(parts, model, tensor_group)
    return {n: made[n](value) if n in made else value for n, value in whole.items()}
