import inspect
import shutil
import sys
from pathlib import Path

import mindspore as ms
import pytest

from mindspore_nsa import _config, twin
from mindspore_nsa.ops import _ascend
from mindspore_nsa.ops._custom import schema
from mindspore_nsa.ops._plan import Planner
from mindspore_nsa.ops.generated import ACLNN

# One test leaves an error inside a gradient for those that follow it.
from tests.ops.conftest import pynative_mode  # noqa: F401


@pytest.fixture(scope="session")
def runner():
    """The kernels on the twin."""
    from .builds import runner

    return runner()


@pytest.fixture(scope="session")
def cache_runner():
    """NsaCompressWithCache, likewise."""
    from .builds import cache_runner

    return cache_runner()


@pytest.fixture(scope="session")
def selected_infer_runner():
    """NsaSelectedAttentionInfer, likewise."""
    from .builds import selected_infer_runner

    return selected_infer_runner()


@pytest.fixture(scope="session")
def compress_infer_runner():
    """NsaCompressAttentionInfer, likewise."""
    from .builds import compress_infer_runner

    return compress_infer_runner()


@pytest.fixture(scope="session")
def decode_runner():
    """NsaDecode, likewise."""
    from .builds import decode_runner

    return decode_runner()


@pytest.fixture(scope="session")
def cache_step_runner():
    """NsaCacheStep, likewise."""
    from .builds import cache_step_runner

    return cache_step_runner()


@pytest.fixture(scope="session")
def flash_runner():
    """FlashAttentionScore, likewise."""
    from .builds import flash_runner

    return flash_runner()


@pytest.fixture(scope="session")
def selected_runner():
    """NsaSelectedAttention and its gradient, likewise."""
    from .builds import selected_runner

    return selected_runner()


@pytest.fixture(scope="session")
def compress_attention_runner():
    """NsaCompressAttention, likewise."""
    from .builds import compress_attention_runner

    return compress_attention_runner()


@pytest.fixture
def cann(tmp_path, monkeypatch):
    """A folder that has of CANN what MindSpore reads: headers, and an operator package."""
    root, names, ours = twin.include_dirs()
    shutil.copytree(names, tmp_path / "include")
    shutil.copytree(Path(root) / "twin", tmp_path / "include" / "twin")
    package = tmp_path / "vendors" / "mindspore_nsa"
    shutil.copytree(Path(ours) / "aclnnop", package / "op_api" / "include")
    (tmp_path / "opp").mkdir()
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "opp"))
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(package))
    monkeypatch.setenv("MS_COMPILER_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return package


@pytest.fixture
def ascend(cann, monkeypatch):
    """MindSpore's Python side takes the machine for an Ascend one."""
    real = ms.context.get_context

    def get_context(key):
        return "Ascend" if key == "device_target" else real(key)

    monkeypatch.setattr(ms.context, "get_context", get_context)
    # The one that the device implies, whatever was chosen before in this process.
    monkeypatch.setattr(_config._State, "name", None)
    monkeypatch.setattr(ms.ops.Custom, "compiled_bin", [])
    forget()
    yield
    forget()


def forget():
    """Forget plans and operators that were made for another folder."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mindspore_nsa.ops."):
            for value in vars(module).values():
                if isinstance(value, Planner):
                    value.forget()
                elif hasattr(value, "cache_clear"):
                    value.cache_clear()


def custom_of(call):
    """The Custom of an aclnn function that a plan's operator calls."""
    custom = inspect.getclosurevars(call).nonlocals["custom"]
    assert type(custom) is _ascend.AclnnCustom
    return custom


def handed(op, call, c):
    """Arguments of the aclnn function of a plan's operator, and which of the outputs come back.

    By the names of the arguments (place of an input, None) or (-1, value); `c` are the plan's
    stand-ins, among them the values of lists.
    """
    custom_of(call)
    stand_ins = [getattr(c, spec["name"], None) for spec in schema(op)["inputs"]]
    inputs = [x if type(x) is tuple else (place, None) for place, x in enumerate(stand_ins)]
    places = [x for x, stand_in in zip(inputs, stand_ins) if x is not stand_in]
    arguments = []

    def function(*values):
        arguments.extend(x if any(x is i for i in places) else (-1, x) for x in values)
        outputs = tuple(range(len(_ascend._parameters(op, "output"))))
        return outputs if len(outputs) > 1 else outputs[0]

    _, forward, _ = ACLNN[op]
    outputs = forward(function, inspect.getclosurevars(call).nonlocals["c"])(*inputs)
    names = [parameter["name"] for parameter in _ascend._parameters(op, "input")]
    return dict(zip(names, arguments, strict=True)), outputs
