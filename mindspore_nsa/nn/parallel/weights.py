"""Parameters of a layer whose heads are split over a tensor group, and of the whole one."""

from collections.abc import Mapping
from dataclasses import replace

import mindspore
import numpy as np
from mindspore import Parameter, Tensor

from ...ops._plan import fail_type, shown
from ..config import NSAConfig
from .collectives import Gather, agree
from .groups import WorkerGroup

# Name of a parameter to where its heads are: (axis, blocks along it, each of which is split). The
# output's bias, which is not here, is the same on all workers.
_GATES = ("gates.linear.weight", "gates.linear.bias")
_SPLIT = {
    "query.weight": 0,
    "query.bias": 0,
    "key_value.weight": 0,
    "key_value.bias": 0,
    "output.weight": 1,
    **dict.fromkeys(_GATES, 0),
    **{
        f"compress_{kind}.{name}": 1 for kind in ("key", "value") for name in ("weight", "position")
    },
}


def local_config(function, config, size):
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


def split_axis(name):
    """The axis along which a layer's parameter is split over a tensor group.

    For a norm of the whole gradient the squares of such parameters are summed over the group, those
    of the others are the same on all its workers.

    Args:
        name (str): Of a parameter, with or without the names of Cells around.

    Returns:
        int, or None where all workers have the same.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> from mindspore_nsa import nn
        >>> print(nn.split_axis("layers.0.attention.output.weight"), nn.split_axis("norm.weight"))
        1 None
    """
    return next((axis for n, axis in _SPLIT.items() if f".{name}".endswith(f".{n}")), None)


def _blocks(name, length, config, size):
    """Lengths of the blocks along the axis, of the whole."""
    c = config
    if ".key_value." in f".{name}":
        # Keys of all branches, then values: one branch of each has a block.
        both = c.num_kv_heads * (c.head_dim + c.value_head_dim)
        branches = length // both
        keys = [c.num_kv_heads * c.head_dim] * branches
        return keys + [c.num_kv_heads * c.value_head_dim] * branches
    if name.endswith(_GATES):
        return [c.num_heads] * 3
    return [length]


def _check(function, parameters, config, group):
    if not isinstance(config, NSAConfig):
        fail_type(function, "config", "an NSAConfig", config)
    if not isinstance(group, WorkerGroup):
        fail_type(function, "tensor_group", "a WorkerGroup", group)
    if not isinstance(parameters, Mapping):
        fail_type(function, "parameters", "a dict of names and arrays", parameters)
    local_config(function, config, group.size)


def _array(value):
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


def _expected(name, axis, shape, config):
    """Length along the axis that a whole parameter has, where the configuration says it."""
    c = config
    if ".query." in f".{name}":
        return c.num_heads * c.head_dim
    if ".output." in f".{name}":
        return c.num_heads * c.value_head_dim
    if name.endswith(_GATES):
        return 3 * c.num_heads
    if ".key_value." in f".{name}":
        one = c.num_kv_heads * (c.head_dim + c.value_head_dim)
        return 3 * one if shape[axis] != one else one
    return c.num_kv_heads


def shard_parameters(parameters, config, tensor_group):
    """This worker's part of the parameters of whole layers.

    Checkpoints stay whole: any number of workers can read them.

    Args:
        parameters (dict[str, Union[Tensor, Parameter, numpy.ndarray]]): Those of
            `NativeSparseAttention` or `DenseAttention`, or of a model around such layers, by name.
            Parameters of other Cells stay as they are.
        config (NSAConfig): The whole configuration.
        tensor_group (WorkerGroup): The workers that share the heads.

    Returns:
        dict, with the same names.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the number of workers does not divide the key heads, or a parameter has not
            the size that `config` says.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> from mindspore_nsa import nn
        >>> config = nn.NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> layer = nn.NativeSparseAttention(config)
        >>> group = nn.parallel_groups().tensor
        >>> part = nn.shard_parameters(layer.parameters_dict(), config, group)
        >>> print(part["query.weight"].shape)
        (64, 64)
    """
    function = "shard_parameters"
    _check(function, parameters, config, tensor_group)
    size, rank = tensor_group.size, tensor_group.rank
    found = {}
    for name, value in parameters.items():
        axis = split_axis(name)
        if axis is None or size == 1:
            found[name] = value
            continue
        array, made = _array(value)
        expected = _expected(name, axis, array.shape, config)
        if array.shape[axis] != expected:
            raise ValueError(
                f"{function}: {name} must have {expected} values along axis {axis}, as the whole "
                f"config says, got shape {shown(array.shape)}"
            )
        blocks = np.split(array, np.cumsum(_blocks(name, expected, config, size))[:-1], axis)
        mine = [np.split(block, size, axis)[rank] for block in blocks]
        found[name] = made(np.concatenate(mine, axis))
    return found


