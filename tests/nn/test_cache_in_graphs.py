"""How a graph may get a cache: a constant, to which it would write in vain, is refused."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from tests.ops.calls import context_mode

from .test_cache import CAPACITY, HIDDEN, close, draw, make, whole

LAYERS = [make("sparse"), make("dense")]
TWINS = [make("sparse"), make("sparse")]


class Stack(nn.Cell):
    """Two layers; `caches` may be any collection of theirs."""

    def __init__(self, names=(0, 1)):
        super().__init__()
        self.layers = nn.CellList(LAYERS)
        self.names = names

    def construct(self, x, caches):
        x = self.layers[0](x, cache=caches[self.names[0]])
        return self.layers[1](x, cache=caches[self.names[1]])


class Holder(nn.Cell):
    """A step with caches that are its attributes."""

    def __init__(self, layers, first, second):
        super().__init__()
        self.layers = nn.CellList(layers)
        self.first, self.second = first, second

    def construct(self, x):
        return self.layers[1](self.layers[0](x, cache=self.first), cache=self.second)


class Parameters(nn.Cell):
    """A step with caches that are Parameters."""

    def __init__(self, caches):
        super().__init__()
        self.layers = nn.CellList(LAYERS)
        both = [
            [
                ms.Parameter(t, name=f"cache{i}.{j}", requires_grad=False)
                for j, t in enumerate(cache)
            ]
            for i, cache in enumerate(caches)
        ]
        self.first, self.second = map(ms.ParameterTuple, both)

    def construct(self, x):
        return self.layers[1](self.layers[0](x, cache=self.first), cache=self.second)


def new(layers=LAYERS):
    return tuple(layer.new_cache(2, CAPACITY) for layer in layers)


def expected(x, layers=LAYERS):
    return whole(layers[1], whole(layers[0], x))


def decode(step, x, first=20):
    """The tokens of x, a prompt and then one by one."""
    parts = [step(Tensor(x[:, :first]))]
    parts += [step(Tensor(x[:, t : t + 1])) for t in range(first, x.shape[1])]
    return np.concatenate([part.asnumpy() for part in parts], 1)


BOTH = pytest.mark.parametrize("mode", ["pynative", "graph"])
COLLECTIONS = {
    "tuple": (lambda caches: caches, (0, 1)),
    "list": (list, (0, 1)),
    "plain tuples": (lambda caches: tuple(map(tuple, caches)), (0, 1)),
    "dict": (lambda caches: dict(zip("ab", caches)), "ab"),
}


@pytest.mark.parametrize(
    "collection, mode",
    # How graphs take apart what they are given; PyNative mode hands it on.
    [*((name, "graph") for name in COLLECTIONS), ("list", "pynative")],
)
def test_a_collection_has_to_be_mutable(collection, mode):
    gather, names = COLLECTIONS[collection]
    net, x = Stack(names), draw(2, 24, HIDDEN)
    with context_mode(mode):
        caches = new()
        mutable = ms.mutable(gather(caches))
        close(decode(lambda x: net(x, mutable), x), expected(x))
        caches[0].truncate(21)
        caches[1].truncate([21, 21])
        again = net(Tensor(x[:, 21:22]), mutable).asnumpy()
        close(again, expected(x)[:, 21:22])

        constant = gather(new())
        if mode == "pynative":
            return close(decode(lambda x: net(x, constant), x), expected(x))
        text = "NativeSparseAttention: cache must be an argument of the graph, .*mindspore.mutable"
        with pytest.raises(ValueError, match=text):
            net(Tensor(x), constant)


def test_a_plain_tuple_under_jit():
    layer = LAYERS[1]

    @ms.jit
    def step(x, cache):
        return layer(x, cache=cache)

    with pytest.raises(ValueError, match="DenseAttention: cache must be an argument of the graph"):
        step(Tensor(draw(2, 3, HIDDEN)), tuple(layer.new_cache(2, CAPACITY)))


@BOTH
def test_attributes(mode):
    """Equal ones, too, are not merged."""
    x = draw(2, 24, HIDDEN)
    result = expected(x, TWINS)
    with context_mode(mode):
        caches = new(TWINS)
        net = Holder(TWINS, *caches)
        close(decode(net, x), result)
        for cache in caches:
            cache.truncate(22)
        close(net(Tensor(x[:, 22:])).asnumpy(), result[:, 22:])
        for cache in caches:
            cache.reset()
        close(decode(net, x), result)


@BOTH
def test_parameters(mode):
    x = draw(2, 24, HIDDEN)
    with context_mode(mode):
        close(decode(Parameters(new()), x), expected(x))
