"""A cache in files: saved, loaded in another process or for other rows, and for its layer alone."""

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from mindspore_nsa.nn import AttentionCache, DenseAttention, NativeSparseAttention
from mindspore_nsa.nn.cache_state import DTYPE, HEADER, LAYER
from mindspore_nsa.nn.layer_number import LayerParts
from tests.common.children import python
from tests.ops.calls import context_mode

from .test_cache import CAPACITY, CONFIG, HIDDEN, draw, make, stepper
from .test_cache_rows import bits, fed, goes_on

LENGTHS = (90, 0, 33)
NAMES = ("state", "selected", "others")


def through_npz(cache, path):
    np.savez(path / "cache.npz", **cache.to_dict())
    with np.load(path / "cache.npz") as parts:
        return AttentionCache.from_dict(parts)


def through_pickle(cache, path):
    return pickle.loads(pickle.dumps(cache))


def through_a_checkpoint(cache, path):
    named = [{"name": name, "data": tensor} for name, tensor in zip(NAMES, cache)]
    ms.save_checkpoint(named, str(path / "cache.ckpt"))
    return AttentionCache.from_dict(ms.load_checkpoint(str(path / "cache.ckpt")))


def by_hand(cache, path):
    """The Tensors themselves, whose bfloat16 NumPy's files hand back as two bytes of no type."""
    np.savez(path / "tensors.npz", **{name: t.asnumpy() for name, t in zip(NAMES, cache)})
    return AttentionCache.from_dict(dict(np.load(path / "tensors.npz")))


WAYS = (through_npz, through_pickle, through_a_checkpoint, by_hand)


def filled(layer, x, dtype):
    cache = layer.new_cache(len(LENGTHS), CAPACITY, getattr(ms, dtype))
    fed(layer, cache, x, LENGTHS)
    return cache


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "kind, dtype", [("sparse", "float16"), ("sparse", "bfloat16"), ("dense", "float32")]
)
def test_a_loaded_cache_goes_on(kind, dtype, way, tmp_path):
    """To the bit, in a model that was made again, whose layers have other numbers."""
    x, more = draw(3, 100, HIDDEN), draw(3, 3, HIDDEN, seed=4)
    layer = make(kind)
    cache = filled(layer, x, dtype)
    before = [bits(t) for t in cache]
    again = make(kind)
    for mode in ("pynative", "graph"):
        loaded = way(cache, tmp_path)
        assert isinstance(loaded, AttentionCache) and loaded[1].dtype == getattr(ms, dtype)
        assert [bits(t) for t in loaded[1:]] == before[1:]
        assert loaded.lengths.asnumpy().tolist() == list(LENGTHS)
        with context_mode(mode):
            ours = goes_on(stepper(again, mode), loaded, more)
            # It is this layer's from now on, in the rows that it wrote to.
            with pytest.raises((ValueError, RuntimeError), match="one that no other layer writes"):
                stepper(layer, mode)(Tensor(more[:, :1]), loaded).asnumpy()
    assert [bits(t) for t in cache] == before
    assert ours == goes_on(stepper(layer, "pynative"), cache, more)


def test_arrays_of_any_order():
    """Arrays of any byte order and order of dimensions load, and nobody may write to them."""
    layer, x = make("sparse"), draw(3, 100, HIDDEN)
    cache = filled(layer, x, "float16")
    parts = {k: np.asfortranarray(v, v.dtype.newbyteorder("S")) for k, v in cache.to_dict().items()}
    for part in parts.values():
        part.setflags(write=False)
    loaded = AttentionCache.from_dict(parts)
    assert [bits(t) for t in loaded[1:]] == [bits(t) for t in cache[1:]]
    assert loaded.lengths.asnumpy().tolist() == list(LENGTHS)


def test_other_rows(tmp_path):
    """A saved prompt for a larger batch: chosen, repeated, beside other rows, with more room."""
    layer, x = make("sparse"), draw(3, 100, HIDDEN)
    saved = through_npz(filled(layer, x, "bfloat16"), tmp_path)
    running = layer.new_cache(2, CAPACITY + 50, ms.bfloat16)
    fed(layer, running, x[1:], (12, 50))
    prompts = saved.grow(running.capacity).select([2, 0, 0])
    joined = AttentionCache(ops.concat(pair, 0) for pair in zip(running, prompts))
    counts, rows = (12, 50, 33, 90, 90), [1, 2, 2, 0, 0]
    assert joined.lengths.asnumpy().tolist() == list(counts)
    fresh = layer.new_cache(5, CAPACITY + 50, ms.bfloat16)
    fed(layer, fresh, x[rows], counts)
    more, step = draw(5, 3, HIDDEN, seed=4), stepper(layer, "pynative")
    assert goes_on(step, joined, more) == goes_on(step, fresh, more)


class Model(nn.Cell):
    """Two layers, as a model has them; `first` layers that nobody calls are made before."""

    def __init__(self, kind, config, first=0):
        super().__init__()
        for _ in range(first):
            make(kind, config)
        self.layers = nn.CellList([make(kind, config), make(kind, config)])


