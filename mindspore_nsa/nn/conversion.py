"""From a dense layer to a sparse one.

What the new layer takes from the dense one, in the order of this file: sizes (`_SAME`), its workers
(`made_with`), weights, and what `take_state` lists: names, dtypes and flags of parameters, marks of
mixed precision, modes, recomputation. What it cannot take (`refuse_attached`) is an error.
"""

from dataclasses import fields, replace
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, nn

from ..ops._plan import fail_type
from .branch_heads import BranchHeads
from .branches import BranchAttention, Branches
from .cache_step import CacheStep
from .config import NSAConfig
from .norm import HeadNorm
from .parallel.branches import ShardBranches, ShardDense
from .parallel.text import SharedText
from .parts import own_methods, plain, untouched
from .precision import Dropout, Projection
from .projections import Projections
from .rotary import RotaryAngles, Rotate
from .text import WholeText

# A layer and the dense one that it is made from agree in these fields.
_SAME = (
    *("hidden_size", "num_heads", "num_kv_heads", "head_dim", "value_head_dim"),
    *("rope_theta", "rope_pairs", "rope_scaling", "qk_norm", "qk_norm_eps", "has_bias"),
)


def converted_config(function: str, dense: Any, config: NSAConfig | None) -> NSAConfig:
    """The configuration of the new layer, or the error of one that does not fit the dense layer."""
    if config is None:
        return replace(dense.whole_config, gating="residual")
    if not isinstance(config, NSAConfig):
        fail_type(function, "config", "an NSAConfig or None", config)
    others = [name for name in _SAME if getattr(config, name) != getattr(dense.whole_config, name)]
    if others:
        ours, its = (
            ", ".join(f"{name} {getattr(c, name)}" for name in others)
            for c in (dense.whole_config, config)
        )
        raise ValueError(f"{function}: config must have the dense layer's {ours}, got {its}")
    return config


def dense_weights(dense: Any) -> dict[Any, Any]:
    """The parameters of a DenseAttention by name, without that of a network around."""
    return {
        f"{name}.{kind}": parameter
        for name, cell in dense.name_cells().items()
        for kind in ("weight", "bias")
        if (parameter := getattr(cell, kind, None)) is not None
    }


def _values(function: str, name: str, given: Any, shape: Any) -> Any:
    if not isinstance(given, (Tensor, np.ndarray)):
        fail_type(function, f"weights[{name!r}]", "a Tensor or an array", given)
    if isinstance(given, Tensor):
        given = given.astype(mindspore.float32).asnumpy()
    if given.shape != shape:
        raise ValueError(
            f"{function}: weights[{name!r}] must be of shape {shape}, got {given.shape}"
        )
    return given


def _rows_of_every_set(config: NSAConfig, values: Any, sets: Any) -> Any:
    """Rows of one set of keys, then of values, as so many of keys, then of values."""
    width = config.num_kv_heads * config.head_dim
    return np.concatenate([*[values[:width]] * sets, *[values[width:]] * sets])


