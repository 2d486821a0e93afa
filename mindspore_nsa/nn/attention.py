"""What sparse and dense attention layers share: packing, output projection, dropout."""

import mindspore
from mindspore import nn, ops

from .config import NSAConfig
from .packing import pack
from .precision import Projection
from .rotary import RotaryAngles, Rotate


class AttentionLayer(nn.Cell):
    """A layer of causal attention over packed documents; subclasses say which keys a query sees.

    Args:
        config (NSAConfig): Sizes.
        branches (int): Sets of keys and values.
    """

    def __init__(self, config, branches):
        super().__init__()
        self.name = type(self).__name__
        if not isinstance(config, NSAConfig):
            raise TypeError(
                f"{self.name}: config must be an NSAConfig, got {ascii(config)[:80]} "
                f"({type(config).__name__})"
            )
        self.config = config
        self.hidden, self.heads, self.kv_heads = (
            config.hidden_size,
            config.num_heads,
            config.num_kv_heads,
        )
        self.dim, self.value_dim = config.head_dim, config.value_head_dim
        self.scale = self.dim**-0.5
        self.key_width = branches * self.kv_heads * self.dim
        self.value_width = branches * self.kv_heads * self.value_dim
        dtype = getattr(mindspore, config.param_dtype)
        self.query = self._projection(self.hidden, self.heads * self.dim, dtype)
        # One matrix for the keys of all branches, then for their values.
        self.key_value = self._projection(self.hidden, self.key_width + self.value_width, dtype)
        self.output = self._projection(self.heads * self.value_dim, self.hidden, dtype)
        self.angles = RotaryAngles(self.dim, config.rope_theta)
        self.rotate = Rotate(self.dim)
        self.dropout = nn.Dropout(p=config.dropout) if config.dropout > 0 else None

    def _projection(self, inner, outer, dtype):
        return Projection(inner, outer, self.config.has_bias, dtype)

    def attend(self, x, ends, cos, sin):
        """Attention [T, num_heads, value_head_dim] of packed x [T, hidden]."""
        raise NotImplementedError

    def project(self, x):
        """Queries [T, num_heads, D], keys [T, branches * kv_heads, D] and values of packed x."""
        query = ops.reshape(self.query(x), (-1, self.heads, self.dim))
        both = self.key_value(x)
        key, value = ops.split(both, (self.key_width, self.value_width), -1)
        return (
            query,
            ops.reshape(key, (-1, self.key_width // self.dim, self.dim)),
            ops.reshape(value, (-1, self.value_width // self.value_dim, self.value_dim)),
        )

    def construct(self, x, actual_seq_len=None):
        """See the subclass."""
        ends, positions = pack(self.name, x, actual_seq_len, self.hidden)
        cos, sin = self.angles(positions)
        shape = ops.shape(x)
        out = self.attend(ops.reshape(x, (-1, self.hidden)), ends, cos, sin)
        out = self.output(ops.reshape(out, (-1, self.heads * self.value_dim)))
        if self.dropout is not None:
            out = self.dropout(out)
        return ops.reshape(out, shape)
