"""Training through every operator, in both modes and with what MindSpore wraps around a network."""

import copy

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

import mindspore_nsa

from .calls import context_mode, run
from .operators import (
    N2,
    OPERATORS,
    Block,
    D,
    Loss,
    arguments,
    batch,
    call,
    draw,
    seeded,
    sequence,
)

BOTH = pytest.mark.parametrize("mode", ["pynative", "graph"])


def gradients(net, x, seq, target):
    """The loss and the gradients of every parameter, as NumPy arrays."""
    loss = Loss(net)
    both = ms.value_and_grad(loss, None, net.trainable_params())
    value, grads = both(x, seq, target)
    return float(value.asnumpy()), [g.asnumpy() for g in grads]


def test_modes_agree():
    x, target = batch()
    seq = sequence(40, 96)
    eager_loss, eager = gradients(seeded(), x, seq, target)
    with context_mode("graph"):
        graph_loss, graph = gradients(seeded(), x, seq, target)
    assert graph_loss == pytest.approx(eager_loss, rel=1e-6)
    assert len(eager) == 6
    for a, b in zip(graph, eager):
        np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(b).max())
        assert b.any()


def train(step, count=6):
    x, target = batch()
    lists = sequence(40, 96), sequence(0, 70, 96), sequence(96)
    return [float(step(x, lists[i % 3], target).asnumpy()) for i in range(count)]


@BOTH
def test_train_one_step(mode):
    with context_mode(mode):
        net = seeded()
        step = nn.TrainOneStepCell(Loss(net), nn.Adam(net.trainable_params(), 0.02))
        step.set_train()
        losses = train(step, 12)
    assert losses[-1] < 0.8 * losses[0]


@BOTH
def test_model_train(mode):
    x, target = batch()
    lists = np.array([[40, 96], [0, 96], [96, 96]], np.int64)
    data = ds.NumpySlicesDataset(
        {
            "x": np.stack([x.asnumpy()] * 3),
            "seq": lists,
            "target": np.stack([target.asnumpy()] * 3),
        },
        shuffle=False,
    )
    with context_mode(mode):
        net = seeded()
        before = gradients(net, x, sequence(40, 96), target)[0]
        model = ms.train.Model(Loss(net), optimizer=nn.Adam(net.trainable_params(), 0.02))
        model.train(3, data, dataset_sink_mode=False)
        after = gradients(net, x, sequence(40, 96), target)[0]
    assert after < before


class Outer(nn.Cell):
    """A network of which one part is recomputed in the backward pass."""

    def __init__(self, recompute):
        super().__init__()
        self.block = Block()
        if recompute:
            self.block.recompute()

    def construct(self, x, seq):
        return self.block(x, seq) * 2.0


@BOTH
def test_recompute(mode):
    x, target = batch()
    with context_mode(mode):
        kept, recomputed = (
            gradients(seeded(Outer, recompute=r), x, sequence(40, 96), target)
            for r in (False, True)
        )
    for a, b in zip(recomputed[1], kept[1]):
        np.testing.assert_array_equal(a, b)
        assert b.any()


@pytest.mark.parametrize("mode", ["pynative", pytest.param("graph", marks=pytest.mark.soak)])
def test_gradient_accumulation(mode):
    """Gradients of two batches add up to what one optimizer step takes."""
    x, target = batch()
    with context_mode(mode):
        net = seeded()
        parameters = net.trainable_params()
        both = ms.value_and_grad(Loss(net), None, parameters)
        first = both(x, sequence(40, 96), target)[1]
        second = both(x, sequence(96), target)[1]
        before = [p.asnumpy().copy() for p in parameters]
        nn.SGD(parameters, 0.5)(tuple(a + b for a, b in zip(first, second)))
        for p, old, a, b in zip(parameters, before, first, second):
            step = 0.5 * (a.asnumpy() + b.asnumpy())
            np.testing.assert_allclose(p.asnumpy(), old - step, atol=1e-6)
            assert step.any()


@BOTH
def test_deepcopy(mode):
    x, target = batch()
    with context_mode(mode):
        net = seeded()
        expected = gradients(net, x, sequence(40, 96), target)
        twin = copy.deepcopy(net)
        ours = gradients(twin, x, sequence(40, 96), target)
        assert ours[0] == expected[0]
        for a, b in zip(ours[1], expected[1]):
            np.testing.assert_array_equal(a, b)


