"""Cases of the layer: beside its attention and matrix products alone, and beside another NSA."""

import gc
import statistics
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from mindspore_nsa import _native
from mindspore_nsa.nn import NativeSparseAttention, NSAConfig
from mindspore_nsa.nn.gates import BRANCHES
from mindspore_nsa.ops._layer import nsa_linear, nsa_projection, projects

from . import branches, check, peers, timing
from .program import compiled, finished
from .result import Result

LENGTHS = ((8192, 1024), (32768, 2048))
HIDDEN = 1024
# Most time of a step, as a multiple of its parts'.
LIMIT = 1.2
# Seconds of one function: the first call of a graph compiles it and takes its memory, and must not
# count.
BUDGET = 60.0
# The other NSA, at a size that it can run, and how many times faster ours should be.
OTHER = {"hidden_size": 512, "num_heads": 8, "num_kv_heads": 2, "head_dim": 64}
OTHER_TOKENS = (4096, 512)
OTHER_SPEEDUP = {"forward": 40.0, "both": 80.0}


class Sum(nn.Cell):
    """The sum of a layer's output."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x):
        return ops.cast(self.layer(x), ms.float32).sum()


class Gradient(nn.Cell):
    """All of it in one graph: while a gradient function of its own runs, Python's thread spins."""

    def __init__(self, total):
        super().__init__()
        self.total = total
        self.weights = ms.ParameterTuple(total.trainable_params())

    def construct(self, x):
        return ms.value_and_grad(self.total, 0, self.weights)(x)


def _step(config, tokens, dtype, direction):
    """A function that runs a layer on the same sequence again, in a graph."""
    layer = NativeSparseAttention(config)
    drawn = np.random.default_rng(5).standard_normal((1, tokens, config.hidden_size), np.float32)
    x = ms.Tensor(drawn).astype(getattr(ms, dtype))
    if direction == "forward":
        return lambda: finished(layer, x)
    step = Gradient(Sum(layer))

    def both():
        _, (_, weights) = step(x)
        weights[-1].asnumpy()

    return both


def _draw(rng, *shape):
    return ms.Tensor(rng.standard_normal(shape, np.float32))


def _widths(config):
    """(inner, outer) of a layer's linear maps, that of the output last."""
    heads, key_heads = config.num_heads, BRANCHES * config.num_kv_heads
    return (
        (config.hidden_size, heads * config.head_dim),
        (config.hidden_size, key_heads * (config.head_dim + config.value_head_dim)),
        (config.hidden_size, BRANCHES * heads),
        (heads * config.value_head_dim, config.hidden_size),
    )


def _products(config, tokens, dtype, direction):
    """The matrix products of a layer: those of its linear maps, with their gradients."""
    x = _draw(np.random.default_rng(6), tokens, config.hidden_size)
    if projects(x, getattr(ms, dtype)):
        return _own_products(config, x, getattr(ms, dtype), direction)
    return _mindspore_products(config, tokens, direction)


def _own_products(config, x, dtype, direction):
    """By the layer's own operator, of operands in 16 bits."""

    def of_input(x, query, both, gates):
        return nsa_projection(x, query, both, gates, dtype, ms.float32)

    def of_output(x, weight):
        return nsa_projection(x, weight, None, None, dtype, dtype)[0]

    rng = np.random.default_rng(7)
    weights = [_draw(rng, outer, inner) for inner, outer in _widths(config)]
    mixed = _draw(rng, x.shape[0], weights[-1].shape[1])
    calls = [
        (of_input, x.astype(dtype), *weights[:-1]),
        (of_output, mixed.astype(dtype), weights[-1]),
    ]
    graphs = [(compiled(function), *inputs) for function, *inputs in calls]
    if direction == "both":
        gradient = ops.GradOperation(get_all=True, sens_param=True)
        for (function, *inputs), (graph, *_) in zip(calls, list(graphs), strict=True):
            out = graph(*inputs)
            graphs.append((compiled(gradient(function)), *inputs, out))
    return lambda: [finished(*call) for call in graphs]


class TokenProducts(nn.Cell):
    """The matrix products of a layer for one token, by what it has for few rows, in one graph."""

    def __init__(self, config, dtype):
        super().__init__()
        rng = np.random.default_rng(6)
        self.dtype = getattr(ms, dtype)
        self.weights = ms.ParameterTuple(
            ms.Parameter(_draw(rng, outer, inner), name=f"weight_{i}", requires_grad=False)
            for i, (inner, outer) in enumerate(_widths(config))
        )
        self.inputs = [_draw(rng, 1, w.shape[1]) for w in self.weights[-2:]]

    def construct(self, x, mixed):
        query, both, gates, output = self.weights
        return (
            self.product(x, query),
            self.product(x, both),
            self.product(x, gates),
            self.product(mixed, output),
        )

    def product(self, x, weight):
        y = nsa_linear(x, weight, self.dtype)
        return ops.matmul(x, ops.transpose(weight, (1, 0))) if y is None else y


def token_products(config, dtype):
    """A function that runs `TokenProducts`."""
    products = TokenProducts(config, dtype)
    return lambda: finished(products, *products.inputs)


def _mindspore_products(config, tokens, direction):
    """By MindSpore's product of float32."""
    rng = np.random.default_rng(6)
    forward, backward, weights = (
        compiled(product)
        for product in (
            ops.MatMul(transpose_b=True),
            ops.MatMul(),
            ops.MatMul(transpose_a=True),
        )
    )
    calls = []
    for inner, outer in _widths(config):
        x, w = _draw(rng, tokens, inner), _draw(rng, outer, inner)
        calls.append((forward, x, w))
        if direction == "both":
            dy = _draw(rng, tokens, outer)
            calls += [(backward, dy, w), (weights, dy, x)]
    return lambda: [finished(*call) for call in calls]


