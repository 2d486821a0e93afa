"""flash_attention_score on target ascend_twin in MindSpore, and its Custom on target ascend."""

import importlib
import inspect

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa.ops._custom import native_operator, planned_target
from tests.ops.calls import context_mode, in_mode

from .conftest import handed

module = importlib.import_module("mindspore_nsa.ops.flash_attention_score")
N1, N2, D = 4, 2, 16
STEP = {ms.float16: 2.0**-10, ms.bfloat16: 2.0**-7, ms.float32: 2.0**-20}


def draw(*shape, dtype=ms.float16, seed=0):
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return Tensor(values.astype(np.float32)).astype(dtype)


def operands(dtype, shape=(2, 33)):
    return (
        draw(*shape, N1, D, dtype=dtype),
        draw(*shape, N2, D, dtype=dtype, seed=1),
        draw(*shape, N2, D, dtype=dtype, seed=2),
    )


# Optional tensors, lists and numbers at every place of the aclnn function.
FORMS = {
    "causal": ("BSND", {"sparse_mode": 2}),
    "mask": (
        "BSND",
        {"attn_mask": Tensor(np.triu(np.ones((33, 33), bool), 1)), "sparse_mode": 1},
    ),
    "bias": ("BSND", {"real_shift": draw(1, N1, 33, 33), "pse_type": 0}),
    "slopes": (
        "BSND",
        {
            "real_shift": Tensor(np.array([0.5, 0.25, 0.125, 1], np.float32)),
            "pse_type": 2,
            "q_start_idx": 3,
        },
    ),
    "slopes of segments": (
        "TND",
        {
            "real_shift": Tensor(np.array([0.5, 0.25, 0.125, 1], np.float32)),
            "pse_type": 3,
            "sparse_mode": 3,
            "q_start_idx": (10, 0, 7),
            "kv_start_idx": [0, 3, -2],
            "actual_seq_qlen": (20, 20, 66),
            "actual_seq_kvlen": (30, 41, 66),
        },
    ),
    "sink": ("BSND", {"sink": Tensor(np.array([0.5, -1, 0, 2], np.float32)), "sparse_mode": 3}),
    "prefix": ("BSND", {"sparse_mode": 5, "prefix": (10, 33)}),
    "packed prefix": (
        "TND",
        {
            "sparse_mode": 6,
            "prefix": (5, 0, 20),
            "actual_seq_qlen": (20, 20, 66),
            "actual_seq_kvlen": (30, 41, 66),
        },
    ),
    "packed": (
        "TND",
        {
            "sparse_mode": 3,
            "actual_seq_qlen": (20, 20, 66),
            "actual_seq_kvlen": (30, 41, 66),
        },
    ),
}