class At(nn.Cell):
    """A model's layer with a number, called where it stands."""

    def __init__(self, model, number):
        super().__init__()
        self.model, self.number = model, number

    def construct(self, x, cache):
        return self.model.layers[self.number](x, cache=cache)


def test_the_place_in_a_model():
    """A cache of another layer of the model is refused, also after a file."""
    model = Model("sparse", CONFIG)
    x = Tensor(draw(2, 5, HIDDEN))
    cache = model.layers[1].new_cache(2, CAPACITY)
    model.layers[1](x, cache=cache)
    other = Model("sparse", CONFIG, first=3)
    text = "cache must be one of layer 0 of its model, got the tokens of layer 1 in row 0"
    for mode in ("pynative", "graph"):
        loaded = AttentionCache.from_dict(cache.to_dict())
        with context_mode(mode):
            with pytest.raises((ValueError, RuntimeError), match=text):
                At(other, 0)(x, loaded).asnumpy()
            assert At(other, 1)(x, loaded).shape == (2, 5, HIDDEN)
    # An empty row is anybody's.
    loaded.reset()
    other.layers[0](x, cache=loaded)
    # A Cell around a layer alone names it anew, which makes no other of it.
    loaded = AttentionCache.from_dict(cache.to_dict())
    for around in (nn.CellList([other.layers[1]]), stepper(other.layers[1], "pynative")):
        other.layers[1](x, cache=loaded)
        assert next(around.get_parameters()).name[:2] in ("0.", "la")


def test_copies_of_a_layer_in_a_model():
    """Copies of one layer are told apart by their places; alone they are taken for it."""
    layer, x = make("dense"), Tensor(draw(2, 5, HIDDEN))
    model = Model("dense", CONFIG)
    model.layers = nn.CellList([copy.deepcopy(layer) for _ in range(2)])
    cache = layer.new_cache(2, CAPACITY)
    model.layers[0](x, cache=cache)
    text = "cache must be one of layer 1 of its model, got the tokens of layer 0 in row 0"
    for mode in ("pynative", "graph"):
        with context_mode(mode), pytest.raises((ValueError, RuntimeError), match=text):
            At(model, 1)(x, cache).asnumpy()
    copy.deepcopy(layer)(x, cache=cache)


