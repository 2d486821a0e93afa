"""Target ascend without a device: the Custom is made with its callback, its graph exported."""

import ctypes
import importlib
import json
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa._config import resolve_target
from mindspore_nsa.ops import _ascend, _plan

from .conftest import custom_of, handed

module = importlib.import_module("mindspore_nsa.ops.nsa_compress")
SEQ = (40, 96)


def plan(**changes):
    """The aclnn call that a call becomes."""
    given = {
        "input": Tensor(np.zeros((96, 4, 32), np.float16)),
        "weight": Tensor(np.zeros((32, 4), np.float16)),
        "compress_block_size": 32,
        "compress_stride": 16,
        "actual_seq_len": SEQ,
        "num_windows": None,
        **changes,
    }
    return module._plan_nsa_compress(*given.values())


def test_custom_is_made_with_its_callback(ascend):
    operator, c = plan()
    arguments, outputs = handed("NsaCompress", operator, c)
    assert outputs == 0
    tensors, values = (0, None), [(-1, value) for value in (SEQ, "TND", 32, 16, 0)]
    assert list(arguments.values()) == [tensors, (1, None), *values]
    types = custom_of(operator).custom_inputs_type
    assert list(types) == [
        *("aclTensor*", "aclTensor*", "aclIntArray*", "char*"),
        *("int64_t", "int64_t", "int64_t", "aclTensor*"),
    ]
    path, _, name = custom_of(operator).custom_callback_func.partition(":")
    assert name == "aclnnMsnsaCompress" and path == _native.__file__
    # Nothing was compiled, and nothing written.
    assert not ms.ops.Custom.compiled_bin and not Path("custom_kernel_meta").exists()
    assert ctypes.CDLL(path).aclnnMsnsaCompressGetWorkSpaceSize


def test_gradient_is_made_with_it(ascend, monkeypatch):
    made = []
    real = _ascend.AclnnCustom.__init__

    def init(self, op, *rest):
        real(self, op, *rest)
        made.append((op, list(self.custom_inputs_type)))

    monkeypatch.setattr(_ascend.AclnnCustom, "__init__", init)
    plan()
    assert [op for op, _ in made] == ["NsaCompressGrad", "NsaCompress"]
    assert made[0][1] == [
        *("aclTensor*", "aclTensor*", "aclTensor*", "aclIntArray*"),
        *("int64_t", "int64_t", "int64_t", "char*", "aclTensor*", "aclTensor*"),
    ]


STALE = {
    "has 7 arguments, not 8": ("    int64_t actSeqLenType,\n", ""),
    "has aclTensor* weight as argument 1, not aclTensor* input": (
        "    const aclTensor* input,\n    const aclTensor* weight,\n",
        "    const aclTensor* weight,\n    const aclTensor* input,\n",
    ),
    "has double compressStride as argument 6, not int64_t compressStride": (
        "int64_t compressStride",
        "double compressStride",
    ),
}


@pytest.mark.parametrize("said", STALE)
def test_a_stale_package_is_an_error(ascend, cann, said):
    """Whose function has other arguments, or as many in another order or of other types."""
    header = cann / "op_api" / "include" / "aclnn_msnsa_compress.h"
    text = header.read_text()
    header.write_text(text.replace(*STALE[said]))
    assert header.read_text() != text
    with pytest.raises(RuntimeError) as error:
        plan()
    expected = f"is of another version of mindspore_nsa: its aclnnMsnsaCompress {said}"
    assert expected in str(error.value) and "make ascend" in str(error.value)


