"""What sparse and dense attention layers share: packing, output projection, dropout."""

import mindspore
from mindspore import ops

from ..ops._layer import nsa_split_heads, projects
from ..ops._plan import fail_type
from .cache import check_cache, make_cache, sizes_of
from .config import NSAConfig
from .packing import pack, planned
from .precision import Dropout, ExplicitPrecision, Projection, rounded
from .rotary import RotaryAngles, Rotate


class AttentionLayer(ExplicitPrecision):
    """A layer of causal attention over packed documents; subclasses say which keys a query sees.

    Args:
        config (NSAConfig): Sizes.
        branches (int): Sets of keys and values.
    """

    def __init__(self, config, branches):
        super().__init__()
        self.name = type(self).__name__
        if not isinstance(config, NSAConfig):
            fail_type(self.name, "config", "an NSAConfig", config)
        self.config = config
        self.branches, self.sparse = branches, branches > 1
        self.hidden, self.heads = config.hidden_size, config.num_heads
        self.dim, self.value_dim = config.head_dim, config.value_head_dim
        self.kv_heads = config.num_kv_heads
        self.cache_sizes = sizes_of(config, self.sparse)
        self.scale = self.dim**-0.5
        self.has_bias = config.has_bias
        # One matrix for the keys of all branches, then for their values.
        self.key_width = branches * self.kv_heads * self.dim
        self.value_width = branches * self.kv_heads * self.value_dim
        self.query = Projection(config, self.hidden, self.heads * self.dim)
        self.key_value = Projection(config, self.hidden, self.key_width + self.value_width)
        self.output = Projection(config, self.heads * self.value_dim, self.hidden)
        self.angles = RotaryAngles(self.dim, config.rope_theta)
        self.rotate = Rotate(self.dim)
        self.dropout = Dropout(config.dropout) if config.dropout > 0 else None

    def multiplies_narrow(self, x):
        """Whether products take x as it is, and what they multiply in the dtype of operands."""
        return projects(x, self.operand_dtype(x))

    def attend(self, x, ends, cos, sin, dtype):
        """Attention [T, num_heads, value_head_dim] of packed x [T, hidden]."""
        raise NotImplementedError

    def step(self, x, ends, cache, places, dtype):
        """Attention [T, num_heads, value_head_dim] of packed x, whose tokens go into the cache.

        `places` are those of the cache's Tensors.
        """
        raise NotImplementedError

    def new_cache(self, batch, capacity, dtype=None):
        """An empty cache for `batch` rows of at most `capacity` tokens.

        ``layer(x, cache=cache)`` appends the tokens of x to the rows, in place, and gives what the
        layer would give for them at the end of the whole sequences. See docs/decoding.md.

        Args:
            batch (int): Rows: sequences that grow independently.
            capacity (int): Most tokens of a row.
            dtype (mindspore.dtype, optional): float16, bfloat16 or float32, in which keys and
                values are kept and multiplied. Default: ``None``, the dtype of mixed precision
                (`to_float`, amp levels O2 and O3) if the layer is marked with one, as a graph would
                cast a cache of another; else that of the parameters.

        Returns:
            AttentionCache.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If a size is below 1.
        """
        if dtype is None:
            dtype = self.amp_dtype or getattr(mindspore, self.config.param_dtype)
        return make_cache(self.name, self.config, self.sparse, batch, capacity, dtype)

    def _linear(self, x, dtype):
        """Queries [T, heads * D], and keys and values in one matrix, in float32."""
        query = ops.cast(self.query(x, dtype), mindspore.float32)
        return query, ops.cast(self.key_value(x, dtype), mindspore.float32)

    def _as_heads(self, query, both):
        """Queries [T, heads, D], keys [T, branches * kv_heads, D] and values."""
        key, value = ops.split(both, (self.key_width, self.value_width), -1)
        return (
            ops.reshape(query, (-1, self.heads, self.dim)),
            ops.reshape(key, (-1, self.key_width // self.dim, self.dim)),
            ops.reshape(value, (-1, self.value_width // self.value_dim, self.value_dim)),
        )

    def branch_heads(self, query, both, cos, sin, dtype):
        """Queries of the three branches, then their keys, then their values, in `dtype`.

        All but the compression's keys are rotated. With one branch the first of each three count.
        """
        heads = nsa_split_heads(
            query,
            both,
            cos,
            sin,
            dtype,
            self.branches,
            self.heads,
            self.kv_heads,
            self.dim,
            self.value_dim,
        )
        if heads is None:
            heads = self._split_heads(query, both, cos, sin, dtype)
        return heads

    def _split_heads(self, query, both, cos, sin, dtype):
        """The same by MindSpore's operators."""
        query, key, value = self._as_heads(query, both)
        query = self.rotate(query, cos, sin)
        # A cast for each: gradients of 16 bits cannot be added everywhere.
        q_cmp, q_slc, q_win = ops.cast(query, dtype), ops.cast(query, dtype), ops.cast(query, dtype)
        value = ops.cast(value, dtype)
        if not self.sparse:
            key = ops.cast(self.rotate(key, cos, sin), dtype)
            return q_cmp, q_slc, q_win, key, key, key, value, value, value
        n = self.kv_heads
        first, rest = ops.split(key, (n, 2 * n), 1)
        k_slc, k_win = ops.split(ops.cast(self.rotate(rest, cos, sin), dtype), n, 1)
        v_cmp, v_slc, v_win = ops.split(value, n, 1)
        k_cmp = ops.cast(first, dtype)
        return q_cmp, q_slc, q_win, k_cmp, k_slc, k_win, v_cmp, v_slc, v_win

    def construct(self, x, actual_seq_len=None, cache=None):
        """See the subclass."""
        planned(self.name, x, actual_seq_len, self.hidden)
        narrow = cache is None and self.multiplies_narrow(x)
        packed, ends, positions = pack(self.name, x, actual_seq_len, self.hidden, narrow)
        dtype = self.operand_dtype(x)
        # Otherwise it is the dtype of x, whose values packed holds.
        if self.amp_dtype is not None and not narrow:
            packed = rounded(packed, dtype)
        if cache is None:
            cos, sin = self.angles(positions)
            out = self.attend(packed, ends, cos, sin, dtype)
        else:
            places = check_cache(self.name, x, cache, ends, self.cache_sizes, self.sparse)
            # The dtype of the cache need not be this one.
            out = rounded(self.step(packed, ends, cache, places, dtype), dtype)
        if narrow:
            if self.dropout is None and not self.has_bias:
                return self.output(out, dtype, dtype, x.shape[0] if len(x.shape) == 3 else 0)
            out = self.output(out, dtype)
        else:
            out = ops.cast(out, mindspore.float32)
            out = self.output(ops.reshape(out, (-1, self.heads * self.value_dim)), dtype)
        if self.dropout is not None:
            out = self.dropout(ops.cast(out, mindspore.float32))
        return ops.cast(ops.reshape(out, ops.shape(x)), dtype)
