"""Dynamic shapes and ranks, and lists whose values change without a new graph."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

import mindspore_nsa
from tests.common.cases import GENERATORS, compare, make_case

from .calls import Function, PublicCall, context_mode, gradient, to_numpy
from .operators import N2, D, Loss, arguments, batch, draw, seeded, sequence


def unknown(tensor, rank_too):
    """The description of a Tensor of which the compiler is to know the dtype only."""
    if rank_too:
        return Tensor(shape=None, dtype=tensor.dtype)
    return Tensor(shape=[None] * tensor.ndim, dtype=tensor.dtype)


@pytest.mark.parametrize("rank_too", [False, True], ids=["shapes", "rank"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", [op for op in GENERATORS if op != "NsaDropoutMask"])
def test_nothing_is_known_at_compile_time(op, dtype, rank_too):
    """The bits of a graph of unknown shapes are those of PyNative."""
    call = PublicCall(make_case(2000, op, dtype), lists_as_tensors=True)
    case, expected = call.run("pynative")
    compare(case, expected)
    net = Function(call.compiled())
    tensors = tuple(call.tensors.values())
    net.set_inputs(*(unknown(t, rank_too) for t in tensors))
    with context_mode("graph"):
        raw = to_numpy(net(*tensors))
    ours = call.in_native_form(raw)[1]
    for a, b in zip(ours, expected):
        a, b = (x[1] if isinstance(x, tuple) else x for x in (a, b))
        assert a.tobytes() == b.tobytes()


class Compress(nn.Cell):
    def construct(self, x, w, seq):
        return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=seq)


CHANGING = ((40, 96), (0, 96), (96, 96), (15, 96))


def test_list_values_change_without_a_new_graph():
    given = arguments("nsa_compress")
    x, w = given["input"], given["weight"]
    net = Compress()
    with context_mode("graph"):
        for values in CHANGING:
            ours = net(x, w, sequence(*values)).asnumpy()
            exact = mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=values).asnumpy()
            assert np.array_equal(ours[: len(exact)], exact)
            assert ours.shape == (12, N2, D) and not ours[len(exact) :].any()
        assert len(net.compile_cache) == 1


INDICES = arguments("nsa_selected_attention")["topk_indices"]


def _compress_attention(q, k, seq, offset):
    return mindspore_nsa.nsa_compress_attention(
        q, k[:12], k[:12], 0.25, 4, 16, 8, 16, 3, actual_seq_qlen=seq, causal=True,
        q_offset=offset)[0]  # fmt: skip


def _select(q, k, seq, offset):
    return mindspore_nsa.nsa_selected_attention(
        q, k, k, INDICES, 0.25, 4, 16, 3, actual_seq_qlen=seq, actual_seq_kvlen=seq, causal=True,
        q_offset=offset)[0]  # fmt: skip


def _flash(q, k, seq, offset):
    return mindspore_nsa.flash_attention_score(
        q, k, k, 4, scalar_value=0.25, input_layout="TND", sparse_mode=3, actual_seq_qlen=seq,
        actual_seq_kvlen=seq)  # fmt: skip


@pytest.mark.parametrize("function", [_compress_attention, _select, _flash])
def test_attention_lists_change_without_a_new_graph(function):
    """Forward and backward, every list of the call."""
    given = arguments("nsa_selected_attention")
    q, k = given["query"], given["key"]

    def energy(q, k, seq, offset):
        return ops.square(function(q, k, seq, offset)).sum()

    net, slope = Function(function), Function(ms.grad(energy, (0, 1)))
    for step, values in enumerate(CHANGING):
        offset = (step, 3 * step)
        out = function(q, k, values, offset).asnumpy()
        grads = [g.asnumpy() for g in ms.grad(energy, (0, 1))(q, k, values, offset)]
        assert out.any() and all(g.any() for g in grads)
        with context_mode("graph"):
            lists = sequence(*values), sequence(*offset)
            assert np.array_equal(net(q, k, *lists).asnumpy(), out)
            for ours, expected in zip(slope(q, k, *lists), grads):
                assert np.array_equal(ours.asnumpy(), expected)
    assert len(net.compile_cache) == len(slope.compile_cache) == 1


def test_int32_lists():
    given = arguments("nsa_compress")
    x, w = given["input"], given["weight"]
    lists = sequence(40, 96), Tensor([40, 96], ms.int32)
    for mode in ("pynative", "graph"):
        with context_mode(mode):
            first, second = (Compress()(x, w, seq).asnumpy() for seq in lists)
        assert np.array_equal(first, second) and first.any()


@pytest.mark.parametrize("rank_too", [False, True], ids=["shapes", "rank"])
def test_training_step_of_any_length(rank_too):
    """One graph trains on batches of different lengths; `rank_too`: of the list."""
    cases = ((96, (40, 96)), (64, (64,)), (96, (0, 50, 96)))
    batches = [(*batch(tokens), sequence(*seq)) for tokens, seq in cases]

    def losses(describe):
        net = seeded()
        step = nn.TrainOneStepCell(Loss(net), nn.SGD(net.trainable_params(), 0.1))
        step.set_train()
        if describe:
            step.set_inputs(
                Tensor(shape=[None, N2 * D], dtype=ms.float32),
                unknown(batches[0][2], rank_too),
                Tensor(shape=[None], dtype=ms.int32),
            )
        return [float(step(x, seq, target).asnumpy()) for x, target, seq in batches]

    eager = losses(describe=False)
    with context_mode("graph"):
        dynamic = losses(describe=True)
    np.testing.assert_allclose(dynamic, eager, rtol=1e-5)


def test_rows_follow_the_runtime_shape():
    """With a Tensor list the output has T // stride rows, also where T is unknown before."""
    net = Compress()
    w = draw(16, N2)
    net.set_inputs(Tensor(shape=[None, N2, D], dtype=ms.float32), w,
                   Tensor(shape=[None], dtype=ms.int64))  # fmt: skip
    with context_mode("graph"):
        for tokens in (96, 16, 15, 40):
            out = net(draw(tokens, N2, D), w, sequence(tokens))
            assert out.shape == (tokens // 8, N2, D)


def test_too_few_rows_at_run_time():
    given = arguments("nsa_compress")

    class Few(nn.Cell):
        def construct(self, x, w, seq):
            return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=seq, num_windows=10)

    net = Few()
    with context_mode("graph"):
        assert net(given["input"], given["weight"], sequence(40, 96)).shape[0] == 10
        with pytest.raises(RuntimeError, match="nsa_compress: num_windows must be at least 11"):
            net(given["input"], given["weight"], sequence(96)).asnumpy()


