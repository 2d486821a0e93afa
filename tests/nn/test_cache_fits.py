"""An object that is no cache of the layer is refused before anything is written."""

from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.nn import AttentionCache
from mindspore_nsa.nn.cache_state import HEADER

from .test_cache import CAPACITY, CONFIG, HIDDEN, MODES, draw, make, stepper

# Layers whose caches have Tensors of the same shapes as those of CONFIG: kind, what is other, and
# how an error names both.
SWAPPED = dict(head_dim=8, value_head_dim=16)
TRADED = dict(window_size=15, compress_block_size=4)
TWINS = {
    "head dims": (
        "sparse",
        SWAPPED,
        "head_dim 8, value_head_dim 16",
        "head_dim 16, value_head_dim 8",
    ),
    "dense head dims": (
        *("dense", SWAPPED),
        *("head_dim 8, value_head_dim 16", "head_dim 16, value_head_dim 8"),
    ),
    "rings": (
        *("sparse", TRADED),
        *("window_size 15, compress_block_size 4", "window_size 12, compress_block_size 8"),
    ),
    "angles": ("sparse", dict(rope_theta=1234.5625), "rope_theta 1234.5625", "rope_theta 10000"),
    "dense angles": ("dense", dict(rope_theta=5e-7), "rope_theta 5e-07", "rope_theta 10000"),
}


@ms.jit
def handed_on(cache):
    return cache


FORMS = {
    "cache": lambda cache: cache,
    "tuple": lambda cache: ms.mutable(tuple(cache)),
    "through a jit function": lambda cache: ms.mutable(tuple(handed_on(cache))),
}


@pytest.mark.parametrize(
    "twin, form, mode",
    # The forms differ in how a graph gets the state, not in what it says.
    [
        *((twin, "cache", "pynative") for twin in TWINS),
        *(("rings", form, "graph") for form in FORMS),
        ("dense head dims", "cache", "graph"),
    ],
    indirect=["mode"],
)
def test_the_cache_of_another_layer_of_equal_shapes(twin, form, mode):
    kind, others, ours, its = TWINS[twin]
    made = make(kind).new_cache(2, CAPACITY)
    make(kind)(Tensor(draw(2, 5, HIDDEN)), cache=made)
    other = make(kind, replace(CONFIG, **others))
    assert [t.shape for t in other.new_cache(2, CAPACITY)] == [t.shape for t in made]
    before = [t.asnumpy().copy() for t in made]
    errors = ValueError if mode == "pynative" else (ValueError, RuntimeError)
    with pytest.raises(errors, match=f"cache must be one made for {ours}, got one for {its}"):
        stepper(other, mode)(Tensor(draw(2, 1, HIDDEN)), FORMS[form](made)).asnumpy()
    for tensor, old in zip(made, before, strict=True):
        assert np.array_equal(tensor.asnumpy(), old)


# The difference, and the text of the error.
UNFIT = {
    "kv heads": (
        dict(num_kv_heads=4),
        (2, CAPACITY, ms.float32),
        "for num_kv_heads 2, got one for 4",
    ),
    "batch": ({}, (4, CAPACITY, ms.float32), "a row for each of the 2 rows of x, got 4"),
    "mixed dtypes": ({}, (2, CAPACITY, ms.float16), "others must be of the dtype of selected"),
    "mixed, others narrow": ({}, (2, CAPACITY, ms.float32), "others must be of the dtype of sel"),
    "mixed capacities": ({}, (2, CAPACITY + 8, ms.float32), "others must be of shape"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_cache_that_does_not_fit(case, mode):
    """Some with Tensors of two caches."""
    others, arguments, message = UNFIT[case]
    layer = make("sparse")
    made = make("sparse", replace(CONFIG, **others)).new_cache(*arguments)
    if "mixed" in case:
        dtype = ms.float16 if case == "mixed, others narrow" else ms.float32
        made = AttentionCache((*made[:2], *layer.new_cache(2, CAPACITY, dtype)[2:]))
    before = [t.asnumpy().copy() for t in made]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        stepper(layer, mode)(Tensor(draw(2, 1, HIDDEN)), made).asnumpy()
    for tensor, old in zip(made, before, strict=True):
        assert np.array_equal(tensor.asnumpy(), old)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_length_that_nothing_can_be_added_to(kind, mode):
    layer = make(kind)
    made = layer.new_cache(2, CAPACITY)
    state = made[0].asnumpy().copy()
    state[0, HEADER] = np.iinfo(np.int64).max
    made = AttentionCache((Tensor(state), *made[1:]))
    before = [t.asnumpy().copy() for t in made]
    with pytest.raises((ValueError, RuntimeError), match="capacity"):
        stepper(layer, mode)(Tensor(draw(2, 1, HIDDEN)), made).asnumpy()
    for tensor, old in zip(made, before, strict=True):
        assert np.array_equal(tensor.asnumpy(), old)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind, other", [("sparse", "dense"), ("dense", "sparse")])
def test_a_cache_of_another_kind(kind, other, mode):
    made = make(other).new_cache(2, CAPACITY)
    before = [t.asnumpy().copy() for t in made]
    with pytest.raises(ValueError, match="one that this kind of layer made, got that of a"):
        stepper(make(kind), mode)(Tensor(draw(2, 1, HIDDEN)), made)
    for tensor, old in zip(made, before, strict=True):
        assert np.array_equal(tensor.asnumpy(), old)


NO_CACHES = {
    "str": "abc",
    "int": 5,
    "Tensor": Tensor(np.zeros((2, 2, CAPACITY, 24), np.float32)),
    "ints": [1, 2, 3],
    "dict": {"a": 1},
    "Nones": (None,) * 3,
    "None": (Tensor([1]), Tensor([1.0]), None),
    "arrays": (np.zeros(1), np.zeros((1, 1, 1, 1)), np.zeros((1, 1, 1, 1))),
}


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("kind, name", [("sparse", "NativeSparseAtt"), ("dense", "DenseAtt")])
def test_no_cache(kind, name, mode):
    """Objects that are no cache, and caches with too few Tensors."""
    step, x = stepper(make(kind), mode), Tensor(draw(2, 1, HIDDEN))
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    try:
        for given in NO_CACHES.values():
            text = f"{name}ention: cache must be an AttentionCache or a tuple of its Tensors, got "
            with pytest.raises(TypeError, match=text):
                step(x, given)
        for given in ((), []):
            with pytest.raises(ValueError, match=f"{name}ention: cache must be one that this kind"):
                step(x, given)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_a_tuple_in_another_order():
    layer = make("sparse")
    state, *others = layer.new_cache(2, CAPACITY)
    with pytest.raises(ValueError, match="one that this kind of layer made"):
        layer(Tensor(draw(2, 1, HIDDEN)), cache=(others[0], state, others[1]))