@dataclass(frozen=True)
class LayerCase:
    """A step on one sequence beside what it cannot do without, each called alone."""

    name: str
    dtype: str
    direction: str  # forward; both: with gradients
    tokens: int
    quick_tokens: int

    kind = "layer"
    operator = "NativeSparseAttention"

    def problem(self):
        """Why one of the operators cannot be measured, or None."""
        builds = (branches.compression, *branches.BRANCHES)
        return check.first_problem(builds, self.dtype, self.direction)

    def run(self, settings):
        """A `Result`."""
        ms.set_context(mode=ms.GRAPH_MODE)
        tokens = self.quick_tokens if settings.quick else self.tokens
        heads, kv_heads, dim = branches.HEADS, branches.KV_HEADS, branches.DIM
        config = NSAConfig(HIDDEN, heads, kv_heads, dim, window_size=branches.WINDOW)
        attention = branches.nsa_programs(tokens, self.dtype, self.direction)
        functions = {
            "layer": _step(config, tokens, self.dtype, self.direction),
            "attention": lambda: [f() for f in attention],
            "products": _products(config, tokens, self.dtype, self.direction),
        }
        gc.collect()
        times = branches.interleaved(functions, settings.rounds, BUDGET)
        found = {name: statistics.median(values) for name, values in times.items()}
        parts = found["attention"] + found["products"]
        return Result.of(
            self,
            tokens=tokens,
            shape=f"S={tokens} hidden={HIDDEN} N={heads}/{kv_heads} D={dim}",
            seconds=found["layer"],
            attention_seconds=found["attention"],
            product_seconds=found["products"],
            ratio=found["layer"] / parts,
            ratio_limit=None if settings.quick else LIMIT,
            spread=max(map(timing.spread, times.values())),
        )


def _weighted_windows(torch, block):
    """Compression as in our layer, a learned weighted sum: the other's own is a wide MLP."""

    class Weighted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((block, 1), 1 / block))

        def forward(self, windows):
            return (windows * self.weight).sum(-2)

    return Weighted()


def _other(config, tokens, direction):
    """A function that runs native-sparse-attention-pytorch's layer; DoesNotFit where it is not."""
    torch = peers.torch_module()
    try:
        from native_sparse_attention_pytorch import SparseAttention
    except ImportError:
        raise peers.DoesNotFit("not installed") from None
    torch.set_num_threads(_native.num_threads())
    layer = SparseAttention(
        dim=config.hidden_size,
        dim_head=config.head_dim,
        heads=config.num_heads,
        kv_heads=config.num_kv_heads,
        sliding_window_size=config.window_size,
        compress_block_size=config.compress_block_size,
        compress_block_sliding_stride=config.compress_stride,
        selection_block_size=config.select_block_size,
        num_selected_blocks=config.select_block_count,
        causal=True,
        norm=False,
        compress_mlp=_weighted_windows(torch, config.compress_block_size),
    )
    x = torch.randn(1, tokens, config.hidden_size)
    if direction == "forward":

        def forward():
            with torch.no_grad():
                layer(x)

        return forward
    x.requires_grad_()
    wanted = [x, *(p for p in layer.parameters() if p.requires_grad)]

    def both():
        torch.autograd.grad(layer(x).sum(), wanted, allow_unused=True)

    return both


@dataclass(frozen=True)
class OtherCase:
    """The layer beside lucidrains' native-sparse-attention-pytorch, where that is installed."""

    name: str
    direction: str

    kind = "other"
    operator = "NativeSparseAttention"
    dtype = "float32"

    def problem(self):
        """Why one of the operators cannot be measured, or None."""
        return LayerCase(self.name, self.dtype, self.direction, *OTHER_TOKENS).problem()

    def run(self, settings):
        """A `Result`."""
        ms.set_context(mode=ms.GRAPH_MODE)
        tokens = OTHER_TOKENS[settings.quick]
        config = NSAConfig(**OTHER, window_size=branches.WINDOW)
        functions = {"ours": _step(config, tokens, self.dtype, self.direction)}
        shape = f"S={tokens} hidden={config.hidden_size} N={config.num_heads}"
        shape += f"/{config.num_kv_heads} D={config.head_dim}"
        peer = {}
        try:
            functions["lucidrains"] = _other(config, tokens, self.direction)
        except peers.DoesNotFit as reason:
            peer["lucidrains"] = str(reason)
        times = branches.interleaved(functions, settings.rounds, BUDGET)
        found = {name: statistics.median(values) for name, values in times.items()}
        seconds = found.pop("ours")
        peer |= {name: value / seconds for name, value in found.items()}
        measured = bool(found) and not settings.quick
        return Result.of(
            self,
            tokens=tokens,
            shape=shape,
            seconds=seconds,
            speedup=peer["lucidrains"] if found else None,
            speedup_target=OTHER_SPEEDUP[self.direction] if measured else None,
            peers=peer,
            spread=max(map(timing.spread, times.values())),
        )


def layer_cases():
    """Every length, dtype and direction; then the other NSA."""
    found = [
        LayerCase(f"layer_{dtype}_{direction}_{tokens}", dtype, direction, tokens, quick)
        for tokens, quick in LENGTHS
        for dtype in ("float32", "bfloat16")
        for direction in ("forward", "both")
    ]
    return found + [OtherCase(f"other_nsa_{direction}", direction) for direction in OTHER_SPEEDUP]