# A graph finds these as globals.
WEIGHT = draw(16, N2)
BLOCKS = Tensor(np.random.default_rng(3).integers(0, 6, (96, 2, 2)).astype(np.int32))
INDICES = arguments("nsa_selected_attention")["topk_indices"]


def _compress(x):
    return mindspore_nsa.nsa_compress(x, WEIGHT, 16, 8, actual_seq_len=(96,))


def _flash(x):
    return mindspore_nsa.flash_attention_score(
        x, x, x, 2, scalar_value=0.3, input_layout="TND", sparse_mode=3, actual_seq_qlen=(96,),
        actual_seq_kvlen=(96,))  # fmt: skip


def _select(x):
    return mindspore_nsa.nsa_selected_attention(
        x, x, x, BLOCKS, 0.3, 2, 16, 2, actual_seq_qlen=(96,), actual_seq_kvlen=(96,),
        causal=True)[0]  # fmt: skip


def _compress_attention(x):
    return mindspore_nsa.nsa_compress_attention(
        x, x[:11], x[:11], 0.3, 2, 16, 8, 16, 2, actual_seq_qlen=(96,), causal=True)[0]  # fmt: skip


def _index(x):
    lists = {"actual_seq_qlen": (96,), "actual_seq_kvlen": (96,)}
    blocks = mindspore_nsa.block_indexer(x, x, score="max", block_size=16, block_count=2, **lists)
    return mindspore_nsa.nsa_selected_attention(
        x, x, x, blocks, 0.3, 2, 16, 2, causal=True, **lists)[0]  # fmt: skip


@BOTH
@pytest.mark.parametrize("function", [_compress, _flash, _select, _compress_attention, _index])
def test_vmap(mode, function):
    x = draw(3, 96, N2, D)

    def energy(x):
        return ops.square(function(x)).sum()

    slope = ms.grad(energy)
    with context_mode(mode):
        for f in (function, slope):
            ours = ops.vmap(f)(x).asnumpy()
            expected = np.stack([f(x[i]).asnumpy() for i in range(3)])
            np.testing.assert_array_equal(ours, expected)
            assert expected.any()


@BOTH
def test_unused_gradients_are_zero(mode):
    """Lists and indices get zeros of their own shape and dtype, as MindSpore expects."""
    given = arguments("nsa_selected_attention")

    def forward(q, k, v, chosen, seq):
        return mindspore_nsa.nsa_selected_attention(
            q, k, v, chosen, 0.25, 4, 16, 3, actual_seq_qlen=seq, actual_seq_kvlen=seq
        )[0]

    tensors = [given[n] for n in ("query", "key", "value", "topk_indices")] + [sequence(40, 96)]
    grads = run(mode, ms.grad(forward, (0, 1, 2, 3, 4)), *tensors)
    for g, t in zip(grads, tensors):
        assert g.shape == t.shape
    assert not grads[3].any() and not grads[4].any()
    assert all(g.any() for g in grads[:3])


def without_gradient(name):
    """Lists and masks of a call as Tensors, each of its own content, and what goes with them."""
    given = arguments(name)
    lists = {key: sequence(*value) for key, value in given.items() if isinstance(value, tuple)}
    if "q_offset" in lists:
        lists["q_offset"] = sequence(1, 2)
    ones = Tensor(np.ones((56, 56), np.bool_))
    if name == "nsa_compress_attention":
        return {**lists, "topk_mask": ones, "atten_mask": ones[:, :6]}, {}
    if name == "flash_attention_score":
        bits = mindspore_nsa.dropout_mask(0.9, 4 * (40**2 + 56**2), 1)
        mask = Tensor(np.ones((3072, 2048), np.bool_))
        masks = {"drop_mask": bits, "attn_mask": mask, "prefix": sequence(3, 5)}
        return {**lists, **masks}, {"sparse_mode": 6, "keep_prob": 0.9}
    return lists, {}