def unshard_parameters(parts, config, tensor_group):
    """Parameters of whole layers, from the parts of all workers of a tensor group.

    Args:
        parts (Sequence[dict]): What every worker has, in order.
        config (NSAConfig): The whole configuration.
        tensor_group (WorkerGroup): The workers that share the heads.

    Returns:
        dict, with the same names. What is not split is the first worker's.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there are not as many parts as workers, or their names differ.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> from mindspore_nsa import nn
        >>> config = nn.NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> parts = [nn.DenseAttention(config).parameters_dict()]
        >>> whole = nn.unshard_parameters(parts, config, nn.parallel_groups().tensor)
        >>> print(whole["output.weight"].shape)
        (64, 64)
    """
    function = "unshard_parameters"
    if not isinstance(parts, (tuple, list)) or not parts:
        fail_type(function, "parts", "a tuple or list of dicts, one of each worker", parts)
    for part in parts:
        _check(function, part, config, tensor_group)
    size = tensor_group.size
    if len(parts) != size:
        raise ValueError(f"{function}: parts must be those of {size} workers, got {len(parts)}")
    found = {}
    for name, value in parts[0].items():
        missing = [i for i, part in enumerate(parts) if name not in part]
        if missing:
            raise ValueError(f"{function}: {name} is missing in the part of worker {missing[0]}")
        axis = split_axis(name)
        if axis is None or size == 1:
            found[name] = value
            continue
        arrays = [_array(part[name])[0] for part in parts]
        lengths = [n // size for n in _blocks(name, arrays[0].shape[axis] * size, config, size)]
        split = [np.split(array, np.cumsum(lengths)[:-1], axis) for array in arrays]
        whole = [np.concatenate(blocks, axis) for blocks in zip(*split)]
        found[name] = _array(value)[1](np.concatenate(whole, axis))
    return found


def gather_parameters(parameters, config, tensor_group):
    """Parameters of whole layers on all workers of a tensor group: for a checkpoint.

    All workers of the group must call it.

    Args:
        parameters (dict[str, Union[Tensor, Parameter, numpy.ndarray]]): This worker's part, as
            `shard_parameters` makes it. What an optimizer keeps of a parameter may be among them,
            under a name that ends with the parameter's.
        config (NSAConfig): The whole configuration.
        tensor_group (WorkerGroup): The workers that share the heads.

    Returns:
        dict, with the same names.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the number of workers does not divide the key heads, or if names, shapes or
            dtypes differ between the workers.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> from mindspore_nsa import nn
        >>> config = nn.NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> layer = nn.NativeSparseAttention(config)
        >>> group = nn.parallel_groups().tensor
        >>> whole = nn.gather_parameters(layer.parameters_dict(), config, group)
        >>> print(whole["query.weight"].shape)
        (64, 64)
    """
    function = "gather_parameters"
    _check(function, parameters, config, tensor_group)
    described = [(n, list(p.shape), str(p.dtype)) for n, p in parameters.items()]
    agree(function, "parameters", described, tensor_group)
    gather = Gather(tensor_group)
    parts = [dict(parameters) for _ in range(tensor_group.size)]
    made = {}
    for name, value in parameters.items():
        if split_axis(name) is None or tensor_group.size == 1:
            continue
        array, made[name] = _array(value)
        # Not called as a Cell, which would compile a graph for every shape.
        rows = gather.construct(Tensor(array[None])).asnumpy()
        for part, row in zip(parts, rows):
            part[name] = row
    whole = unshard_parameters(parts, config, tensor_group)
    return {n: made[n](value) if n in made else value for n, value in whole.items()}
