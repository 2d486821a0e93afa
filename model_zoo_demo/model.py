"""A decoder-only language model: RMSNorm, attention, SwiGLU, tied embeddings."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from mindspore_nsa.nn import AttentionCache, DenseAttention, NativeSparseAttention, NSAConfig

from .errors import InputError


def attention_cell(config, parallel=None):
    """The attention that `config.attention` names; `parallel` is what workers share, by name."""
    sizes, parallel = nsa_config(config), parallel or {}
    try:
        if config.attention == "nsa":
            return NativeSparseAttention(sizes, **parallel)
        return DenseAttention(sizes, window=config.attention == "window", **parallel)
    except ValueError as error:
        raise InputError(f"--tensor: {error}") from None


def nsa_config(config):
    """The sizes of the attention layers."""
    try:
        return NSAConfig(
            hidden_size=config.width,
            num_heads=config.heads,
            num_kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            compress_block_size=config.compress_block_size,
            compress_stride=config.compress_stride,
            select_block_size=config.select_block_size,
            select_block_count=config.select_block_count,
            init_blocks=config.init_blocks,
            local_blocks=config.local_blocks,
            window_size=config.window_size,
            rope_theta=config.rope_theta,
        )
    except ValueError as error:
        raise InputError(f"config: {error}") from None


class RMSNorm(nn.Cell):
    """x / sqrt(mean(x^2)) times a learned factor per element."""

    def __init__(self, width):
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(width, np.float32)))

    def construct(self, x):
        """x and the result are [T, width]."""
        return x * ops.rsqrt(ops.square(x).mean(-1, keep_dims=True) + 1e-6) * self.weight


class SwiGLU(nn.Cell):
    """A feed-forward network with a gate."""

    def __init__(self, config):
        super().__init__()
        self.inner = config.feed_forward
        self.widen = nn.Dense(config.width, 2 * self.inner, has_bias=False)
        self.narrow = nn.Dense(self.inner, config.width, has_bias=False)
        if config.dtype == "bfloat16" and ms.get_context("device_target") == "Ascend":
            self.widen.to_float(ms.bfloat16)
            self.narrow.to_float(ms.bfloat16)

    def construct(self, x):
        """x and the result are [T, width]."""
        gate, up = ops.split(self.widen(x), self.inner, axis=-1)
        return self.narrow(ops.silu(gate) * up)


class Layer(nn.Cell):
    """Attention and feed-forward network, each added to its input.

    With dtype bfloat16 attention computes in it, and on Ascend the feed-forward network too;
    MindSpore's CPU kernels have no matrix product of bfloat16. Weights, norms and the sum over the
    layers are float32.
    """

    def __init__(self, config, parallel=None):
        super().__init__()
        self.dtype = getattr(ms, config.dtype)
        self.attention_norm = RMSNorm(config.width)
        self.attention = attention_cell(config, parallel)
        self.forward_norm = RMSNorm(config.width)
        self.forward = SwiGLU(config)

    def construct(self, x, ends, cache=None):
        """x and the result are [T, width]; ends are the prefix sums of the documents.

        With a cache the tokens follow those in its rows.
        """
        attended = self.attention(self.attention_norm(x).astype(self.dtype), ends, cache)
        x = x + attended.astype(ms.float32)
        return x + self.forward(self.forward_norm(x)).astype(ms.float32)


class Model(nn.Cell):
    """Tokens to logits of their successors.

    Args:
        config (Config): Sizes and seed.
        worker (Worker): Which part of the tokens and heads this process has. Default: all.
    """

    def __init__(self, config, worker=None):
        super().__init__()
        parallel = worker.parallel if worker else None
        self.embedding = Parameter(Tensor(np.zeros((config.vocabulary, config.width), np.float32)))
        self.layers = nn.CellList([Layer(config, parallel) for _ in range(config.layers)])
        self.norm = RMSNorm(config.width)
        self.initialize(config, worker)

    def matrices(self):
        """The weights that start random and decay: those of linear maps, and the embedding."""
        dense = [cell.weight for _, cell in self.cells_and_names() if isinstance(cell, nn.Dense)]
        return [self.embedding, *dense]

    def initialize(self, config, worker=None):
        """Draw the matrices: the same for a seed with any version of MindSpore and any workers."""
        rng = np.random.default_rng(config.seed)
        for weight in self.matrices():
            shape = worker.whole_shape(weight, self) if worker else weight.shape
            # Weights that add to the residual stream start small, so that its sum does not grow.
            adds = weight.name.endswith(("narrow.weight", "output.weight", "o_proj.weight"))
            deviation = 0.02 if weight is self.embedding else shape[1] ** -0.5
            deviation *= (2 * config.layers) ** -0.5 if adds else 1
            drawn = (deviation * rng.standard_normal(shape)).astype(np.float32)
            if worker:
                drawn = worker.part({weight.name: drawn}, self)[weight.name]
            weight.set_data(Tensor(drawn))

    def new_cache(self, batch, capacity):
        """Empty caches of all layers for `batch` texts of at most `capacity` tokens."""
        made = (layer.attention.new_cache(batch, capacity, layer.dtype) for layer in self.layers)
        return _argument(tuple(made))

    def hidden(self, tokens, ends, caches=None):
        """int32 [T] tokens and the prefix sums of segments to what the layers make of them."""
        x = ops.gather(self.embedding, tokens, 0)
        for i, layer in enumerate(self.layers):
            x = layer(x, ends, None if caches is None else caches[i])
        return x

    def logits(self, x):
        """[T, width] from the layers to [T, vocabulary]."""
        return ops.matmul(self.norm(x), self.embedding.T)

    def construct(self, tokens, ends, caches=None):
        """Logits [T, vocabulary] of the tokens' successors."""
        return self.logits(self.hidden(tokens, ends, caches))


def _argument(caches):
    """Caches as a graph takes them; on Ascend, layers then read lengths back in PyNative mode."""
    return ms.mutable(caches) if ms.get_context("mode") == ms.GRAPH_MODE else caches


def selected_rows(caches, rows):
    """Caches of all layers with rows of these, in any order and as often as wanted."""
    return _argument(tuple(AttentionCache(cache).select(rows) for cache in caches))


class Loss(nn.Cell):
    """Mean cross entropy of the targets, in nats."""

    def __init__(self, model):
        super().__init__(auto_prefix=False)  # weights keep their names
        self.model = model
        self.cross_entropy = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, tokens, targets, ends):
        """int32 tokens and targets [T]."""
        return self.cross_entropy(self.model(tokens, ends), targets)


def arguments(batch):
    """A batch as the cells take it: arrays as Tensors, constants as they are."""
    return [Tensor(x) if isinstance(x, np.ndarray) else x for x in batch]


def parameter_count(model):
    """Number of trained values."""
    return sum(p.size for p in model.trainable_params())