def load_dense(function: str, layer: Any, weights: Any) -> None:
    """Fill a layer's projections and norms, every branch with the keys and values of dense ones.

    `weights` have the names and shapes of those of a DenseAttention; biases may be left out.
    """
    config = layer.config
    sets = 3 if layer.sparse and not config.shared_kv else 1
    targets = dense_weights(layer)
    names = [
        *("query.weight", "key_value.weight", "output.weight"),
        *(("query_norm.weight", "key_norm.weight") if config.qk_norm else ()),
        *(("query.bias", "key_value.bias", "output.bias") if config.has_bias else ()),
    ]
    unknown = sorted(set(weights) - set(names))
    if unknown:
        raise ValueError(
            f"{function}: weights must be those of a dense layer of this config, "
            f"{', '.join(names)}, got {', '.join(unknown)}"
        )
    missing = [name for name in names if name not in weights and not name.endswith(".bias")]
    if missing:
        raise ValueError(f"{function}: weights must hold {', '.join(missing)}")
    for name in names:
        target = targets[name]
        shape = target.shape
        if name.startswith("key_value"):
            shape = (shape[0] // sets, *shape[1:])
        elif name == "key_norm.weight":
            shape = (config.head_dim,)
        if name in weights:
            values = _values(function, name, weights[name], shape)
        else:
            values = np.zeros(shape, np.float32)
        if name.startswith("key_value"):
            values = _rows_of_every_set(config, values, sets)
        elif name == "key_norm.weight":
            values = np.broadcast_to(values, target.shape)
        target.set_data(Tensor(np.array(values, np.float32)).astype(target.dtype))


# Attributes of a Parameter beside its value, dtype and name.
_FLAGS = ("requires_grad", "layerwise_parallel", "parallel_optimizer", "comm_fusion")
# The parts that a dense layer and a new one have in common.
_PARTS = {
    "query": Projection,
    "key_value": Projection,
    "output": Projection,
    "query_norm": HeadNorm,
    "key_norm": HeadNorm,
    "dropout": Dropout,
}


# Methods that say what a dense layer computes, and its parts without parameters, which have others.
_COMPUTES = ("construct", "operand_dtype")
_COMPUTING_PARTS = {
    "text": (WholeText, SharedText),
    "projections": (Projections,),
    "branch_heads": (BranchHeads,),
    "branches": (Branches, ShardBranches, ShardDense),
    "attention": (BranchAttention,),
    "cache_step": (CacheStep,),
}


def refuse_attached(function: str, dense: Any, own: Any) -> None:
    """The error of what was put into a dense layer, or attached to it, and would be lost.

    Args:
        function (str): The caller, for the error.
        dense (DenseAttention): The layer.
        own (type): Its class where nothing is exchanged.
    """
    what = "remove or merge it before, and put it into the new layer"

    def fail(needed: Any, got: Any) -> None:
        raise ValueError(f"{function}: dense must have {needed}, got {got}: {what}")

    for name, kind in {**_PARTS, "angles": RotaryAngles, "rotate": Rotate}.items():
        cell = dense.name_cells().get(name)
        if cell is not None and type(cell) is not kind:
            fail(f"its own {kind.__name__} as {name}", type(cell).__name__)
        if cell is not None and not untouched(cell, kind) and cell._recompute_cell is None:
            fail("no hooks", f"some on {name}")
    if not plain(dense) and dense._recompute_cell is None:
        fail("no hooks", "some")
    for name, parameter in dense.parameters_and_names():
        if parameter.hooks():
            fail("no hooks", f"some on {name}")
    for name in _COMPUTES:
        if name in vars(dense) or getattr(type(dense), name) is not getattr(own, name):
            fail(f"the {name} of {own.__name__}", f"another one ({type(dense).__name__})")
    for name, kinds in _COMPUTING_PARTS.items():
        part = getattr(dense, name)
        if type(part) not in kinds or not own_methods(part):
            fail(f"the {name} of {own.__name__}", f"another one ({type(part).__name__})")
    _refuse_other_values(dense, fail)


def _refuse_other_values(dense: Any, fail: Any) -> None:
    """The error of values that were changed after the layer was made."""
    config = dense.config
    angles, made_with = dense.angles, (config.head_dim, config.rope_theta, config.rope_scaling)
    if angles.made_with != made_with:
        fail(
            "the angles of its config",
            f"those of (head_dim, rope_theta, rope_scaling) {angles.made_with}",
        )
    dropout = 0.0 if dense.dropout is None else dense.dropout.p
    if dropout != config.dropout:
        fail(f"the dropout of its config, {config.dropout}", dropout)
    factor = 1.0 if config.rope_scaling is None else config.rope_scaling.query_key_factor**2
    if dense.scale != dense.dim**-0.5 * factor:
        fail("the scale of its config", dense.scale)


def rename(cell: nn.Cell, names: Any) -> None:
    """Give the parameters of a Cell the names that a dict has for theirs within it."""
    for name, parameter in cell.parameters_and_names():
        parameter.name = names[name]


def _take_names(layer: Any, dense: Any) -> None:
    """The dense layer's names; what only the new one has gets the same prefix."""
    theirs = {name: parameter.name for name, parameter in dense.parameters_and_names()}
    place = next(
        (full[: -len(name)] for name, full in theirs.items() if f".{full}".endswith(f".{name}")), ""
    )
    names = {n: theirs.get(n, place + n) for n, _ in layer.parameters_and_names()}
    rename(layer, names)
    if place:
        layer.taken_names = place, names


def take_state(layer: Any, dense: Any, dtypes: bool) -> None:
    """Give a layer the modes of the one in whose place it comes, besides weights.

    Args:
        layer (AttentionLayer): The new one.
        dense (DenseAttention): The old one.
        dtypes (bool): Whether parameters take the dtypes, too.
    """
    _take_names(layer, dense)
    new = dict(layer.parameters_and_names())
    for name, old in dense.parameters_and_names():
        if dtypes:
            new[name].set_dtype(old.dtype)
        for flag in _FLAGS:
            setattr(new[name], flag, getattr(old, flag))
    take_modes(layer, dense)
    for name in _PARTS:
        cell, own = dense.name_cells().get(name), layer.name_cells().get(name)
        if cell is not None and cell.amp_dtype != dense.amp_dtype:
            _mark(own, cell.amp_dtype)
        if cell is not None and cell._recompute_cell is not None:
            own.recompute()


def _mark(cell: nn.Cell, dtype: Any) -> None:
    cell.amp_dtype = None
    if dtype is not None:
        cell.to_float(dtype)


def take_modes(new: Any, old: Any) -> None:
    """Training, gradients, mixed precision, recomputation, flags and settings of graphs of a Cell.

    For any Cell in the place of another.
    """
    new.set_train(old.training)
    new.set_grad(old.requires_grad)
    marked = getattr(old, "amp_dtype", None)
    if marked is not None:
        new.to_float(marked)
    flags = {n: v for n, v in old.get_flags().items() if n not in ("fp16", "bf16", "fp32")}
    if flags:
        new.add_flags(**flags)
    if old._recompute_cell is not None:
        new.recompute()
    elif old._has_config_recompute:  # of a Cell around, which tells those that it has then
        new._recompute(False, True)
    if old.get_inputs() is not None:
        new.set_inputs(*old.get_inputs())
    new._jit_config_dict = dict(old.jit_config_dict)
    for name in ("pipeline_stage", "pipeline_segment"):
        value = getattr(old, f"_{name}", None)
        if value is not None:
            setattr(new, name, value)


def check_weights(function: str, dense: Any, config: NSAConfig | None) -> NSAConfig:
    """The errors of what cannot be converted at all."""
    if not isinstance(dense, dict):
        fail_type(function, "dense", "a DenseAttention or a dict of its weights", dense)
    if not isinstance(config, NSAConfig):
        fail_type(function, "config", "an NSAConfig, where dense is a dict", config)
    return config


def sizes_checked(function: str, sizes: Any) -> Any:
    """Keyword arguments that are fields of NSAConfig, or a TypeError that names the others."""
    unknown = [name for name in sizes if name not in {field.name for field in fields(NSAConfig)}]
    if unknown:
        raise TypeError(f"{function}: unknown sizes {', '.join(unknown)}; see NSAConfig")
    return sizes
