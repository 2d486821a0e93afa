"""A sequence in pieces through a cache is the uncut sequence."""

import copy
from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from mindspore_nsa.nn import AttentionCache, DenseAttention, NativeSparseAttention, NSAConfig
from mindspore_nsa.nn.cache_state import HEADER, ROLLBACK, STATE
from mindspore_nsa.ops._gradient import cache_operator

HIDDEN = 48
CONFIG = NSAConfig(
    hidden_size=HIDDEN,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    value_head_dim=8,
    compress_block_size=8,
    compress_stride=4,
    select_block_size=8,
    select_block_count=4,
    init_blocks=1,
    local_blocks=2,
    window_size=12,
)
LAYERS = {
    "sparse": NativeSparseAttention,
    "dense": DenseAttention,
    "window": lambda config: DenseAttention(config, window=True),
}
CAPACITY = 150
MODES = ("pynative", "graph", "jit")


def make(kind, config=CONFIG):
    """A layer with parameters that matter, position encodings included."""
    layer = LAYERS[kind](config)
    rng = np.random.default_rng(7)
    for parameter in layer.get_parameters():
        drawn = rng.standard_normal(parameter.shape).astype(np.float32) * 0.3
        parameter.set_data(Tensor(drawn).astype(parameter.dtype))
    return layer


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(ours, expected, tolerance=2e-5):
    scale = np.abs(expected).max()
    assert np.abs(np.asarray(ours) - expected).max() <= tolerance * scale


def whole(layer, x):
    return layer(Tensor(x)).asnumpy()


