"""From a dense layer to a sparse one."""

from dataclasses import fields, replace

import mindspore
import numpy as np
from mindspore import Tensor

from ..ops._plan import fail_type
from .config import NSAConfig

# What a layer and the dense one that it is made from have in common.
_SAME = (
    *("hidden_size", "num_heads", "num_kv_heads", "head_dim", "value_head_dim"),
    *("rope_theta", "rope_pairs", "rope_scaling", "qk_norm", "qk_norm_eps", "has_bias"),
)


def converted_config(function, dense, config):
    """The configuration of the new layer, or the error of one that does not fit the dense layer."""
    if config is None:
        return replace(dense.config, gating="residual")
    if not isinstance(config, NSAConfig):
        fail_type(function, "config", "an NSAConfig or None", config)
    others = [name for name in _SAME if getattr(config, name) != getattr(dense.config, name)]
    if others:
        ours, its = (
            ", ".join(f"{name} {getattr(c, name)}" for name in others)
            for c in (dense.config, config)
        )
        raise ValueError(f"{function}: config must have the dense layer's {ours}, got {its}")
    return config


def dense_weights(dense):
    """The parameters of a DenseAttention by name, without that of a network around."""
    return {
        f"{name}.{kind}": parameter
        for name, cell in dense.name_cells().items()
        for kind in ("weight", "bias")
        if (parameter := getattr(cell, kind, None)) is not None
    }


def _values(function, name, given, shape):
    if not isinstance(given, (Tensor, np.ndarray)):
        fail_type(function, f"weights[{name!r}]", "a Tensor or an array", given)
    if isinstance(given, Tensor):
        given = given.astype(mindspore.float32).asnumpy()
    if given.shape != shape:
        raise ValueError(
            f"{function}: weights[{name!r}] must be of shape {shape}, got {given.shape}"
        )
    return given


def _rows_of_every_set(config, values, sets):
    """Rows of one set of keys, then of values, as so many of keys, then of values."""
    width = config.num_kv_heads * config.head_dim
    return np.concatenate([*[values[:width]] * sets, *[values[width:]] * sets])


def load_dense(function, layer, weights):
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


def check_weights(function, dense, config):
    """The errors of what cannot be converted at all."""
    if not isinstance(dense, dict):
        fail_type(function, "dense", "a DenseAttention or a dict of its weights", dense)
    if not isinstance(config, NSAConfig):
        fail_type(function, "config", "an NSAConfig, where dense is a dict", config)
    return config


def sizes_checked(function, sizes):
    """Keyword arguments that are fields of NSAConfig, or a TypeError that names the others."""
    unknown = [name for name in sizes if name not in {field.name for field in fields(NSAConfig)}]
    if unknown:
        raise TypeError(f"{function}: unknown sizes {', '.join(unknown)}; see NSAConfig")
    return sizes
