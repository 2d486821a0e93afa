"""MindSpore's mode, device and workers."""

import os

import mindspore as ms
from mindspore.communication import get_group_size, get_rank, init

from .errors import InputError


def set_up(mode, device=""):
    """Choose mode and device and, under msrun, join the others; returns (rank, workers)."""
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    if device:
        try:
            ms.set_context(device_target=device)
        except (RuntimeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"config: device {device} cannot be used: {reason}") from None
    if "MS_WORKER_NUM" not in os.environ:
        return 0, 1
    init()
    return get_rank(), get_group_size()
