"""Parts of a layer that were exchanged, hooked or marked are called, whatever the products."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from mindspore_nsa.nn import Gates, RotaryAngles
from mindspore_nsa.nn.precision import Projection
from tests.ops.calls import context_mode

from .cells import build, config, forget_products, tokens, use_own_products

MAPS = ("query", "key_value", "output", "gates.linear")
TOKENS = 50  # more than FEW_ROWS


@pytest.fixture(params=[True, False], ids=["own", "mindspore"], autouse=True)
def own(request, monkeypatch):
    """With an instruction set whose own products are used, and without."""
    use_own_products(monkeypatch, request.param)
    yield request.param
    forget_products()


def layer_of(kind="sparse", **changes):
    ms.set_seed(0)
    return build(kind, config(**changes))


def holder_of(layer, part):
    *path, last = part.split(".")
    for name in path:
        layer = getattr(layer, name)
    return layer, last


def part_of(layer, part):
    return getattr(*holder_of(layer, part))


class LowRank(nn.Cell):
    """The map of another Cell and a product of two small matrices."""

    def __init__(self, base):
        super().__init__()
        rng = np.random.default_rng(1)
        down = rng.standard_normal((base.in_channels, 2)).astype(np.float32)
        up = rng.standard_normal((2, base.out_channels)).astype(np.float32)
        self.base, self.down, self.up = base, ms.Parameter(down / 4), ms.Parameter(up)

    def added(self, x):
        return ops.matmul(ops.matmul(x, self.down), self.up)

    def construct(self, x, *more):
        return self.base(x, *more) + self.added(x)


class WithDtype(LowRank):
    """A wrapper that hands on the layer's precision."""

    def construct(self, x, dtype):
        return self.base(ops.cast(x, dtype)) + self.added(x)


class Merged(Projection):
    """A subclass, with the weight that the other wrappers come to."""

    def __init__(self, base):
        settings = config(hidden_size=base.in_channels)
        super().__init__(settings, base.in_channels, base.out_channels)
        self.weight.set_data(base.weight)
        self.low = LowRank(base)

    def construct(self, x):
        return super().construct(x) + self.low.added(x)


class Quantized(nn.Cell):
    """Holds no weight by this name."""

    def __init__(self, base):
        super().__init__()
        low = LowRank(base)
        table = base.weight + ops.matmul(low.up.T, low.down.T)
        self.table = Tensor(table.asnumpy())

    def construct(self, x):
        return ops.matmul(x, self.table.T)


def by_construct(base):
    """A Cell of the layer's own with a construct of its own."""
    low, construct = LowRank(base), base.construct
    base.construct = lambda x: construct(x) + low.added(x)
    return base


EXCHANGED = {
    "wrapper": LowRank,
    "with dtype": WithDtype,
    "sequential": lambda base: nn.SequentialCell(LowRank(base)),
    "subclass": Merged,
    "quantized": Quantized,
    "construct": by_construct,
}


def run(layer):
    """Output and gradient of x."""
    x = Tensor(tokens(layer.config, TOKENS))

    def energy(x):
        return layer(x, (20, TOKENS)).square().sum()

    return [layer(x, (20, TOKENS)).asnumpy(), ms.grad(energy)(x).asnumpy()]