class Step(nn.Cell):
    """A user's network around a layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, cache):
        return self.layer(x, cache=cache)


def stepper(layer, mode, marked=lambda net: net):
    net = marked(Step(layer))
    if mode == "jit":

        @ms.jit
        def step(x, cache):
            return net(x, cache)

        return step
    return net


EVERY_MODE = pytest.mark.parametrize("mode", MODES, indirect=True)


@pytest.mark.parametrize(
    "kind, mode",
    [
        *((kind, "pynative") for kind in LAYERS),
        *(("sparse", "graph"), ("dense", "graph"), ("sparse", "jit")),
        *(
            pytest.param(k, m, marks=pytest.mark.soak)
            for k, m in (("window", "graph"), ("dense", "jit"))
        ),
    ],
    indirect=["mode"],
)
def test_prompt_then_tokens(kind, mode):
    layer = make(kind)
    x = draw(2, 60, HIDDEN)
    expected = whole(layer, x)
    cache = layer.new_cache(2, CAPACITY)
    step = stepper(layer, mode)
    first = step(Tensor(x[:, :43]), cache).asnumpy()
    rest = [step(Tensor(x[:, t : t + 1]), cache).asnumpy() for t in range(43, 60)]
    close(np.concatenate([first, *rest], 1), expected)
    assert cache.lengths.asnumpy().tolist() == [60, 60]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2, 3))])
@pytest.mark.parametrize("kind", LAYERS)
def test_random_splits_of_ragged_rows(kind, seed):
    """Chunks of any size, rows that join, leave and go back."""
    layer = make(kind)
    rows, longest = 3, 140
    rng = np.random.default_rng((3, seed))
    x = draw(rows, longest, HIDDEN, seed=1 + seed)
    expected = whole(layer, x)
    cache = layer.new_cache(rows, CAPACITY)
    lengths, most = np.zeros(rows, int), np.zeros(rows, int)
    for _ in range(60):
        if rng.random() < 0.2:
            lowest = np.maximum(0, most - ROLLBACK)
            lengths = np.maximum(lowest, lengths - rng.integers(0, 40, rows))
            cache.truncate(lengths.tolist())
        if rng.random() < 0.1:
            row = int(rng.integers(rows))
            cache.reset(row)
            lengths[row] = most[row] = 0
        most[lengths == 0] = 0
        counts = np.minimum(rng.choice((0, 1, 1, 3, 17, 100), rows), longest - lengths)
        if counts.sum() == 0:
            continue
        parts = [x[b, lengths[b] : lengths[b] + counts[b]] for b in range(rows)]
        ends = np.cumsum(counts).tolist()
        ours = layer(Tensor(np.concatenate(parts)), ends, cache=cache).asnumpy()
        for b in range(rows):
            if counts[b]:
                piece = ours[ends[b] - counts[b] : ends[b]]
                close(piece, expected[b, lengths[b] : lengths[b] + counts[b]], 5e-5)
        lengths += counts
        most = np.maximum(most, lengths)
        assert cache.lengths.asnumpy().tolist() == lengths.tolist()


@pytest.mark.parametrize("kind", LAYERS)
def test_what_was_rolled_back_was_never_written(kind):
    layer = make(kind)
    x, other = draw(1, 90, HIDDEN), draw(1, 30, HIDDEN, seed=5)
    plain, back = layer.new_cache(1, CAPACITY), layer.new_cache(1, CAPACITY)
    layer(Tensor(x[:, :60]), cache=plain)
    layer(Tensor(x[:, :60]), cache=back)
    layer(Tensor(x[:, 60:]), cache=back)
    back.truncate(60)
    for t in range(30):
        token = Tensor(other[:, t : t + 1])
        a, b = layer(token, cache=plain), layer(token, cache=back)
        assert a.asnumpy().tobytes() == b.asnumpy().tobytes(), t


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_one_graph_for_all_lengths(kind):
    layer = make(kind)
    cache = layer.new_cache(2, CAPACITY)
    x = Tensor(draw(2, 1, HIDDEN))
    net = Step(layer)
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        for _ in range(4):
            net(x, cache)
        cache.truncate([1, 2])
        cache.reset(1)
        net(x, cache)
        assert len(net.compile_cache) == 1
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert cache.lengths.asnumpy().tolist() == [2, 1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", LAYERS)
def test_narrow_caches(kind, dtype):
    layer = make(kind)
    x = draw(2, 60, HIDDEN)
    expected = layer(Tensor(x).astype(getattr(ms, dtype))).astype(ms.float32).asnumpy()
    cache = layer.new_cache(2, CAPACITY, getattr(ms, dtype))
    assert cache[1].dtype == getattr(ms, dtype)
    narrow = Tensor(x).astype(getattr(ms, dtype))
    parts = [layer(narrow[:, a:b], cache=cache) for a, b in ((0, 37), (37, 38), (38, 60))]
    ours = np.concatenate([p.astype(ms.float32).asnumpy() for p in parts], 1)
    close(ours, expected, 6e-2)


MARKS = {
    "to_float": lambda net, dtype: net.to_float(dtype),
    "O2": lambda net, dtype: ms.amp.auto_mixed_precision(net, "O2", dtype=dtype),
    "O3": lambda net, dtype: ms.amp.auto_mixed_precision(net, "O3", dtype=dtype),
}
MARKED = pytest.mark.parametrize(
    "kind, mark, dtype",
    [
        ("sparse", "to_float", "float16"),
        ("sparse", "O2", "bfloat16"),
        ("dense", "O2", "float16"),
        ("dense", "O3", "bfloat16"),
    ],
)


@MARKED
def test_mixed_precision_around(kind, mark, dtype, mode):
    """By itself a cache is of the dtype that a graph casts floating arguments to."""
    layer = make(kind)
    x = draw(2, 40, HIDDEN)
    expected = whole(layer, x)
    narrow = getattr(ms, dtype)
    step = stepper(layer, mode, lambda net: MARKS[mark](net, narrow))
    cache = layer.new_cache(2, CAPACITY)
    assert cache[1].dtype == narrow
    parts = [step(Tensor(x[:, a:b]), cache) for a, b in ((0, 38), (38, 39), (39, 40))]
    ours = np.concatenate([p.astype(ms.float32).asnumpy() for p in parts], 1)
    close(ours, expected, 6e-2)
    assert cache.lengths.asnumpy().tolist() == [40, 40]


@pytest.mark.parametrize(
    "kind, mark, dtype", [("sparse", "to_float", "float16"), ("dense", "O3", "bfloat16")]
)
def test_a_cache_that_mixed_precision_casts(kind, mark, dtype, mode):
    """Keys and values would go into a copy that nobody reads. PyNative mode casts no argument."""
    layer = make(kind)
    x = draw(2, 40, HIDDEN)
    expected = whole(layer, x)
    cache = layer.new_cache(2, CAPACITY)
    step = stepper(layer, mode, lambda net: MARKS[mark](net, getattr(ms, dtype)))
    if mode == "pynative":
        parts = [step(Tensor(x[:, a:b]), cache) for a, b in ((0, 38), (38, 40))]
        ours = np.concatenate([p.astype(ms.float32).asnumpy() for p in parts], 1)
        return close(ours, expected, 6e-2)
    before = [t.asnumpy().copy() for t in cache]
    text = rf"made with, float32, got {dtype}: .* new_cache\(..., dtype={dtype}\)"
    with pytest.raises(RuntimeError, match=f"cache must be of the dtype that it was {text}"):
        step(Tensor(x[:, :38]), cache).asnumpy()
    for ours, old in zip(cache, before, strict=True):
        assert np.array_equal(ours.asnumpy(), old)


@EVERY_MODE
def test_a_cast_copy_of_a_cache(mode):
    layer = make("sparse")
    state, *others = layer.new_cache(2, CAPACITY)
    cast = AttentionCache((state, *(t.astype(ms.bfloat16) for t in others)))
    text = "cache must be of the dtype that it was made with, float32, got bfloat16"
    with pytest.raises((TypeError, RuntimeError), match=text):
        stepper(layer, mode)(Tensor(draw(2, 3, HIDDEN)), cast).asnumpy()
    assert cast.lengths.asnumpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    "kind, mode",
    [*((kind, "pynative") for kind in LAYERS), ("sparse", "graph")],
    indirect=["mode"],
)
def test_copies(kind, mode):
    """A deep one goes its own way, from the same tokens; a shallow one is the cache itself."""
    layer = make(kind)
    x, other = draw(2, 30, HIDDEN), draw(2, 30, HIDDEN, seed=5)
    other[:, :20] = x[:, :20]
    step = stepper(layer, mode)
    cache = layer.new_cache(2, CAPACITY)
    fresh = copy.deepcopy(cache)
    step(Tensor(x[:, :20]), cache)
    assert fresh.lengths.asnumpy().tolist() == [0, 0]
    branch, twice = copy.deepcopy([cache, cache])
    assert twice is branch and isinstance(branch, AttentionCache)
    for rows, its in ((x, cache), (other, branch)):
        parts = [step(Tensor(rows[:, t : t + 1]), its).asnumpy() for t in range(20, 30)]
        close(np.concatenate(parts, 1), whole(layer, rows)[:, 20:])
    branch.truncate(25)
    assert cache.lengths.asnumpy().tolist() == [30, 30]

    same = copy.copy(cache)
    same.truncate(20)
    assert isinstance(same, AttentionCache) and same is not cache
    assert cache.lengths.asnumpy().tolist() == [20, 20]


def test_size():
    """A tenth more than a dense cache of one set, where the window is short beside the capacity."""
    config = NSAConfig(hidden_size=64, num_heads=8, num_kv_heads=2, head_dim=32)
    sparse = NativeSparseAttention(config).new_cache(1, 32768)
    dense = DenseAttention(config).new_cache(1, 32768)
    assert sparse.nbytes <= 1.1 * dense.nbytes
    assert sparse.capacity == dense.capacity == 32768
    # A graph pays for each of its arguments.
    assert (len(sparse), len(dense)) == (3, 2)


@EVERY_MODE
def test_a_full_cache_is_an_error_before_anything_is_written(mode):
    layer = make("sparse")
    cache = layer.new_cache(2, 20)
    step = stepper(layer, mode)
    step(Tensor(draw(2, 18, HIDDEN)), cache)
    before = [t.asnumpy().copy() for t in cache]
    error = ValueError if mode == "pynative" else RuntimeError
    with pytest.raises(error, match="21 tokens of row 0 .length 18.*capacity 20"):
        step(Tensor(draw(2, 3, HIDDEN)), cache).asnumpy()
    for ours, old in zip(cache, before, strict=True):
        assert np.array_equal(ours.asnumpy(), old)


def test_a_cache_in_another_tuple_goes_back_as_far():
    layer = make("sparse")
    made = layer.new_cache(2, CAPACITY)
    layer(Tensor(draw(2, 90, HIDDEN)), cache=made)
    cache = AttentionCache(tuple(made))
    with pytest.raises(ValueError, match="0 or at least 26 for row 1, which had 90 tokens"):
        cache.truncate([80, 3])
    cache.truncate([80, 26])
    assert made.lengths.asnumpy().tolist() == [80, 26]


@EVERY_MODE
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_parts_of_larger_tensors(kind, mode):
    """A cache of views would be a copy where it is written: an error, and nothing is written."""
    layer = make(kind)
    stacks = [ms.ops.stack([tensor, tensor]) for tensor in layer.new_cache(2, CAPACITY)]
    before = [stack.asnumpy().copy() for stack in stacks]
    views = AttentionCache(stack[1] for stack in stacks)
    error = ValueError if mode == "pynative" else RuntimeError
    with pytest.raises(error, match="must be no view|does not support view input"):
        stepper(layer, mode)(Tensor(draw(2, 9, HIDDEN)), views).asnumpy()
    if mode == "pynative":
        # The first rows begin where the whole Tensor does.
        first = AttentionCache(tensor[:1] for tensor in layer.new_cache(2, CAPACITY))
        with pytest.raises(ValueError, match="must be no view"):
            layer(Tensor(draw(1, 9, HIDDEN)), cache=first)
    for stack, old in zip(stacks, before):
        np.testing.assert_array_equal(stack.asnumpy(), old)


def test_new_caches_make_no_operators():
    """MindSpore keeps every Custom that it has run: a server makes many caches."""
    layer, x = make("sparse"), Tensor(draw(2, 3, HIDDEN))
    kept, sizes = [], []
    for _ in range(3):
        kept.append(layer.new_cache(2, CAPACITY))
        layer(x, cache=kept[-1]).asnumpy()
        sizes.append(cache_operator.cache_info().currsize)
    assert sizes[0] == sizes[2]


def test_blocks_far_longer_than_all_tokens():
    """They take no longer than blocks of as many tokens, and change no bit."""
    found = []
    for size in (CAPACITY + 2, 2**40):
        config = replace(CONFIG, select_block_size=size, select_block_count=2, local_blocks=1)
        layer = make("sparse", config)
        x, cache = Tensor(draw(1, 90, HIDDEN)), layer.new_cache(1, CAPACITY)
        found.append([layer(part, cache=cache).asnumpy() for part in (x[:, :80], x[:, 80:])])
        close(np.concatenate(found[-1], 1), whole(layer, x.asnumpy()))
    for few, many in zip(*found):
        np.testing.assert_array_equal(few, many)


def test_wrong_arguments():
    layer = make("sparse")
    for batch, capacity, error in ((0, 5, ValueError), (2, 0, ValueError), (2.0, 5, TypeError)):
        with pytest.raises(error, match="NativeSparseAttention.new_cache: "):
            layer.new_cache(batch, capacity)
    with pytest.raises(TypeError, match="dtype must be float16, bfloat16 or float32"):
        layer.new_cache(1, 5, ms.int32)
    cache = layer.new_cache(2, 100)
    layer(Tensor(draw(2, 90, HIDDEN)), cache=cache)
    with pytest.raises(ValueError, match=r"lengths must be in \[0, 90\] for row 0, got 91"):
        cache.truncate(91)
    with pytest.raises(ValueError, match="0 or at least 26 for row 1, which had 90 tokens"):
        cache.truncate([80, 3])
    with pytest.raises(ValueError, match=r"rows must be in \[0, 2\), got 2"):
        cache.reset(2)
    for lengths in (1.5, True, None, "a", [[1, 2]], [[1], [1, 2]], [None, 1], [1.0, 2.0]):
        with pytest.raises(TypeError, match="AttentionCache.truncate: lengths must be ints: .*got"):
            cache.truncate(lengths)
    with pytest.raises(
        TypeError, match=r"AttentionCache.reset: rows must be ints: .*got 1.5 .float"
    ):
        cache.reset(1.5)
    for lengths in ([], [1], [1, 2, 3]):
        text = f"truncate: lengths must be one for all or 2, one for every row, got {len(lengths)}"
        with pytest.raises(ValueError, match=text):
            cache.truncate(lengths)
    cache.reset([])
    assert cache.lengths.asnumpy().tolist() == [90, 90]
    with pytest.raises(ValueError, match="one that this kind of layer made"):
        layer(Tensor(draw(2, 1, HIDDEN)), cache=make("dense").new_cache(2, 100))
    other = make("sparse", replace(CONFIG, window_size=CONFIG.window_size + 1))
    with pytest.raises(ValueError, match="made for window_size 13, got one for window_size 12"):
        other(Tensor(draw(2, 1, HIDDEN)), cache=cache)
    with pytest.raises(
        ValueError, match="cache must have a row for each of the 3 rows of x, got 2"
    ):
        layer(Tensor(draw(3, 1, HIDDEN)), cache=cache)
    text = "cache must have a row for each of the 3 documents of actual_seq_len, got 2"
    for ends in ((1, 2, 2), Tensor([1, 2, 2])):
        with pytest.raises(ValueError, match=text):
            layer(Tensor(draw(2, HIDDEN)), ends, cache=cache)
    with pytest.raises(ValueError, match=r"bytes of memory of this machine .*, got 10{20}, with"):
        layer.new_cache(2, 10**20)
    with pytest.raises(
        ValueError, match="NativeSparseAttention.new_cache: capacity must be one that"
    ):
        layer.new_cache(2, 10**12)


def test_how_far_a_row_goes_back():
    """64 tokens from the most it had since it was empty, once the shorter ring has lost a token."""
    layer = make("sparse")
    ring = min(CONFIG.window_size, CONFIG.compress_block_size) + 64
    cache = layer.new_cache(1, 100)

    def filled(tokens):
        cache.reset()
        layer(Tensor(draw(1, tokens, HIDDEN)), cache=cache)
        return cache

    filled(ring).truncate(1)
    with pytest.raises(ValueError, match=f"0 or at least {ring - 63} .* had {ring + 1} tokens"):
        filled(ring + 1).truncate(ring - 64)
    cache.truncate(ring - 63)
    filled(100).truncate(50)
    with pytest.raises(ValueError, match="0 or at least 36 for row 0, which had 100 tokens"):
        cache.truncate(35)
    cache.truncate(36)
    filled(30).truncate(5)
    assert cache.lengths.asnumpy().tolist() == [5]
    with pytest.raises(ValueError, match=r"rows must be in \[0, 1\), got -1"):
        cache.reset(-1)


def test_a_state_of_which_the_rings_hold_too_little():
    """Only the operator knows of a state that no call made; its error has every number."""
    layer = make("sparse")
    right, x = layer.new_cache(2, CAPACITY), Tensor(draw(2, 1, HIDDEN))
    layer(Tensor(draw(2, 90, HIDDEN)), cache=right)
    need = CONFIG.window_size - 1
    most = 90 + CONFIG.window_size + ROLLBACK - need  # tokens that row 1 may have had

    def step(length, written):
        cache = copy.deepcopy(right)
        state = cache[STATE].asnumpy().copy()
        state[1, HEADER:] = length, written
        ms.ops.assign(cache[STATE], Tensor(state))
        layer(x, cache=cache).asnumpy()

    step(90, most)
    text = (
        f"lengths must be such that the rings still hold the {need} tokens before it, which they "
        f"do at most {most - 90} tokens back, got 90 of row 1, which had {most + 1}"
    )
    with pytest.raises(RuntimeError, match=text):
        step(90, most + 1)
    with pytest.raises(RuntimeError, match="lengths must be >= 0, got -1 of row 1"):
        step(-1, 0)


@pytest.mark.parametrize("kind", LAYERS)
def test_nothing_beside_a_cache_is_written(kind):
    """Its Tensors lie in the middle of larger arrays."""
    layer, beside, arrays = make(kind), 64, []
    for tensor in layer.new_cache(2, CAPACITY):
        first = tensor.asnumpy()
        arrays.append(np.full(first.size + 2 * beside, 7, first.dtype))
        arrays[-1][beside:-beside] = first.ravel()
    shapes = [tensor.shape for tensor in layer.new_cache(2, CAPACITY)]
    inside = [array[beside:-beside].reshape(shape) for array, shape in zip(arrays, shapes)]
    cache = AttentionCache(map(Tensor.from_numpy, inside))
    for tokens in (1, CAPACITY - 2, 1):
        layer(Tensor(draw(2, tokens, HIDDEN)), cache=cache).asnumpy()
    assert inside[STATE][:, HEADER].tolist() == [CAPACITY, CAPACITY]
    for array in arrays:
        assert (array[:beside] == 7).all() and (array[-beside:] == 7).all()


def test_no_gradient():
    layer = make("sparse")
    cache = layer.new_cache(1, 20)

    def total(x):
        return layer(x, cache=cache).sum()

    with pytest.raises(RuntimeError, match="it has no gradient, because it reads a cache"):
        ms.grad(total)(Tensor(draw(1, 3, HIDDEN))).asnumpy()
