"""Layers after an error: the next good call is right, and nothing is left of the failed one."""

import numpy as np
import pytest
from mindspore import Tensor, nn

from tests.common.children import python
from tests.ops.calls import context_mode
from tests.ops.test_after_an_error import NOTE

from .test_cache import CAPACITY, HIDDEN, Step, draw, make, stepper


@pytest.mark.parametrize("mode", ["pynative", "graph", "jit"])
def test_a_full_cache(mode):
    """`reset` alone does not help a graph that has failed."""
    layer = make("sparse")
    cache, x = layer.new_cache(2, 20), Tensor(draw(2, 8, HIDDEN))
    with context_mode(mode):
        step = stepper(layer, mode)
        expected = [step(x, cache).asnumpy().copy() for _ in range(2)]
        error, note = (ValueError, "") if mode == "pynative" else (RuntimeError, f".*{NOTE}")
        with pytest.raises(error, match=f"24 tokens of row 0 .length 16.*capacity 20{note}"):
            step(x, cache).asnumpy()
        assert cache.lengths.asnumpy().tolist() == [16, 16]
        cache.reset()
        if mode == "graph":
            with pytest.raises(RuntimeError, match="error occurred in the previous step"):
                step(x, cache).asnumpy()
            step.compile_cache.clear()
        if mode == "jit":
            step = stepper(layer, mode)
        for before in expected:
            np.testing.assert_array_equal(step(x, cache).asnumpy(), before)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_layer_that_is_called_itself(kind):
    """Python checks what it can see before the graph begins, which runs on afterwards."""
    layer = make(kind)
    cache, x = layer.new_cache(2, 20), Tensor(draw(2, 8, HIDDEN))
    packed, ends = Tensor(draw(16, HIDDEN)), Tensor([8, 16])
    with context_mode("graph"):
        expected = layer(x, cache=cache).asnumpy().copy()
        again = layer(packed, ends).asnumpy().copy()
        layer(x, cache=cache)
        with pytest.raises(ValueError, match="24 tokens of row 0 .length 16.*capacity 20"):
            layer(x, cache=cache)
        cache.reset()
        np.testing.assert_array_equal(layer(x, cache=cache).asnumpy(), expected)
        for wrong in (Tensor([8, 15]), Tensor([9, 8])):
            with pytest.raises(ValueError, match="Attention: .*actual_seq_len must be"):
                layer(packed, wrong)
        np.testing.assert_array_equal(layer(packed, ends).asnumpy(), again)
        with pytest.raises(ValueError, match="must have a row for each of the 3 documents"):
            layer(packed, Tensor([8, 9, 16]), cache=cache)


class Packed(nn.Cell):
    """A network that knows its documents only when it runs."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, ends):
        return self.layer(x, ends)


def test_documents_of_a_network():
    net, x = Packed(make("sparse")), Tensor(draw(16, HIDDEN))
    with context_mode("graph"):
        expected = net(x, Tensor([8, 16])).asnumpy().copy()
        text = "NativeSparseAttention: .*actual_seq_len must be the 16 tokens of x, got 15"
        with pytest.raises(RuntimeError, match=f"{text}.*{NOTE}"):
            net(x, Tensor([8, 15])).asnumpy()
        net.compile_cache.clear()
        np.testing.assert_array_equal(net(x, Tensor([8, 16])).asnumpy(), expected)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_a_cache_by_position(mode):
    layer = make("sparse")
    cache, x = layer.new_cache(2, CAPACITY), Tensor(draw(2, 3, HIDDEN))
    text = "actual_seq_len must be .* got Tensors, as a cache holds them: a cache is given by name"
    with context_mode(mode), pytest.raises(TypeError, match=text):
        layer(x, cache)


def test_documents_as_arrays():
    layer, x = make("sparse"), Tensor(draw(16, HIDDEN))
    expected = layer(x, (5, 16)).asnumpy()
    for dtype in (np.int32, np.int64, np.uint8):
        ends = np.array([5, 16], dtype)
        np.testing.assert_array_equal(layer(x, ends).asnumpy(), expected)
        np.testing.assert_array_equal(layer.selected_blocks(x, ends).shape, (16, 2, 4))
    for wrong in (np.array([5.0, 16.0]), np.array([[5, 16]]), np.array([True, False])):
        with pytest.raises(
            TypeError, match="actual_seq_len must be a tuple or list of ints or a T"
        ):
            layer(x, wrong)


def test_no_memory_leaves_the_cache_as_it_was():
    """Scratch of a step over many tokens is missing after its token has been written."""
    done = python(
        """
import resource
import numpy as np
from mindspore_nsa import _native

heads, tokens, d = 64, 2**20, 2
theta, one = np.array([100.0, 1.0]).view(np.int64)
header = [d, d, theta, one, 0, one, *[0] * 4, 43, 0]


def step(length):
    state = np.array([[*header, length, length]])
    cache = np.zeros((1, 1, tokens, 2 * d), np.float32)
    query = np.ones((1, heads, d), np.float32)
    inputs = [query, query[:, :1], query[:, :1], cache, state]
    attrs = {"scale_value": 1.0, "theta": 100.0, "window_size": 2**31}
    return [*inputs, *[None] * 9], attrs, state


for length in (0, tokens - 2):
    inputs, attrs, state = step(length)
    if length:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1, hard))
    try:
        _native.run("NsaCacheStep", inputs, attrs)
    except MemoryError as error:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        print(error, state[0, -2:].tolist() == [length, length + 1])
    else:
        print(state[0, -2:].tolist())
(out,) = _native.run("NsaCacheStep", inputs, attrs)
print(out.shape, state[0, -2:].tolist() == [tokens - 1] * 2)
""",
        # Large blocks come from the system and go back to it.
        MALLOC_MMAP_THRESHOLD_="65536",
        MALLOC_MMAP_MAX_="65536",
        MALLOC_TRIM_THRESHOLD_="65536",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[1, 1]",
        "nsa_cache_step: no memory for the scratch of the call True",
        "(1, 64, 2) True",
    ]


def test_a_new_cell_is_another_graph():
    """The other way on that needs no new layer: its parameters stay."""
    layer = make("dense")
    cache, x = layer.new_cache(1, 4), Tensor(draw(1, 3, HIDDEN))
    with context_mode("graph"):
        failed = Step(layer)
        expected = failed(x, cache).asnumpy().copy()
        with pytest.raises(RuntimeError, match="capacity 4"):
            failed(x, cache).asnumpy()
        cache.reset()
        np.testing.assert_array_equal(Step(layer)(x, cache).asnumpy(), expected)