def form(name, dtype):
    layout, options = FORMS[name]
    options = dict(options)
    if name == "bias":
        options["real_shift"] = options["real_shift"].astype(dtype)
    inputs = operands(dtype, (66,) if layout == "TND" else (2, 33))

    def call(query, key, value):
        return mindspore_nsa.flash_attention_score(
            query,
            key,
            value,
            N1,
            input_layout=layout,
            scalar_value=0.25,
            return_softmax=True,
            **options,
        )

    return call, inputs


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dtype", STEP, ids=str)
def test_same_as_cpu(name, dtype):
    """Every output within rounding of the CPU's; graphs give the bits of PyNative mode."""
    call, inputs = form(name, dtype)
    expected = call(*inputs)
    with mindspore_nsa.target("ascend_twin"):
        eager = call(*inputs)
        if dtype == ms.bfloat16:
            with context_mode("graph"):
                compiled = in_mode("graph", call)(*inputs)
            for a, b in zip(eager, compiled, strict=True):
                assert np.array_equal(*(x.astype(ms.float32).asnumpy() for x in (a, b)))
    for step, ours, theirs in zip((STEP[dtype], 1e-5, 1e-5), eager, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        ours, theirs = (x.astype(ms.float32).asnumpy() for x in (ours, theirs))
        assert np.abs(ours - theirs).max() <= 2 * step * np.abs(theirs).max()


@pytest.mark.parametrize("mode", ["pynative", "graph", "jit_O0"])
def test_operator_without_a_kernel(mode):
    """A gradient, say: the same error in every mode, where it is called and not before."""
    token = planned_target.set("ascend_twin")
    try:
        operator = native_operator("NsaDropoutMask", "", None).call
    finally:
        planned_target.reset(token)

    def call(seed):
        return operator(seed)

    with context_mode(mode):
        with pytest.raises(ValueError, match="dropout_mask: there is no Ascend kernel of this"):
            in_mode(mode, call)(Tensor([1], ms.int64))


@pytest.mark.parametrize("mode", ["pynative", "graph", "jit_O0"])
def test_gradient(mode):
    """The gradient is the CPU's within rounding, where it has a kernel; else the error above."""
    call, inputs = form("causal", ms.float16)

    def total(query, key, value):
        return call(query, key, value)[0].sum()

    def gradient(query, key, value):
        return ms.grad(total, (0, 1, 2))(query, key, value)

    expected = gradient(*inputs)
    with mindspore_nsa.target("ascend_twin"), context_mode(mode):
        if "FlashAttentionScoreGrad" not in _native.ascend_operators():
            with pytest.raises(ValueError, match="flash_attention_score_grad: there is no Ascend"):
                in_mode(mode, gradient)(*inputs)
            return
        ours = in_mode(mode, gradient)(*inputs)
    for a, b in zip(ours, expected, strict=True):
        a, b = a.asnumpy(), b.asnumpy()
        assert np.abs(a - b).max() <= 2.0**-9 * np.abs(b).max()


@pytest.mark.parametrize("shape", [(1, N1, 33, 33), (2, N1, 1, 33), (1, N1, 1, 33)], ids=str)
@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_gradient_of_a_shared_bias(mode, shape):
    """The bias gradient is the CPU's within rounding: a sum over all that share it."""
    *inputs, bias = *operands(ms.float16), draw(*shape, seed=3)

    def gradient(query, key, value, bias):
        def total(query, key, value, bias):
            return mindspore_nsa.flash_attention_score(
                *(query, key, value, N1),
                real_shift=bias,
                input_layout="BSND",
                scalar_value=0.25,
                sparse_mode=2,
            ).sum()

        return ms.grad(total, (0, 1, 2, 3))(query, key, value, bias)

    expected = gradient(*inputs, bias)
    with mindspore_nsa.target("ascend_twin"), context_mode(mode):
        ours = in_mode(mode, gradient)(*inputs, bias)
    for a, b in zip(ours, expected, strict=True):
        a, b = a.asnumpy(), b.asnumpy()
        assert a.shape == b.shape and np.abs(a - b).max() <= 2.0**-9 * np.abs(b).max()


class Net(nn.Cell):
    """A graph on the operator."""

    def __init__(self, operator, ends):
        super().__init__()
        self.operator, self.ends = operator, ends

    def construct(self, q, k, v, tensor):
        ends = self.ends
        return self.operator(q, k, v, tensor, tensor, tensor, None, ends, ends, tensor, None, None)


@pytest.mark.parametrize("name", ["causal", "mask", "packed"])
def test_custom_on_ascend(ascend, monkeypatch, tmp_path, name):  # noqa: F811
    """Absent tensors are None in their places; outputs come in the operator's order."""
    layout, options = FORMS[name]
    query, key, value = operands(ms.float16, (66,) if layout == "TND" else (2, 33))
    given = {
        parameter.name: None if parameter.default is parameter.empty else parameter.default
        for parameter in inspect.signature(mindspore_nsa.flash_attention_score).parameters.values()
    }
    given.update(query=query, key=key, value=value, head_num=N1, input_layout=layout, **options)
    module._plan_flash_attention_score.forget()
    module._operator.cache_clear()
    operator, c, _ = module._plan_flash_attention_score(*given.values())
    at, outputs = handed("FlashAttentionScore", operator, c)
    assert outputs == (3, 0, 1)
    assert [at[x] for x in ("query", "key", "value")] == [(0, None), (1, None), (2, None)]
    assert at["attenMaskOptional"] == ((5, None) if name == "mask" else (-1, None))
    assert at["realShiftOptional"] == at["paddingMaskOptional"] == (-1, None)
    assert at["actualSeqQLenOptional"] == (-1, options.get("actual_seq_qlen"))
    assert at["headNum"] == (-1, N1) and at["inputLayout"] == (-1, layout)
    assert at["qStartIdxOptional"] == at["sinkOptional"] == (-1, None)
    monkeypatch.undo()
    file = tmp_path / "net.mindir"
    mask = options.get("attn_mask", Tensor(np.zeros(1, np.float32)))
    net = Net(operator, options.get("actual_seq_qlen"))
    ms.export(net, query, key, value, mask, file_name=str(file), file_format="MINDIR")
    assert b"aclnnMsnsaFlashAttention" in file.read_bytes()
    if name == "mask":
        # Inference is told which tensor is which, absent ones before it or not.
        wrong = Tensor(np.zeros((7, 33), bool))
        with pytest.raises(RuntimeError, match="attn_mask must be of shape"):
            ms.export(
                *(Net(operator, None), query, key, value, wrong),
                file_name=str(tmp_path / "wrong.mindir"),
                file_format="MINDIR",
            )
    module._plan_flash_attention_score.forget()
    module._operator.cache_clear()


@pytest.mark.parametrize("operand", ["query", "key", "value"])
def test_what_a_nan_reaches(operand):
    """NaN spreads like docs/ascend_attention.md says; a tile has at most 128 rows."""
    place, rows = 200, 400
    values = {name: draw(1, 1, rows, D, seed=i) for i, name in enumerate(("query", "key", "value"))}
    spoiled = values[operand].asnumpy().copy()
    spoiled[0, 0, place, 3] = np.nan
    given = tuple({**values, operand: Tensor(spoiled)}.values())

    def forward(q, k, v):
        return mindspore_nsa.flash_attention_score(
            q, k, v, 1, input_layout="BNSD", scalar_value=0.25, sparse_mode=3, return_softmax=True
        )

    def total(q, k, v):
        return forward(q, k, v)[0].astype(ms.float32).sum()

    def nans(x):
        return np.flatnonzero(np.isnan(x.astype(ms.float32).asnumpy()[0, 0]).any(axis=-1))

    with mindspore_nsa.target("ascend_twin"):
        out, row_max, row_sum = map(nans, forward(*given))
        dq, dk, dv = map(nans, ms.grad(total, (0, 1, 2))(*given))
    seen = np.arange(place, rows)
    if operand == "query":
        assert out.tolist() == row_max.tolist() == row_sum.tolist() == dq.tolist() == [place]
        for hidden in (dk, dv):
            assert set(range(place + 1)) <= set(hidden) and place < hidden.max() < place + 128
    else:
        assert row_max.size == 0 and set(seen) <= set(dq) and place - 128 < dq.min() < place
    if operand == "key":
        assert out.tolist() == row_sum.tolist() == seen.tolist()
    if operand == "value":
        assert row_sum.size == 0 and set(seen) <= set(out) and place - 128 < out.min() < place
