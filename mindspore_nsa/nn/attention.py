"""What sparse and dense attention layers share: packing, output projection, dropout."""

import mindspore
from mindspore import ops

from ..ops._plan import fail_type
from .cache import DENSE_TENSORS, KEY_SLC, LENGTHS, SPARSE_TENSORS, check_room, make_cache
from .config import NSAConfig
from .packing import pack
from .precision import Dropout, ExplicitPrecision, Projection
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
        self.sparse = branches > 1
        self.hidden, self.heads = config.hidden_size, config.num_heads
        self.dim, self.value_dim = config.head_dim, config.value_head_dim
        self.kv_heads = config.num_kv_heads
        self.scale = self.dim**-0.5
        # One matrix for the keys of all branches, then for their values.
        self.key_width = branches * self.kv_heads * self.dim
        self.value_width = branches * self.kv_heads * self.value_dim
        self.query = Projection(config, self.hidden, self.heads * self.dim)
        self.key_value = Projection(config, self.hidden, self.key_width + self.value_width)
        self.output = Projection(config, self.heads * self.value_dim, self.hidden)
        self.angles = RotaryAngles(self.dim, config.rope_theta)
        self.rotate = Rotate(self.dim)
        self.dropout = Dropout(config.dropout) if config.dropout > 0 else None

    def attend(self, x, ends, cos, sin, dtype):
        """Attention [T, num_heads, value_head_dim] of packed x [T, hidden]."""
        raise NotImplementedError

    def step(self, x, ends, cache, dtype):
        """Attention [T, num_heads, value_head_dim] of packed x, whose tokens go into the cache."""
        raise NotImplementedError

    def new_cache(self, batch, capacity, dtype=None):
        """An empty cache for `batch` rows of at most `capacity` tokens.

        ``layer(x, cache=cache)`` appends the tokens of x to the rows, in place, and gives what the
        layer would give for them at the end of the whole sequences. See docs/decoding.md.

        Args:
            batch (int): Rows: sequences that grow independently.
            capacity (int): Most tokens of a row.
            dtype (mindspore.dtype, optional): float16, bfloat16 or float32, in which keys and
                values are kept and multiplied. Default: ``None``, the dtype of the parameters.

        Returns:
            AttentionCache.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If a size is below 1.
        """
        return make_cache(self.name, self.config, self.sparse, batch, capacity, dtype)

    def project(self, x, dtype):
        """Queries [T, heads, D], keys [T, branches * kv_heads, D] and values, in float32."""
        query = ops.cast(self.query(x, dtype), mindspore.float32)
        both = ops.cast(self.key_value(x, dtype), mindspore.float32)
        key, value = ops.split(both, (self.key_width, self.value_width), -1)
        return (
            ops.reshape(query, (-1, self.heads, self.dim)),
            ops.reshape(key, (-1, self.key_width // self.dim, self.dim)),
            ops.reshape(value, (-1, self.value_width // self.value_dim, self.value_dim)),
        )

    def construct(self, x, actual_seq_len=None, cache=None):
        """See the subclass."""
        packed, ends, positions = pack(self.name, x, actual_seq_len, self.hidden)
        dtype = self.operand_dtype(x)
        if cache is None:
            cos, sin = self.angles(positions)
            out = self.attend(packed, ends, cos, sin, dtype)
        else:
            expected = SPARSE_TENSORS if self.sparse else DENSE_TENSORS
            capacity = cache[KEY_SLC].shape[2]
            check_room(self.name, x, cache[LENGTHS], ends, capacity, len(cache), expected)
            out = self.step(packed, ends, cache, dtype)
        out = ops.cast(out, mindspore.float32)
        out = self.output(ops.reshape(out, (-1, self.heads * self.value_dim)), dtype)
        out = ops.cast(out, mindspore.float32)
        if self.dropout is not None:
            out = self.dropout(out)
        return ops.cast(ops.reshape(out, ops.shape(x)), dtype)
