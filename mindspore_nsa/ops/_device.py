"""Which of MindSpore's devices calls run on."""

from typing import Any

from mindspore._c_expression import MSContext, ms_ctx_param

_context = MSContext.get_instance()


class _Last:
    """The device of the call before."""

    name = "CPU"


def device() -> Any:
    """MindSpore's device_target, which a process may change from CPU to Ascend.

    Under ``mindspore.DeviceCtx("meta")``, where models are built without memory, it is the one of
    the call before. `mindspore.context.get_context` takes as long as a small operator.
    """
    found = _context.get_param(ms_ctx_param.device_target)
    if found not in ("CPU", "Ascend"):
        return _Last.name
    _Last.name = found
    return found
