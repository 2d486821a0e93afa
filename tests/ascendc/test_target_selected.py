"""nsa_selected_attention on target ascend_twin in MindSpore, and its Custom on target ascend."""

import importlib

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

import mindspore_nsa
from tests.ops.calls import context_mode, in_mode

from .conftest import handed
from .test_target_flash import STEP, draw

module = importlib.import_module("mindspore_nsa.ops.nsa_selected_attention")
N1, N2, D, DV, COUNT, BLOCK = 4, 2, 32, 16, 3, 16
ENDS_Q, ENDS_KV = (20, 20, 66), (30, 41, 97)
INDICES = Tensor(np.random.default_rng(2).integers(-1, 4, (66, N2, COUNT)).astype(np.int32))
FORMS = {
    "plain": {},
    "causal": {"causal": True, "q_offset": (0, 7, 3)},
    "mask": {"atten_mask": Tensor(np.triu(np.ones((46, 56), np.uint8), 1))},
}


def operands(dtype):
    return (
        draw(66, N1, D, dtype=dtype),
        draw(97, N2, D, dtype=dtype, seed=1),
        draw(97, N2, DV, dtype=dtype, seed=2),
    )


def call_of(name):
    def call(query, key, value):
        return mindspore_nsa.nsa_selected_attention(
            *(query, key, value, INDICES, 0.25, N1, BLOCK, COUNT),
            actual_seq_qlen=ENDS_Q,
            actual_seq_kvlen=ENDS_KV,
            **FORMS[name],
        )

    return call


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=str)
def test_same_as_cpu(name, dtype):
    """Every output within rounding of the CPU's; graphs give the bits of PyNative mode."""
    call, inputs = call_of(name), operands(dtype)
    expected = call(*inputs)
    with mindspore_nsa.target("ascend_twin"):
        eager = call(*inputs)
        with context_mode("graph"):
            compiled = in_mode("graph", call)(*inputs)
    for a, b in zip(eager, compiled, strict=True):
        assert np.array_equal(*(x.astype(ms.float32).asnumpy() for x in (a, b)))
    for step, ours, theirs in zip((STEP[dtype], 1e-5, 1e-5), eager, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        ours, theirs = (x.astype(ms.float32).asnumpy() for x in (ours, theirs))
        assert np.abs(ours - theirs).max() <= 2 * step * np.abs(theirs).max()


@pytest.mark.parametrize("mode", ["pynative", "graph", "jit_O0"])
@pytest.mark.parametrize("name", ["plain", "mask"])
def test_gradient(mode, name):
    """The gradient is the CPU's within rounding."""
    call, inputs = call_of(name), operands(ms.float16)

    def total(query, key, value):
        return call(query, key, value)[0].sum()

    def gradient(query, key, value):
        return ms.grad(total, (0, 1, 2))(query, key, value)

    expected = gradient(*inputs)
    with mindspore_nsa.target("ascend_twin"), context_mode(mode):
        ours = in_mode(mode, gradient)(*inputs)
    for a, b in zip(ours, expected, strict=True):
        a, b = a.asnumpy(), b.asnumpy()
        assert np.abs(a - b).max() <= 2.0**-9 * np.abs(b).max()


def test_float32_has_no_kernel():
    with mindspore_nsa.target("ascend_twin"):
        with pytest.raises(TypeError, match="must be of dtype float16 or bfloat16 on Ascend"):
            call_of("plain")(*operands(ms.float32))


class Net(nn.Cell):
    """A graph on the operator."""

    def __init__(self, operator, q_offset):
        super().__init__()
        self.operator, self.q_offset = operator, q_offset

    def construct(self, q, k, v, indices):
        return self.operator(q, k, v, indices, ENDS_Q, ENDS_KV, self.q_offset)


@pytest.mark.parametrize("name", FORMS)
def test_custom_on_ascend(ascend, monkeypatch, tmp_path, name):  # noqa: F811
    """A causal call has sparseMode 2; lists and numbers are in the places of the aclnn function."""
    module._operator.cache_clear()
    module._plan_nsa_selected_attention.forget()
    query, key, value = operands(ms.float16)
    options = {"atten_mask": None, "causal": False, "q_offset": None, **FORMS[name]}
    plan = module._plan_nsa_selected_attention(
        *(query, key, value, INDICES, 0.25, N1, BLOCK, COUNT, options["atten_mask"]),
        *(ENDS_Q, ENDS_KV, options["causal"], options["q_offset"], True),
    )
    at, outputs = handed("NsaSelectedAttention", plan[0], plan[1])
    assert outputs == (2, 0, 1)
    assert [at[x] for x in ("query", "key", "value", "topkIndices")] == [
        *((0, None), (1, None), (2, None), (3, None))
    ]
    assert at["attenMaskOptional"] == (-1, None)
    assert at["actualSeqQLenOptional"] == (-1, ENDS_Q)
    assert at["actualSeqKvLenOptional"] == (-1, ENDS_KV)
    assert at["qOffsetOptional"] == (-1, options["q_offset"])
    assert at["sparseMode"] == (-1, 0 if name == "plain" else 2)
    assert at["selectedBlockSize"] == (-1, BLOCK) and at["selectedBlockCount"] == (-1, COUNT)
    monkeypatch.undo()
    file = tmp_path / "net.mindir"
    net = Net(plan[0], options["q_offset"])
    ms.export(net, query, key, value, INDICES, file_name=str(file), file_format="MINDIR")
    assert b"aclnnMsnsaSelectedAttention" in file.read_bytes()
    module._operator.cache_clear()
    module._plan_nsa_selected_attention.forget()
