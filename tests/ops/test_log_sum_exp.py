"""Gradients of softmax_sum: attention merged from parts of the keys, penalties on max + ln sum."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import mindspore_nsa
from tests.common.merging import (
    HALVES,
    N1,
    OPERATORS,
    THIRDS,
    D,
    T,
    dense_logarithm,
    logarithm,
    merged,
    operands,
    slopes,
    whole,
)

from .calls import run

MODES = pytest.mark.parametrize("mode", ["pynative", "graph", "jit_O0"])
EVERY = pytest.mark.parametrize("name", OPERATORS)


def close(ours, expected, part=1e-5):
    for a, b in zip(ours, expected, strict=True):
        assert b.any()
        np.testing.assert_allclose(a, b, atol=part * np.abs(b).max(), rtol=0)


@MODES
@EVERY
def test_merged_parts_have_the_gradients_of_the_whole(mode, name):
    operator, tensors = OPERATORS[name], operands()
    expected = run("pynative", slopes(whole(operator)), *tensors)
    for parts in HALVES, THIRDS:
        np.testing.assert_allclose(
            run("pynative", merged(operator, parts), *tensors),
            run("pynative", whole(operator), *tensors), atol=1e-5,
        )  # fmt: skip
        close(run(mode, slopes(merged(operator, parts)), *tensors), expected)
        if mode != "pynative":
            break


@MODES
@EVERY
def test_penalty(mode, name):
    """The output itself is not used, so its gradient is zeros."""
    operator = OPERATORS[name]

    def penalty(query, key, value):
        _, top, total = operator(query, key, value, 0, T)
        return ops.square(logarithm(top, total)).sum()

    def dense(query, key, value):
        return ops.square(dense_logarithm(query, key)).sum()

    query, key, value = operands()
    dq, dk, dv = run(mode, ms.grad(penalty, (0, 1, 2)), query, key, value)
    close((dq, dk), run("pynative", ms.grad(dense, (0, 1)), query, key, value))
    assert not dv.any()


@EVERY
def test_every_lane_counts(name):
    operator = OPERATORS[name]
    weights = Tensor(np.arange(8, dtype=np.float32))

    def of_lanes(query, key, value):
        return (ops.log(operator(query, key, value, 0, T)[2]) * weights).sum()

    def of_one(query, key, value):
        return (ops.log(operator(query, key, value, 0, T)[2])[:, :, 3] * 28.0).sum()

    ours, expected = (
        [x.asnumpy() for x in ms.grad(f, (0, 1))(*operands())] for f in (of_lanes, of_one)
    )
    close(ours, expected)


@EVERY
def test_the_maximum_is_a_constant(name):
    operator = OPERATORS[name]

    def loss(query, key, value):
        return operator(query, key, value, 0, T)[1].sum()

    assert not any(x.asnumpy().any() for x in ms.grad(loss, (0, 1, 2))(*operands()))


@EVERY
def test_rows_that_see_nothing(name):
    """Whatever gradient their sum, FLT_MAX, is given."""
    operator = OPERATORS[name]

    def loss(query, key, value):
        out, top, total = operator(query, key, value, 80, T)
        return (total * 3.0).sum() + (top * 2.0).sum() + out.sum()

    for x in ms.grad(loss, (0, 1, 2))(*operands()):
        assert np.isfinite(x.asnumpy()).all()
    dq = ms.grad(loss)(*operands()).asnumpy()
    assert not dq[:80].any() and dq[81:].any()


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_sink_and_bias(mode):
    """Against the formula in MindSpore's operators."""
    rng = np.random.default_rng(5)
    query, key, _ = operands()
    key = key[:, :1]
    sink = Tensor(rng.standard_normal(N1).astype(np.float32))
    bias = Tensor(rng.standard_normal((1, N1, T, T)).astype(np.float32))
    weights = Tensor(rng.standard_normal((T, N1, 1)).astype(np.float32))

    def ours(query, key, bias, sink):
        _, top, total = mindspore_nsa.flash_attention_score(
            query.expand_dims(0), key.expand_dims(0), key.expand_dims(0), N1, bias,
            scalar_value=0.25, input_layout="BSND", pse_type=0, sink=sink,
            return_softmax=True)  # fmt: skip
        log = top[0, :, :, :1] + ops.log(total[0, :, :, :1])
        return (ops.transpose(log, (1, 0, 2)) * weights).sum()

    def dense(query, key, bias, sink):
        scores = 0.25 * ops.matmul(ops.transpose(query, (1, 0, 2)), ops.transpose(key, (1, 2, 0)))
        logits = ops.reshape(sink, (N1, 1, 1)) + ops.zeros((N1, T, 1), ms.float32)
        log = ops.logsumexp(ops.concat((scores + bias[0], logits), 2), (2,), True)
        return (ops.transpose(log, (1, 0, 2)) * weights).sum()

    places = (0, 1, 2, 3)
    close(
        run(mode, ms.grad(ours, places), query, key, bias, sink),
        run("pynative", ms.grad(dense, places), query, key, bias, sink),
    )


def test_open_sizes():
    """In a graph that does not know how many tokens there are."""

    @ms.jit(dynamic=1)
    def gradient(query, key, value, ends):
        def loss(query):
            _, top, total = mindspore_nsa.flash_attention_score(
                query, key, value, N1, scalar_value=0.25, input_layout="TND", sparse_mode=3,
                actual_seq_qlen=ends, actual_seq_kvlen=ends, return_softmax=True)  # fmt: skip
            return logarithm(top, total).sum()

        return ms.grad(loss)(query)

    query, key, value = operands()
    for count in (T, 17, 40):
        x = query[:count], key[:count], value[:count]
        ours = gradient(*x, Tensor([count], ms.int64)).asnumpy()

        def dense(query, n=count):
            padded = ops.concat((query, ops.zeros((T - n, N1, D), ms.float32)), 0)
            return dense_logarithm(padded if n < T else query, key)[:n].sum()

        close([ours], [ms.grad(dense)(x[0]).asnumpy()])
