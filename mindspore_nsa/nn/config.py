"""The configuration of the NSA layer."""

from dataclasses import dataclass, fields

import mindspore
import numpy as np

from ..ops._plan import shown

_DTYPES = ("float32", "float16", "bfloat16")
_IMPORTANCES = ("overlap", "cann")
# Smallest value of every int field.
_LOWEST = {
    "hidden_size": 1,
    "num_heads": 1,
    "num_kv_heads": 1,
    "head_dim": 2,
    "value_head_dim": 1,
    "compress_block_size": 1,
    "compress_stride": 1,
    "select_block_size": 1,
    "select_block_count": 1,
    "init_blocks": 0,
    "local_blocks": 0,
    "window_size": 1,
}


def _fail(kind, field, expected, got):
    raise kind(f"NSAConfig: {field} must be {expected}, got {shown(got)}")


@dataclass(frozen=True)
class NSAConfig:
    r"""Sizes of a Native Sparse Attention layer, with the paper's defaults.

    The configuration checks itself when it is made, `dataclasses.replace` included.

    Args:
        hidden_size (int): Size of the layer's input and output.
        num_heads (int): Query heads :math:`N_1`.
        num_kv_heads (int): Key and value heads :math:`N_2` of every branch; divides `num_heads`.
        head_dim (int): Head size :math:`D` of queries and keys, even.
        value_head_dim (int, optional): Head size :math:`D_v` of values. Default: ``None``,
            `head_dim`; a copy with another `head_dim` keeps the size it stood for.
        compress_block_size (int, optional): Tokens :math:`l` of a compressed token, a multiple of
            `compress_stride`. Default: ``32``.
        compress_stride (int, optional): Tokens :math:`s` between the starts of neighbouring
            compressed tokens. Default: ``16``.
        select_block_size (int, optional): Tokens :math:`l'` of a selection block, a multiple of
            `compress_stride`, at least `compress_block_size`. Default: ``64``.
        select_block_count (int, optional): Blocks that every query reads. Default: ``16``.
        init_blocks (int, optional): How many of them are the document's first. Default: ``1``.
        local_blocks (int, optional): How many of them end with the query's own; `init_blocks` and
            `local_blocks` together are at most `select_block_count`. Default: ``2``.
        window_size (int, optional): Tokens of the sliding window, the query's own included.
            Default: ``512``.
        importance (str, optional): How probabilities of compressed tokens become scores of blocks,
            ``"overlap"`` (the paper) or ``"cann"``. Default: ``"overlap"``.
        rope_theta (float, optional): Base of the rotary embedding's wavelengths.
            Default: ``10000.0``.
        has_bias (bool, optional): Whether the linear maps (queries, keys and values, gates, output)
            have a bias. Default: ``False``.
        dropout (float, optional): Probability with which an element of the output is dropped in
            training, in [0, 1). Default: ``0.0``.
        param_dtype (Union[str, mindspore.dtype], optional): Dtype of the parameters: float32,
            float16 or bfloat16; kept as a str. Default: ``"float32"``.

    Raises:
        TypeError: If a field has the wrong type.
        ValueError: If a field has a value that is not allowed.

    Examples:
        >>> from mindspore_nsa.nn import NSAConfig
        >>> config = NSAConfig(hidden_size=256, num_heads=8, num_kv_heads=2, head_dim=32)
        >>> print(config.value_head_dim, config.window_size)
        32 512
    """

    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_head_dim: int | None = None
    compress_block_size: int = 32
    compress_stride: int = 16
    select_block_size: int = 64
    select_block_count: int = 16
    init_blocks: int = 1
    local_blocks: int = 2
    window_size: int = 512
    importance: str = "overlap"
    rope_theta: float = 10000.0
    has_bias: bool = False
    dropout: float = 0.0
    param_dtype: str = "float32"

    def __post_init__(self):
        if self.value_head_dim is None:
            object.__setattr__(self, "value_head_dim", self.head_dim)
        if isinstance(self.param_dtype, mindspore.Type):
            object.__setattr__(self, "param_dtype", str(self.param_dtype).lower())
        for field in fields(self):
            self._check_field(field.name, getattr(self, field.name))
        self._check_divisible("num_heads", "num_kv_heads")
        self._check_divisible("compress_block_size", "compress_stride")
        self._check_divisible("select_block_size", "compress_stride")
        if self.head_dim % 2:
            _fail(ValueError, "head_dim", "even, because rotation takes pairs", self.head_dim)
        if self.select_block_size < self.compress_block_size:
            expected = f"at least compress_block_size ({self.compress_block_size})"
            _fail(ValueError, "select_block_size", expected, self.select_block_size)
        forced = self.init_blocks + self.local_blocks
        if forced > self.select_block_count:
            expected = f"at most select_block_count ({self.select_block_count})"
            _fail(ValueError, "init_blocks + local_blocks", expected, forced)

    def _check_field(self, name, value):
        if name in _LOWEST:
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                _fail(TypeError, name, "an int", value)
            object.__setattr__(self, name, int(value))
            if value < _LOWEST[name]:
                _fail(ValueError, name, f"at least {_LOWEST[name]}", value)
        elif name in ("importance", "param_dtype"):
            allowed = _IMPORTANCES if name == "importance" else _DTYPES
            if not isinstance(value, str):
                or_dtype = " or a dtype" if name == "param_dtype" else ""
                _fail(TypeError, name, f"a str{or_dtype}", value)
            if value not in allowed:
                _fail(ValueError, name, f"one of {', '.join(allowed)}", value)
        elif name == "has_bias":
            if not isinstance(value, (bool, np.bool_)):
                _fail(TypeError, name, "a bool", value)
            object.__setattr__(self, name, bool(value))
        else:
            self._check_real(name, value)

    def _check_real(self, name, value):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            _fail(TypeError, name, "a float", value)
        try:
            object.__setattr__(self, name, float(value))
        except OverflowError:
            _fail(ValueError, name, "within the range of a float", value)
        if name == "dropout" and not 0 <= value < 1:
            _fail(ValueError, name, "in [0, 1)", value)
        # A step with a cache takes it as an attribute, which has to be finite in float32.
        if name == "rope_theta" and not 0 < value <= float(np.finfo(np.float32).max):
            _fail(ValueError, name, "positive and finite in float32", value)

    def _check_divisible(self, name, divisor):
        value, by = getattr(self, name), getattr(self, divisor)
        if value % by:
            _fail(ValueError, name, f"a multiple of {divisor} ({by})", value)