def test_a_package_of_other_dtypes_is_an_error(ascend, cann):
    """CANN describes a package's operators; names are written in another way there."""
    folder = cann / "op_impl" / "ai_core" / "tbe" / "config" / "ascend910b"
    folder.mkdir(parents=True)
    described = {f"input{i}": {"name": n, "dtype": "float16, bfloat16"} for i, n in ((0, "input"),)}
    described["input2"] = {"name": "act_seq_len", "dtype": "int64,int64"}
    described["output0"] = {"name": "out", "dtype": "float16,bfloat16"}
    file = folder / "aic-ascend910b-ops-info.json"
    file.write_text(json.dumps({"MsnsaCompress": described, "Other": {}}))
    assert _ascend._difference(cann, "NsaCompress") is None
    described["output0"]["dtype"] = "float16,float"
    file.write_text(json.dumps({"MsnsaCompress": described}))
    with pytest.raises(RuntimeError, match="takes float16, float32 for out, not float16, bfloat16"):
        plan()


@pytest.mark.parametrize("version", ["2.7.1", "2.8.0"])
def test_an_older_mindspore_is_an_error(ascend, monkeypatch, version):
    monkeypatch.setattr(ms, "__version__", version)
    with pytest.raises(RuntimeError, match=f"needs MindSpore 2.9 or later, got {version}"):
        plan()


def test_limits_and_lists(ascend):
    with pytest.raises(TypeError, match="must be of dtype float16 or bfloat16 on Ascend"):
        plan(input=Tensor(np.zeros((96, 4, 32), np.float32)), weight=Tensor(np.zeros((32, 4))))
    with pytest.raises(ValueError, match="D of input must be a multiple of 16 on Ascend, got 40"):
        plan(input=Tensor(np.zeros((96, 4, 40), np.float16)))
    with pytest.raises(ValueError, match="no Ascend kernel"):
        mindspore_nsa.dropout_mask(0.5, 16, 1)


def test_list_that_is_a_tensor(ascend, monkeypatch):
    """The host reads its values in PyNative mode, and in a graph each time that this runs."""
    monkeypatch.setattr(_plan, "graph_compiled", lambda target: None)
    operator, c = plan(actual_seq_len=Tensor(SEQ, ms.int32))
    arguments, _ = handed("NsaCompress", operator, c)
    assert list(arguments.values())[2] == (-1, SEQ)
    assert "input_is_dynamic_shape" not in custom_of(operator).attrs
    given = ((ms.float16, (96, 4, 32), None), (ms.float16, (32, 4), None))
    x, weight, late = (_plan.TensorSpec(spec) for spec in (*given, (ms.int32, (2,), None)))
    operator, c = module._plan_nsa_compress._planned((x, weight, 32, 16, late, None), True)
    assert c.actual_seq_len is None and custom_of(operator).attrs["input_is_dynamic_shape"]


class Net(nn.Cell):
    """A graph on the operator."""

    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def construct(self, x, w):
        return self.operator(x, w, SEQ)


class Gradient(nn.Cell):
    """Its gradient."""

    def __init__(self, net):
        super().__init__()
        self.gradient = ms.ops.GradOperation(get_all=True)
        self.net = net

    def construct(self, x, w):
        return self.gradient(self.net)(x, w)


@pytest.mark.parametrize("gradient", [False, True])
def test_graph(ascend, monkeypatch, tmp_path, gradient):
    """The front end accepts the operator and its bprop; shapes and dtypes come from C++."""
    operator, _ = plan()
    monkeypatch.undo()
    net = Net(operator)
    x = Tensor(np.zeros((96, 4, 32), np.float16))
    w = Tensor(np.zeros((32, 4), np.float16))
    file = tmp_path / "net.mindir"
    ms.export(Gradient(net) if gradient else net, x, w, file_name=str(file), file_format="MINDIR")
    text = file.read_bytes()
    assert b"aclnnMsnsaCompress" in text
    assert (b"aclnnMsnsaCompressGrad" in text) == gradient


def test_target_needs_the_device():
    assert resolve_target(None, "Ascend") == "ascend"
    with pytest.raises(RuntimeError, match="target 'ascend' needs device_target Ascend"):
        resolve_target("ascend", "CPU")
    with pytest.raises(RuntimeError, match="target 'ascend_twin' needs device_target CPU"):
        resolve_target("ascend_twin", "Ascend")