def test_gradient_ignores_rows_past_the_windows():
    """Rows past the windows get no gradient, even where theirs is NaN."""
    given = arguments("nsa_compress")
    x, w = given["input"], given["weight"]
    upstream = np.ones((12, N2, D), np.float32)
    upstream[10:] = np.nan

    def forward(x, w, seq):
        return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=seq)

    _, grads = gradient(forward, (0, 1), Tensor(upstream))(x, w, sequence(40, 96))
    assert all(np.isfinite(g.asnumpy()).all() and g.asnumpy().any() for g in grads)


@pytest.mark.parametrize("rank_too", [False, True], ids=["shapes", "rank"])
def test_bias_of_unknown_form(rank_too):
    """Whether a bias has a gradient may show only at run time; it counts only where it is used."""
    full, alibi = draw(1, 2, 40, 40), draw(1, 2, 1024, 1040)
    short, long = draw(1, 40, 2, 8), draw(1, 1040, 2, 8)

    def forward(q, bias):
        return mindspore_nsa.flash_attention_score(
            q, q, q, 2, bias, input_layout="BSND", sparse_mode=2
        ).sum()

    def compiled(positions):
        net = Function(ms.grad(forward, positions))
        net.set_inputs(unknown(short, rank_too), unknown(full, rank_too))
        return net

    with context_mode("graph"):
        of_query, of_both = compiled(0), compiled((0, 1))
        for q, bias in ((short, full), (long, alibi)):
            ours = of_query(q, bias).asnumpy()
            assert np.array_equal(ours, Function(ms.grad(forward, 0))(q, bias).asnumpy())
        for g, e in zip(of_both(short, full), Function(ms.grad(forward, (0, 1)))(short, full)):
            assert np.array_equal(g.asnumpy(), e.asnumpy()) and g.asnumpy().any()
        with pytest.raises(RuntimeError, match="the compressed alibi form"):
            [g.asnumpy() for g in of_both(long, alibi)]