OTHERS = {
    "pairs": dict(rope_pairs="interleaved"),
    "query heads": dict(num_heads=8),
    "norms": dict(qk_norm=True),
    "biases": dict(has_bias=True),
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_cache_of_another_model(other):
    """Refused although keys and values have equal sizes: they mean something else."""
    x, layer = Tensor(draw(2, 5, HIDDEN)), make("sparse")
    cache = layer.new_cache(2, CAPACITY)
    layer(x, cache=cache)
    loaded = AttentionCache.from_dict(cache.to_dict())
    text = "one of a layer of the same hidden_size, num_heads, .*, got the tokens of another layer"
    before = [bits(t) for t in loaded]
    for mode in ("pynative", "graph"):
        with context_mode(mode), pytest.raises((ValueError, RuntimeError), match=text):
            stepper(make("sparse", replace(CONFIG, **OTHERS[other])), mode)(x, loaded).asnumpy()
    assert [bits(t) for t in loaded] == before
    # Options that only say how the keys are read may change.
    make("sparse", replace(CONFIG, select_block_count=3, gating="residual"))(x, cache=loaded)


CHILD = """
import sys

import numpy as np
from mindspore import Tensor

sys.path.append(sys.argv[3])
from tests.nn.test_cache import CONFIG, HIDDEN, draw
from tests.nn.test_cache_saved import Model, load_all

path = sys.argv[1]
model = Model("sparse", CONFIG, first=int(sys.argv[2]))
x = Tensor(draw(2, 3, HIDDEN, seed=4))
out = [layer(x, cache=cache).asnumpy() for layer, cache in zip(model.layers, load_all(path))]
np.savez(path + "/after.npz", *out)
caches = load_all(path)
try:
    model.layers[0](x, cache=caches[1])
except ValueError as error:
    print(error)
"""


def save_all(path, caches):
    """Save caches like docs/decoding.md."""
    np.savez(
        f"{path}/caches.npz",
        **{
            f"{i}.{k}": part
            for i, cache in enumerate(caches)
            for k, part in cache.to_dict().items()
        },
    )


def load_all(path):
    with np.load(f"{path}/caches.npz") as parts:
        return [AttentionCache.from_dict({k: parts[f"{i}.{k}"] for k in NAMES}) for i in range(2)]


@pytest.mark.parametrize("first", [3])
def test_another_process(first, tmp_path):
    """Where other layers were made before, so that running numbers are others."""
    model = Model("sparse", CONFIG)
    caches = [layer.new_cache(2, CAPACITY, ms.bfloat16) for layer in model.layers]
    for layer, cache in zip(model.layers, caches):
        layer(Tensor(draw(2, 40, HIDDEN)), cache=cache)
    save_all(tmp_path, caches)
    done = python(CHILD, str(tmp_path), str(first), str(Path(__file__).parents[2]))
    assert "one of layer 0 of its model, got the tokens of layer 1" in done.stdout, done.stderr
    x = Tensor(draw(2, 3, HIDDEN, seed=4))
    with np.load(tmp_path / "after.npz") as after:
        for name, layer, cache in zip(after, model.layers, caches):
            assert np.array_equal(after[name], layer(x, cache=cache).asnumpy())


def test_caches_of_earlier_versions():
    """Their numbers ran from 1 on in a process and say nothing in another."""
    layer, x = make("sparse"), Tensor(draw(2, 5, HIDDEN))
    cache = layer.new_cache(2, CAPACITY)
    layer(x, cache=cache)
    parts = cache.to_dict()
    parts["state"][:, LAYER] = 7
    layer(x, cache=AttentionCache(Tensor(part) for part in parts.values()))


def test_the_parts_of_a_number():
    parts = LayerParts(process=2**18 - 1, config=3, place=2**11 - 1, own=5)
    assert LayerParts.of(parts.packed()) == parts and 0 < parts.packed() < 2**60
    layer = make("dense")
    number = layer.number()
    assert LayerParts.of(number).place == 0 and min(LayerParts.of(number)._replace(place=1)) > 0


def changed(name, change):
    """The arrays of a cache, one of them changed."""
    layer = make("sparse")
    parts = filled(layer, draw(3, 100, HIDDEN), "float16").to_dict()
    parts[name] = change(parts[name])
    return parts


def with_state(row, column, value):
    def change(state):
        state[row, column] = value
        return state

    return changed("state", change)


@pytest.mark.parametrize(
    "parts, error, text",
    [
        (lambda: 3, TypeError, "parts must be a dict, as to_dict gives it, got 3"),
        (lambda: {}, ValueError, "parts must have the names state, selected and, .*, got none"),
        (
            lambda: {**changed("state", np.copy), "more": 1},
            ValueError,
            "parts must have the names .*, got more, others, selected, state",
        ),
        (lambda: changed("selected", list), TypeError, r"parts\['selected'\] must be an array or"),
        (
            lambda: changed("state", lambda s: s.astype(np.int32)),
            TypeError,
            r"parts\['state'\] must be of dtype int64, got int32",
        ),
        (
            lambda: changed("state", lambda s: s[:, :-1]),
            ValueError,
            rf"parts\['state'\] must be of shape \(B, {HEADER + 2}\), got \(3, {HEADER + 1}\)",
        ),
        (
            lambda: with_state(1, 0, 8),
            ValueError,
            "must be of rows of one cache, got row 1 of other sizes than row 0",
        ),
        (
            lambda: with_state(slice(None), DTYPE, 1),
            ValueError,
            "must be that of a cache, got dtype 1",
        ),
        (
            lambda: with_state(slice(None), 8, 0),
            ValueError,
            "must be that of a cache, got compress_stride 0",
        ),
        (
            lambda: with_state(2, HEADER, CAPACITY + 1),
            ValueError,
            rf"must be of lengths in \[0, {CAPACITY}\] .*, got \[151, 33\] in row 2",
        ),
        (
            lambda: with_state(0, HEADER + 1, 5),
            ValueError,
            r"must be of lengths in .*, got \[90, 5\] in row 0",
        ),
        (
            lambda: changed("selected", lambda a: a.astype(np.float32)),
            TypeError,
            r"parts\['selected'\] must be of the dtype that the state says, float16, got float32",
        ),
        (
            lambda: changed("selected", lambda a: a[:2]),
            ValueError,
            r"parts\['selected'\] must be of shape \(B, N2, places, D \+ Dv\) = \(3, any, any, 24",
        ),
        (
            lambda: changed("others", lambda a: a[:, :, 1:]),
            ValueError,
            r"parts\['others'\] must be of shape .* = \(3, 2, \d+, 24\), got \(3, 2, ",
        ),
        (
            lambda: {k: v for k, v in changed("state", np.copy).items() if k != "others"},
            ValueError,
            "must have the name others if the state is that of a sparse layer, got state, selected",
        ),
    ],
)
def test_what_is_no_cache(parts, error, text):
    with pytest.raises(error, match=f"AttentionCache.from_dict: .*{text}"):
        AttentionCache.from_dict(parts())


def test_kinds_stay_apart():
    """A dense layer's file for a sparse one, and the reverse."""
    x = Tensor(draw(2, 5, HIDDEN))
    for one, other in (
        (DenseAttention, NativeSparseAttention),
        (NativeSparseAttention, DenseAttention),
    ):
        loaded = AttentionCache.from_dict(one(CONFIG).new_cache(2, CAPACITY).to_dict())
        with pytest.raises(ValueError, match="one that this kind of layer made"):
            other(CONFIG)(x, cache=loaded)
