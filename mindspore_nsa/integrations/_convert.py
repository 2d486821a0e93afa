"""Parts that the frameworks' adapters share."""

import importlib
from importlib import metadata

from ..nn import DenseAttention, NativeSparseAttention
from ..nn.conversion import load_dense, sizes_checked
from ..ops._plan import fail_type

ATTENTIONS = ("nsa", "dense")


def version_of(package):
    """The installed version, or what stands for it in messages."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def framework(function, package, module, versions):
    """A module of a framework, or an ImportError that names package and version."""
    try:
        return importlib.import_module(f"{package}.{module}" if module else package)
    except ImportError as error:
        raise ImportError(
            f"{function} needs {package} {versions}, got {version_of(package)}: {error}"
        ) from error


def check_conversion(function, attention, sizes):
    """The errors of arguments that every conversion has."""
    if not isinstance(attention, str):
        fail_type(function, "attention", "a str", attention)
    if attention not in ATTENTIONS:
        raise ValueError(
            f"{function}: attention must be one of {', '.join(ATTENTIONS)}, got {attention!r}"
        )
    sizes_checked(function, sizes)


def chosen_layers(function, layers, count):
    """Numbers of the layers to convert, ascending."""
    if layers is None:
        return list(range(count))
    if isinstance(layers, (str, int)) or not hasattr(layers, "__iter__"):
        fail_type(function, "layers", "None or ints, numbers of layers", layers)
    layers = list(layers)
    for number in layers:
        if isinstance(number, bool) or not isinstance(number, int):
            fail_type(function, "layers", "None or ints, numbers of layers", number)
        if not 0 <= number < count:
            raise ValueError(f"{function}: layers must be in [0, {count}), got {number}")
    return sorted(set(layers))


def refuse(function, what, got):
    """The error of a model that NSA here does not stand for."""
    raise ValueError(f"{function}: a model with {what} cannot be converted, got {got}")


def make_layer(function, config, attention, weights):
    """A layer of a kind, with the weights of a dense one where they are given."""
    layer = (NativeSparseAttention if attention == "nsa" else DenseAttention)(config)
    if weights is not None:
        load_dense(function, layer, weights)
        if attention == "nsa" and config.gating == "residual":
            layer.gates.close()
    return layer


def name_parameters(network):
    """Give every parameter the name of its place, which optimizers and checkpoints go by."""
    for name, parameter in network.parameters_and_names():
        parameter.name = name
