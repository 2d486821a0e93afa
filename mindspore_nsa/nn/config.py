"""The configuration of the NSA layer."""

from dataclasses import dataclass, fields
from typing import Any

import mindspore
import numpy as np

from ..ops._plan import shown
from .rope import RopeScaling

# In the order of the lengths that mark them in a checkpoint (`Gates.gating`).
GATINGS = ("sigmoid", "residual")
# Values of the str fields.
_CHOICES = {
    "importance": ("overlap", "cann"),
    "rope_pairs": ("half", "interleaved"),
    "gating": GATINGS,
    "param_dtype": ("float32", "float16", "bfloat16"),
}
_FLAGS = ("has_bias", "qk_norm", "shared_kv")
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


def _fail(kind: Any, field: str, expected: str, got: Any) -> None:
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
        rope_pairs (str, optional): Which elements of a head the embedding turns together:
            ``"half"``, those a half of the head apart, or ``"interleaved"``, neighbours.
            Default: ``"half"``.
        rope_scaling (Union[RopeScaling, dict], optional): Slower angles for longer texts, linear or
            YaRN; a dict is as in Hugging Face's configurations. Default: ``None``.
        qk_norm (bool, optional): Whether every head of the queries and keys is divided by its root
            mean square and multiplied by learned weights before the rotary embedding and the
            compression. Default: ``False``.
        qk_norm_eps (float, optional): What is added to the mean square. Default: ``1e-06``.
        shared_kv (bool, optional): Whether the branches share one set of keys and values, which
            each has of its own otherwise. Default: ``False``.
        gating (str, optional): ``"sigmoid"``, the paper's gates :math:`\sigma(z)`, or
            ``"residual"``, :math:`2 \sigma(z)` for the selected branch and
            :math:`2 \sigma(z) - 1` for the others, so that :math:`z = 0` leaves the selected branch
            alone. Default: ``"sigmoid"``.
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
    value_head_dim: int = None  # type: ignore[assignment]  # head_dim, until it is given
    compress_block_size: int = 32
    compress_stride: int = 16
    select_block_size: int = 64
    select_block_count: int = 16
    init_blocks: int = 1
    local_blocks: int = 2
    window_size: int = 512
    importance: str = "overlap"
    rope_theta: float = 10000.0
    rope_pairs: str = "half"
    rope_scaling: RopeScaling | None = None
    qk_norm: bool = False
    qk_norm_eps: float = 1e-6
    shared_kv: bool = False
    gating: str = "sigmoid"
    has_bias: bool = False
    dropout: float = 0.0
    param_dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.value_head_dim is None:
            object.__setattr__(self, "value_head_dim", self.head_dim)
        if isinstance(self.param_dtype, mindspore.Type):
            object.__setattr__(self, "param_dtype", str(self.param_dtype).lower())
        object.__setattr__(self, "rope_scaling", RopeScaling.of(self.rope_scaling))
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
        scaling = self.rope_scaling
        if scaling is not None and scaling.rope_type == "yarn" and self.rope_theta <= 1:
            _fail(ValueError, "rope_theta", "greater than 1 with YaRN", self.rope_theta)
        forced = self.init_blocks + self.local_blocks
        if forced > self.select_block_count:
            expected = f"at most select_block_count ({self.select_block_count})"
            _fail(ValueError, "init_blocks + local_blocks", expected, forced)

    def _check_field(self, name: str, value: Any) -> None:
        if name in _LOWEST:
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                _fail(TypeError, name, "an int", value)
            object.__setattr__(self, name, int(value))
            if value < _LOWEST[name]:
                _fail(ValueError, name, f"at least {_LOWEST[name]}", value)
        elif name in _CHOICES:
            allowed = _CHOICES[name]
            if not isinstance(value, str):
                or_dtype = " or a dtype" if name == "param_dtype" else ""
                _fail(TypeError, name, f"a str{or_dtype}", value)
            if value not in allowed:
                _fail(ValueError, name, f"one of {', '.join(allowed)}", value)
        elif name in _FLAGS:
            if not isinstance(value, (bool, np.bool_)):
                _fail(TypeError, name, "a bool", value)
            object.__setattr__(self, name, bool(value))
        elif name != "rope_scaling":
            self._check_real(name, value)

    def _check_real(self, name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            _fail(TypeError, name, "a float", value)
        try:
            object.__setattr__(self, name, float(value))
        except OverflowError:
            _fail(ValueError, name, "within the range of a float", value)
        if name == "dropout" and not 0 <= value < 1:
            _fail(ValueError, name, "in [0, 1)", value)
        # A step with a cache takes it as an attribute, which has to be finite in float32.
        if name in ("rope_theta", "qk_norm_eps"):
            if not 0 < value <= float(np.finfo(np.float32).max):
                _fail(ValueError, name, "positive and finite in float32", value)

    def _check_divisible(self, name: str, divisor: Any) -> None:
        value, by = getattr(self, name), getattr(self, divisor)
        if value % by:
            _fail(ValueError, name, f"a multiple of {divisor} ({by})", value)
