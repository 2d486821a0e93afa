"""nsa_compress_attention on target ascend_twin in MindSpore, and its Custom on target ascend."""

import importlib
import inspect

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

import mindspore_nsa
from tests.ops.calls import context_mode, in_mode

from .conftest import handed
from .test_target_flash import STEP, draw

module = importlib.import_module("mindspore_nsa.ops.nsa_compress_attention")
N1, N2, D, DV = 4, 2, 32, 16
L, S, SELECT, COUNT = 32, 16, 64, 3
ENDS, CMP_ENDS = (90, 90, 260), (4, 4, 13)
HALF = (ms.float16, ms.bfloat16)


def operands(dtype):
    return (
        draw(ENDS[-1], N1, D, dtype=dtype),
        draw(CMP_ENDS[-1], N2, D, dtype=dtype, seed=1),
        draw(CMP_ENDS[-1], N2, DV, dtype=dtype, seed=2),
    )


def _mask(rows, columns, seed):
    return Tensor(np.random.default_rng(seed).random((rows, columns)) < 0.3)


# Optional tensors, lists and numbers at every place of the aclnn function.
FORMS = {
    "causal": {"causal": True, "init_blocks": 1, "local_blocks": 1, "importance": "overlap"},
    "offset": {"causal": True, "q_offset": (5, 0, 70), "actual_cmp_seq_kvlen": CMP_ENDS},
    "masks": {
        "actual_cmp_seq_kvlen": CMP_ENDS,
        "atten_mask": _mask(170, 9, 3),
        "topk_mask": _mask(171, 5, 4),
    },
}


def form(name, dtype):
    def call(query, key, value):
        return mindspore_nsa.nsa_compress_attention(
            *(query, key, value, 0.25, N1, L, S, SELECT, COUNT),
            actual_seq_qlen=ENDS,
            **FORMS[name],
        )

    return call, operands(dtype)


def numpy(x):
    return x.asnumpy() if x.dtype == ms.int32 else x.astype(ms.float32).asnumpy()


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_same_as_cpu(name, dtype):
    """Outputs within rounding of the CPU's, the same blocks; graphs give PyNative mode's bits."""
    call, inputs = form(name, dtype)
    expected = call(*inputs)
    with mindspore_nsa.target("ascend_twin"):
        eager = call(*inputs)
        with context_mode("graph"):
            compiled = in_mode("graph", call)(*inputs)
    for a, b in zip(eager, compiled, strict=True):
        assert np.array_equal(numpy(a), numpy(b))
    for step, ours, theirs in zip((STEP[dtype], 0, 1e-5, 1e-5), eager, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        ours, theirs = numpy(ours), numpy(theirs)
        assert np.abs(ours - theirs).max() <= 2 * step * np.abs(theirs).max()


@pytest.mark.parametrize("mode", ["pynative", "graph", "jit_O0"])
@pytest.mark.parametrize("name", FORMS)
def test_gradient(name, mode):
    """FlashAttentionScoreGrad with the same mask: that of the CPU within rounding."""
    call, inputs = form(name, ms.float16)

    def total(query, key, value):
        return (call(query, key, value)[0].astype(ms.float32) ** 2).sum()

    def gradient(query, key, value):
        return ms.grad(total, (0, 1, 2))(query, key, value)

    expected = gradient(*inputs)
    with mindspore_nsa.target("ascend_twin"), context_mode(mode):
        ours = in_mode(mode, gradient)(*inputs)
    for a, b in zip(ours, expected, strict=True):
        a, b = numpy(a), numpy(b)
        assert np.abs(a - b).max() <= 2.0**-9 * np.abs(b).max()


def test_lists_as_tensors():
    """Values that change from step to step, as on the CPU."""
    query, key, value = operands(ms.float16)

    def call(ends, cmp_ends):
        return mindspore_nsa.nsa_compress_attention(
            *(query, key, value, 0.25, N1, L, S, SELECT, COUNT),
            actual_seq_qlen=ends,
            actual_cmp_seq_kvlen=cmp_ends,
            causal=True,
        )

    with mindspore_nsa.target("ascend_twin"):
        given = call(Tensor(ENDS, ms.int64), Tensor(CMP_ENDS, ms.int32))
        known = call(ENDS, CMP_ENDS)
    for a, b in zip(given, known, strict=True):
        assert np.array_equal(numpy(a), numpy(b))


def test_limits_and_dtypes_are_said():
    query, key, value = operands(ms.float32)
    with mindspore_nsa.target("ascend_twin"):
        with pytest.raises(TypeError, match="float16 or bfloat16 on Ascend, got float32"):
            form("causal", ms.float32)[0](query, key, value)
        query, key, value = (x[..., :8].astype(ms.float16) for x in (query, key, value))
        with pytest.raises(ValueError, match="D of query must be at least 16 on Ascend, got 8"):
            form("causal", ms.float16)[0](query, key, value)


class Net(nn.Cell):
    """A graph on the operator."""

    def __init__(self, operator, c):
        super().__init__()
        self.operator, self.q_offset = operator, c.q_offset
        self.ends = c.actual_seq_qlen, c.actual_cmp_seq_kvlen, c.actual_sel_seq_kvlen

    def construct(self, q, k, v, topk_mask, atten_mask):
        return self.operator(q, k, v, topk_mask, atten_mask, *self.ends, self.q_offset)


@pytest.mark.parametrize("name", FORMS)
def test_custom_on_ascend(ascend, monkeypatch, tmp_path, name):  # noqa: F811
    """Absent tensors are None in their places; outputs come in the operator's order."""
    options, inputs = FORMS[name], operands(ms.float16)
    given = {
        parameter.name: None if parameter.default is parameter.empty else parameter.default
        for parameter in inspect.signature(mindspore_nsa.nsa_compress_attention).parameters.values()
    }
    names = list(given)[:9]
    given.update(zip(names, (*inputs, 0.25, N1, L, S, SELECT, COUNT), strict=True))
    given.update(actual_seq_qlen=ENDS, **options)
    module._plan_nsa_compress_attention.forget()
    module._operator.cache_clear()
    operator, c, *_ = module._plan_nsa_compress_attention(*given.values(), True)
    at, outputs = handed("NsaCompressAttention", operator, c)
    assert outputs == (2, 3, 0, 1)
    assert [at[x] for x in ("query", "key", "value")] == [(0, None), (1, None), (2, None)]
    masked = name == "masks"
    assert at["attenMaskOptional"] == ((4, None) if masked else (-1, None))
    assert at["topkMaskOptional"] == ((3, None) if masked else (-1, None))
    assert at["actualSeqQLenOptional"] == (-1, ENDS)
    assert at["actualCmpSeqKvLenOptional"] == (-1, CMP_ENDS)
    assert at["qOffsetOptional"] == (-1, options.get("q_offset"))
    assert at["inputLayoutOptional"] == (-1, "TND") and at["selectBlockCount"] == (-1, COUNT)
    assert at["causal"] == (-1, int(not masked))
    assert at["importance"] == (-1, options.get("importance", "cann"))
    monkeypatch.undo()
    file = tmp_path / "net.mindir"
    spare = Tensor(np.zeros((1, 1), bool))
    masks = [options.get(mask, spare) for mask in ("topk_mask", "atten_mask")]
    ms.export(Net(operator, c), *inputs, *masks, file_name=str(file), file_format="MINDIR")
    assert b"aclnnMsnsaCompressAttention" in file.read_bytes()
    module._plan_nsa_compress_attention.forget()
    module._operator.cache_clear()
