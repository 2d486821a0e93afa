"""One graph of a layer serves all caches of its sizes, and gives what PyNative mode gives."""

import copy
import pickle

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from .small import KINDS, error, layer_of, text_of

# Tokens that three rows get in every call; windows, groups and pools open and end everywhere.
COUNTS = ((5, 0, 2), (1, 5, 1), (3, 1, 3), (0, 1, 6), (2, 5, 0))
CAPACITY = 14
# A graph takes seconds to compile. GLM-5's layer stands in the model below; the others that are
# left out are parts of these.
COMPILED = [k for k in KINDS if k not in ("glm_moe_dsa", "minimax_m3_full", "v4_sliding")]


def pieces(x):
    """(packed tokens, prefix sums) of every call."""
    lengths = np.zeros(len(x), int)
    for counts in COUNTS:
        rows = [x[row, n : n + count] for row, (n, count) in enumerate(zip(lengths, counts))]
        yield Tensor(np.concatenate(rows)), Tensor(np.cumsum(counts))
        lengths += counts


class _Packed(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, ends, cache):
        return self.layer(x, ends, cache=cache)


@pytest.mark.parametrize("kind", COMPILED)
def test_pieces_of_any_lengths_in_one_graph(kind):
    layer, x = layer_of(kind), text_of(3, CAPACITY)
    step = ms.jit(_Packed(layer))
    plain, first, second = (layer.new_cache(3, CAPACITY) for _ in range(3))
    for packed, ends in pieces(x):
        want = layer(packed, ends, cache=plain).asnumpy()
        assert error(step(packed, ends, first).asnumpy(), want) < 1e-6
        # Another cache needs no other graph.
        np.testing.assert_array_equal(step(packed, ends, second).asnumpy(), want)
    assert first.lengths.asnumpy().tolist() == [11, 12, 12]
    for mine, theirs in zip(first, plain, strict=True):
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=0, atol=2e-6)
    first.reset([1])
    text = f"{layer.name}: cache must have room .*is {CAPACITY}, got 18 tokens in row 0; MindSpore"
    with pytest.raises(RuntimeError, match=text):
        step(Tensor(x[0, :7]), Tensor([7, 7, 7]), first).asnumpy()
    # Nothing was written.
    assert first.lengths.asnumpy().tolist() == [11, 0, 12]


class _Model(nn.Cell):
    """Layers of GLM-5 that share picks, and one of DeepSeek V4, with residuals."""

    def __init__(self):
        super().__init__()
        self.full = layer_of("glm_moe_dsa", 0, indexer_types=["full"])
        self.shared = layer_of("glm_moe_dsa", 1, indexer_types=["shared"])
        self.window = layer_of("v4_sliding")

    def layers(self):
        return self.full, self.shared, self.window

    def construct(self, x, caches):
        y, picks = self.full(x, cache=caches[0], return_indices=True)
        x = x + y
        x = x + self.shared(x, cache=caches[1], topk_indices=picks)
        return x + self.window(x, cache=caches[2])


def test_a_model_generates_token_by_token():
    model, x = _Model(), text_of(2, 8)
    plain, caches = (tuple(c.new_cache(2, 8) for c in model.layers()) for _ in range(2))
    want = model(Tensor(x), plain).asnumpy()
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        for i in range(8):
            got = model(Tensor(x[:, i : i + 1]), ms.mutable(caches)).asnumpy()
            assert error(got[:, 0], want[:, i]) < 1e-5, i
        assert len(model.compile_cache) == 1
        text = "cache must be an argument of the graph, several of them a tuple under mindspore.mut"
        with pytest.raises(ValueError, match=f"GlmMoeDsaAttention: {text}"):
            model(Tensor(x), caches)
        # The layer itself tells other layers' caches apart by more than their shapes.
        with pytest.raises(ValueError, match="cache must be one of a layer of the same sizes"):
            model.window(Tensor(x), cache=caches[0])
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert [cache.lengths.asnumpy().tolist() for cache in caches] == [[8, 8]] * 3