@pytest.mark.parametrize("name", OPERATORS)
def test_lists_and_masks_have_zero_gradients(name):
    tensors, others = without_gradient(name)

    def forward(*values):
        return call(name, **others, **dict(zip(tensors, values)))

    grads = ms.grad(forward, tuple(range(len(tensors))))(*tensors.values())
    grads = (grads,) if isinstance(grads, Tensor) else grads
    for gradient, tensor in zip(grads, tensors.values(), strict=True):
        assert tensor.astype(ms.float32).asnumpy().any()
        assert gradient.shape == tensor.shape and gradient.dtype == tensor.dtype
        assert not gradient.astype(ms.float32).asnumpy().any()


@BOTH
@pytest.mark.parametrize(
    "name",
    [
        "nsa_compress",
        "nsa_compress_attention",
        "nsa_selected_attention",
        "flash_attention_score",
    ],
)
def test_second_derivative(mode, name):
    """Refused in words, naming the operator; the first derivative is not affected."""
    given = arguments(name)
    inputs = ("input", "weight") if name == "nsa_compress" else ("query", "key")
    first, second = (given.pop(n) for n in inputs)

    def forward(a, b):
        out = _CALLS[name](a, b)
        return ops.square(out).sum()

    slope = ms.grad(forward, 0)

    def steepness(a, b):
        return ops.square(slope(a, b)).sum()

    assert run(mode, slope, first, second).any()
    with pytest.raises(RuntimeError, match=f"{name}: its gradient has no gradient"):
        run(mode, ms.grad(steepness, 1), first, second)


@BOTH
def test_forward_mode(mode):
    """MindSpore makes it of two backward passes, so the error of the second names it."""
    x, w = arguments("nsa_compress")["input"], arguments("nsa_compress")["weight"]

    def forward(x, w):
        return _CALLS["nsa_compress"](x, w)

    message = r"nor is forward mode \(mindspore.jvp\)"
    with context_mode(mode), pytest.raises(RuntimeError, match=message):
        ms.jvp(forward, (x, w), (x, w))[1].asnumpy()


def _compress_two(x, w):
    return mindspore_nsa.nsa_compress(x, w, 16, 8, actual_seq_len=(40, 96))


def _compress_attention_two(q, k):
    return mindspore_nsa.nsa_compress_attention(
        q, k, k, 0.25, 4, 16, 8, 16, 3, actual_seq_qlen=(40, 96), causal=True)[0]  # fmt: skip


def _select_two(q, k):
    return mindspore_nsa.nsa_selected_attention(
        q, k, k, INDICES, 0.25, 4, 16, 3, actual_seq_qlen=(40, 96),
        actual_seq_kvlen=(40, 96))[0]  # fmt: skip


def _flash_two(q, k):
    return mindspore_nsa.flash_attention_score(
        q, k, k, 4, input_layout="TND", actual_seq_qlen=(40, 96),
        actual_seq_kvlen=(40, 96))  # fmt: skip


_CALLS = {
    "nsa_compress": _compress_two,
    "nsa_compress_attention": _compress_attention_two,
    "nsa_selected_attention": _select_two,
    "flash_attention_score": _flash_two,
}


@BOTH
def test_bias_in_alibi_form_has_no_gradient(mode):
    """Only where it is asked for; the other gradients exist."""
    bias, query = draw(1, 2, 1024, 1040), draw(1, 1040, 2, 8)

    def forward(q, bias):
        return mindspore_nsa.flash_attention_score(
            q, q, q, 2, bias, input_layout="BSND", sparse_mode=2
        ).sum()

    assert run(mode, ms.grad(forward, 0), query, bias).any()
    error = ValueError if mode == "pynative" else RuntimeError
    with pytest.raises(error, match="real_shift must be a full position bias where its gradient"):
        run(mode, ms.grad(forward, 1), query, bias)


def test_concurrent_threads():
    """Python threads may call at once and get what they get alone."""
    from concurrent.futures import ThreadPoolExecutor

    from mindspore_nsa import _native
    from tests.common.cases import make_case

    cases = [make_case(seed) for seed in range(3000, 3016)]
    alone = [_native.run(case.op, case.inputs, case.attrs) for case in cases]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda c: _native.run(c.op, c.inputs, c.attrs), cases * 3))
    for ours, expected in zip(together, alone * 3):
        for a, b in zip(ours, expected):
            a, b = (x[1] if isinstance(x, tuple) else x for x in (a, b))
            assert a.tobytes() == b.tobytes()