def near(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert np.abs(ours - theirs).max() <= 2e-6 * np.abs(theirs).max()


def differ(found, expected):
    assert np.abs(found[0] - expected[0]).max() > 1e-2 * np.abs(expected[0]).max()


def multiplied(part, factor, **options):
    """A layer with another weight of a linear map."""
    layer = layer_of(**options)
    weight = part_of(layer, part).weight
    weight.set_data(weight * factor)
    return layer


def merged(part, **options):
    layer = layer_of(**options)
    cell = part_of(layer, part)
    cell.weight.set_data(Tensor(Quantized(cell).table))
    return layer


@pytest.mark.parametrize("way", EXCHANGED)
@pytest.mark.parametrize("part", MAPS)
def test_exchanged_maps(part, way):
    """Before and after a first call."""
    layer = layer_of()
    before = run(layer)
    holder, last = holder_of(layer, part)
    setattr(holder, last, EXCHANGED[way](getattr(holder, last)))
    after = run(layer)
    differ(after, before)
    near(after, run(merged(part)))


@pytest.mark.parametrize("kind", ["dense", "window"])
def test_exchanged_maps_of_dense_layers(kind):
    for part in MAPS[:3]:
        layer = layer_of(kind)
        before = run(layer)
        setattr(layer, part, LowRank(getattr(layer, part)))
        after = run(layer)
        differ(after, before)
        near(after, run(merged(part, kind=kind)))


def doubled(cell, inputs, output):
    return output * 2


def doubled_input(cell, inputs):
    return (inputs[0] * 2,)


def doubled_gradient(cell, *gradients):
    return (gradients[0][0] * 2,)


HOOKS = {
    "forward": doubled,
    "forward_pre": doubled_input,
    "backward": doubled_gradient,
    "backward_pre": doubled_gradient,
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("part", MAPS)
def test_hooks(part, hook):
    """They change what they are to change, and nothing after they were removed."""
    layer = layer_of()
    out, dx = run(layer)
    handle = getattr(part_of(layer, part), f"register_{hook}_hook")(HOOKS[hook])
    found = run(layer)
    if hook.startswith("forward"):
        near(found, run(multiplied(part, 2)))
    else:
        near(found[:1], [out])
        if part == "output":
            near(found[1:], [2 * dx])
        else:
            differ(found[1:], [dx])
    handle.remove()
    np.testing.assert_array_equal(run(layer)[0], out)


@pytest.mark.parametrize(
    "part", ["gates", "query_norm", "key_norm", "compress_key", "compress_value", "rotate"]
)
def test_hooks_on_other_parts(part):
    """Called as often as the part would be; those that look only change nothing."""
    layer, seen = layer_of(qk_norm=True), []
    expected = run(layer)[0]
    getattr(layer, part).register_forward_hook(lambda cell, inputs, output: seen.append(cell))
    x = Tensor(tokens(layer.config, TOKENS))
    near([layer(x, (20, TOKENS)).asnumpy()], [expected])
    # Queries, keys of two branches, compressed keys.
    assert len(seen) == (3 if part == "rotate" else 1)


class OtherWeights(Gates):
    def weights(self, logits):
        return super().weights(logits) * 2


class OtherSum(nn.Cell):
    def __init__(self, gates):
        super().__init__()
        self.gates = gates

    def construct(self, x, compressed, selected, window, dtype):
        return self.gates(x, compressed, selected, window, dtype) * 2


def other_weights(gates):
    made = OtherWeights(config())
    made.linear.weight.set_data(gates.linear.weight)
    return made


@pytest.mark.parametrize("way", [OtherSum, other_weights])
def test_exchanged_gates(way):
    layer = layer_of()
    layer.gates = way(layer.gates)
    near(run(layer), run(multiplied("output", 2)))


def test_marks_of_single_parts(own):
    """Mixed precision of one part holds for that part, and either product gives equal results."""
    layer = layer_of()
    exact = run(layer)[0]
    layer.query.to_float(ms.bfloat16)
    narrow = run(layer)[0]
    layer.query.amp_dtype = None
    rounded = layer.query.weight.astype(ms.bfloat16).astype(ms.float32)
    assert 0 < np.abs(narrow - exact).max() < 3e-2 * np.abs(exact).max()
    layer.query = nn.Dense(12, rounded.shape[0], has_bias=False)
    layer.query.weight.set_data(rounded)
    near_to = run(layer)[0]
    assert np.abs(near_to - narrow).max() < np.abs(narrow - exact).max() * 2
    layer = layer_of()
    layer.output.recompute()
    near([run(layer)[0]], [exact])


def decoded(layer):
    """Output of a prompt and of single tokens that follow it, through a cache."""
    x = Tensor(tokens(layer.config, TOKENS))
    cache = layer.new_cache(1, TOKENS)
    parts = [layer(x[:48], (48,), cache=cache)]
    parts += [layer(x[i : i + 1], (1,), cache=cache) for i in (48, 49)]
    return [ops.concat(parts).asnumpy()]


@pytest.mark.parametrize("part", MAPS)
def test_caches(part):
    layer = layer_of()
    plain = decoded(layer)
    holder, last = holder_of(layer, part)
    handle = getattr(holder, last).register_forward_hook(doubled)
    near(decoded(layer), decoded(multiplied(part, 2)))
    handle.remove()
    near(decoded(layer), plain)
    setattr(holder, last, LowRank(getattr(holder, last)))
    differ(decoded(layer), plain)
    near(decoded(layer), decoded(merged(part)))


def test_a_cache_with_gates_of_a_subclass():
    layer = layer_of()
    layer.gates = other_weights(layer.gates)
    near(decoded(layer), decoded(multiplied("output", 2)))


def hooked(name):
    def change(layer):
        getattr(layer, name).register_forward_hook(doubled)

    return change


class DoubledProduct(nn.Cell):
    def construct(self, x, weight):
        return ops.matmul(x, weight.T) * 2


def other_method(cell, name):
    method = getattr(cell, name)
    setattr(cell, name, lambda *args, **more: method(*args, **more) * 2)


def test_methods_of_parts_that_were_exchanged():
    """A product or a method of one part counts with any instruction set, with a cache, too."""
    for part in MAPS:
        for name in ("product", "biased", "matmul"):
            layer, expected = layer_of(), multiplied(part, 2)
            if name == "matmul":
                part_of(layer, part).matmul = DoubledProduct()
            else:
                other_method(part_of(layer, part), name)
            near(run(layer), run(expected))
            near(decoded(layer), decoded(expected))
    layer = layer_of()
    other_method(layer.gates, "logits")
    near(run(layer), run(multiplied("gates.linear", 2)))
    near(decoded(layer), decoded(multiplied("gates.linear", 2)))
    layer = layer_of()
    other_method(layer.gates, "mix")
    near(run(layer), run(multiplied("output", 2)))
    with pytest.raises(ValueError, match="with a cache: gates must be the layer's own Gates"):
        decoded(layer)


def other_angles(layer):
    layer.angles = RotaryAngles(layer.dim, 7.0)


def wrapped_gates(layer):
    layer.gates = OtherSum(layer.gates)


@pytest.mark.parametrize(
    "change, part, got",
    [
        *((hooked(n), n, "with hooks") for n in ("gates", "rotate", "angles", "compress_key")),
        (other_angles, "angles", "RotaryAngles"),
        (wrapped_gates, "gates", "OtherSum"),
    ],
)
@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_what_a_cache_would_bypass_is_refused(change, part, got, mode):
    """The operator of a cache computes these parts: it must not do so in the place of others."""
    layer = layer_of()
    change(layer)
    text = f"NativeSparseAttention with a cache: {part} must be the layer's own .*{got}"
    with context_mode(mode), pytest.raises(ValueError, match=text):
        decoded(layer)


class Step(nn.Cell):
    """Output and gradients within a graph."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def energy(self, x):
        out = self.layer(x, (20, TOKENS))
        return out.square().sum(), out

    def construct(self, x):
        return ms.value_and_grad(self.energy, 0, None, has_aux=True)(x)


def run_in_graph(layer):
    (_, out), dx = ms.jit(Step(layer))(Tensor(tokens(layer.config, TOKENS)))
    return [out.asnumpy(), dx.asnumpy()]


def test_graphs():
    """A graph has what the parts are when it is compiled: one map each is exchanged or hooked."""
    layer, expected = layer_of(), merged("query")
    layer.query = LowRank(layer.query)
    layer.key_value.register_forward_hook(doubled)
    layer.gates.register_forward_hook(doubled)
    for part in ("key_value", "output"):
        cell = part_of(expected, part)
        cell.weight.set_data(cell.weight * 2)
    near(run_in_graph(layer), run(expected))
    near(run(layer), run(expected))