class _Steps(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, first, second, third, cache):
        ahead = self.layer(first, cache=cache)
        between = self.layer(second, cache=cache)
        return ahead, between, self.layer(third, cache=cache)


@pytest.mark.parametrize("kind", ["v4_sliding", "minimax_m3_full"])
def test_calls_of_one_graph_follow_one_another(kind):
    """Each reads lengths and rows after the one before wrote them."""
    layer, x = layer_of(kind), text_of(2, 8)
    pieces = [Tensor(x[:, begin:end]) for begin, end in ((0, 3), (3, 6), (6, 8))]
    steps, plain, cache = _Steps(layer), layer.new_cache(2, 8), layer.new_cache(2, 8)
    want, got = steps(*pieces, plain), ms.jit(steps)(*pieces, cache)
    for mine, theirs in zip(got, want, strict=True):
        assert error(mine.asnumpy(), theirs.asnumpy()) < 1e-6
    assert cache.lengths.asnumpy().tolist() == [8, 8]


def test_wrong_caches_of_a_graph():
    layer, x = layer_of("v4_sliding"), Tensor(text_of(1, 3))

    @ms.jit
    def step(x, cache):
        return layer(x, cache=cache)

    text = "DeepseekV4Attention: cache must be one of a layer of the same sizes, window"
    with pytest.raises(ValueError, match=f"{text} window 5 x 24, got one of 4 Tensors"):
        step(x, layer_of("minimax_m3_full").new_cache(1, 4))
    with pytest.raises(ValueError, match=rf"{text} .*, got window of shape \(3, 24\)"):
        step(x, layer_of("v4_sliding", sliding_window=4).new_cache(1, 8))
    with pytest.raises(ValueError, match="x must have 2 rows or documents, .*, got 1"):
        step(x, layer.new_cache(2, 4))


def test_caches_that_would_be_misread():
    """Views, which MindSpore would copy, lengths of another dtype or rank, or that are none."""
    layer, x = layer_of("v4_sliding"), Tensor(text_of(1, 3))
    packed, ends = x.reshape(3, -1), Tensor([3])
    lengths, slots, rows = layer.new_cache(1, 4)
    wrong = (
        (lengths.astype(ms.int32), TypeError, "cache must have lengths of dtype int64, got int32"),
        (lengths.reshape(1, 1), ValueError, r"got lengths of shape \(1, 1\)"),
        (Tensor([-1]), (ValueError, RuntimeError), "cache must have lengths >= 0, got -1 in row 0"),
        (Tensor([2**63 - 1]), (ValueError, RuntimeError), "cache must have room for the tokens"),
        (Tensor([0, 0])[:1], (ValueError, RuntimeError), "no views of others|not support view"),
    )
    for given, kind, text in wrong:
        cache = (given, slots, rows)
        with pytest.raises(kind, match=text):
            layer(x, cache=cache)
        with pytest.raises(kind, match=text):
            ms.jit(_Packed(layer))(packed, ends, ms.mutable(cache)).asnumpy()
    assert not rows.asnumpy().any()


def test_there_is_no_gradient():
    layer, x = layer_of("v4_sliding"), Tensor(text_of(1, 3))
    cache = layer.new_cache(1, 4)
    with pytest.raises(ValueError, match="DeepseekV4Attention: it has no gradient with a cache"):
        ms.grad(lambda x: layer(x, cache=cache).sum())(x).asnumpy()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_copies_grow_on_their_own(copied):
    layer, x = layer_of("v4_csa"), Tensor(text_of(1, 6))
    cache = layer.new_cache(1, 12)
    layer(x, cache=cache)
    other = copied(cache)
    want = layer(x, cache=cache).asnumpy()
    assert (other.lengths, cache.lengths) == (6, 12) and other.capacity == 12
    np.testing.assert_array_equal(layer(x, cache=other).asnumpy(), want)
