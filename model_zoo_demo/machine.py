"""MindSpore's mode, device and workers, and the kernels of the operators."""

import os

import mindspore as ms
from mindspore.communication import init

import mindspore_nsa
from mindspore_nsa._config import requested_target, resolve_target
from mindspore_nsa.nn import parallel_groups

from .errors import InputError


def add_mode(parser):
    """The option for set_up()'s mode."""
    parser.add_argument(
        "--mode",
        choices=("graph", "pynative"),
        default="graph",
        help="of MindSpore; default: graph",
    )


def set_up(mode, device="", target=None, context=1, tensor=1):
    """Choose mode, device and kernels and, under msrun, join the others: the `ParallelGroups`.

    Args:
        mode (str): "graph" or "pynative".
        device (str): MindSpore's device_target; "" leaves it to MindSpore.
        target (str): Kernels of the operators; None leaves them to the device.
        context (int): Workers that share each text.
        tensor (int): Workers that share the heads.
    """
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    if device:
        try:
            ms.set_context(device_target=device)
        except (RuntimeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"config: device {device} cannot be used: {reason}") from None
    if target is not None:
        try:
            resolve_target(target, ms.get_context("device_target"))
        except RuntimeError as error:
            raise InputError(f"--target: {error}") from None
        mindspore_nsa.set_target(target)
    if "MS_WORKER_NUM" in os.environ:
        init()
    try:
        return parallel_groups(context, tensor)
    except ValueError as error:
        raise InputError(f"--context, --tensor: {error}") from None


def reads_caches(model):
    """Whether the kernels in use read caches of the model's dtype; Ascend's read no float32."""
    target = resolve_target(requested_target(), ms.get_context("device_target"))
    return target == "cpu" or all(layer.dtype != ms.float32 for layer in model.layers)
