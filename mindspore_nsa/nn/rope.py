"""How a rotary position embedding is stretched to longer texts than a model was trained with."""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..ops._plan import shown

TYPES = ("linear", "yarn")
# These fields of Hugging Face configurations apply to YaRN alone.
_ONLY_YARN = (
    "original_max_position_embeddings",
    *("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"),
)
# No pair of a head is turned as before: every i lies beyond the end of the ramp.
_ALL = (-2.0, -1.0)


def _fail(kind: Any, field: str, expected: str, got: Any) -> None:
    raise kind(f"RopeScaling: {field} must be {expected}, got {shown(got)}")


@dataclass(frozen=True)
class RopeScaling:
    r"""A slower rotary embedding, for longer texts than the angles were trained with.

    ``"linear"`` divides every angle by `factor`. ``"yarn"`` (arXiv 2309.00071) does so with the
    pairs of a head that turn less than `beta_slow` times in the text that the model was trained
    with, leaves those that turn more than `beta_fast` times, goes from one to the other on a ramp,
    and multiplies queries and keys by `attention_factor`.

    Args:
        rope_type (str): ``"linear"`` or ``"yarn"``.
        factor (float): How much longer the text becomes, at least 1.
        original_max_position_embeddings (int, optional): Tokens of the text that the model was
            trained with; ``"yarn"`` needs it. Default: ``None``.
        beta_fast (float, optional): Turns from which on an angle stays. Default: ``32.0``.
        beta_slow (float, optional): Turns below which an angle is divided. Default: ``1.0``.
        attention_factor (float, optional): What queries and keys are multiplied by. Default:
            ``None``, :math:`0.1 \ln(factor) + 1`, or what `mscale` and `mscale_all_dim` say.
        mscale (float, optional): With `mscale_all_dim`, the factor is
            :math:`(0.1 mscale \ln(factor) + 1) / (0.1 mscale\_all\_dim \ln(factor) + 1)`.
            Default: ``None``.
        mscale_all_dim (float, optional): See `mscale`. Default: ``None``.
        truncate (bool, optional): Whether the ramp begins and ends at whole pairs.
            Default: ``True``.

    Raises:
        TypeError: If a field has the wrong type.
        ValueError: If a field has a value that is not allowed.

    Examples:
        >>> from mindspore_nsa.nn import RopeScaling
        >>> scaling = RopeScaling("yarn", 4.0, original_max_position_embeddings=4096)
        >>> print(scaling.frequencies(4, 10000.0))
        [1.      0.00625]
    """

    rope_type: str
    factor: float
    original_max_position_embeddings: int | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.rope_type, str):
            _fail(TypeError, "rope_type", "a str", self.rope_type)
        if self.rope_type not in TYPES:
            _fail(ValueError, "rope_type", f"one of {', '.join(TYPES)}", self.rope_type)
        self._check_real("factor", lowest=1.0)
        if not isinstance(self.truncate, (bool, np.bool_)):
            _fail(TypeError, "truncate", "a bool", self.truncate)
        if self.rope_type == "linear":
            self._check_nothing_else()
            return
        self._check_length()
        for name in ("beta_fast", "beta_slow"):
            self._check_real(name)
        if self.beta_fast <= self.beta_slow:
            expected = f"greater than beta_slow ({self.beta_slow})"
            _fail(ValueError, "beta_fast", expected, self.beta_fast)
        for name in ("attention_factor", "mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                self._check_real(name)
        if (self.mscale is None) != (self.mscale_all_dim is None):
            _fail(ValueError, "mscale", "given with mscale_all_dim", self.mscale)

    def _check_real(self, name: str, lowest: Any = None) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            _fail(TypeError, name, "a float", value)
        # A step with a cache takes it as an attribute, which has to be finite in float32.
        if not 0 < value <= float(np.finfo(np.float32).max):
            _fail(ValueError, name, "positive and finite in float32", value)
        if lowest is not None and value < lowest:
            _fail(ValueError, name, f"at least {lowest}", value)
        object.__setattr__(self, name, float(value))

    def _check_length(self) -> None:
        name = "original_max_position_embeddings"
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            _fail(TypeError, name, "an int for yarn", value)
        if value < 1:
            _fail(ValueError, name, "at least 1", value)
        object.__setattr__(self, name, int(value))

    def _check_nothing_else(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _ONLY_YARN and value != field.default:
                # Configurations often carry the length, which changes no angle.
                if field.name == "original_max_position_embeddings":
                    self._check_length()
                    continue
                _fail(ValueError, field.name, "left alone with rope_type linear", value)

    @classmethod
    def of(cls, given: Any) -> "RopeScaling | None":
        """From what a configuration may hold: None, one of these, or a dict as in Hugging Face's.

        Args:
            given (Union[None, RopeScaling, dict]): In a dict `type` may stand for `rope_type`, and
                ``"default"`` means none.

        Returns:
            RopeScaling, or None where nothing is scaled.

        Raises:
            TypeError: If it is something else.
            ValueError: If a key is unknown.
        """
        if given is None or isinstance(given, cls):
            return given
        if not isinstance(given, dict):
            raise TypeError(
                f"NSAConfig: rope_scaling must be None, a RopeScaling or a dict, got {shown(given)}"
            )
        given = dict(given)
        kind = given.pop("type", None)
        given.setdefault("rope_type", kind)
        if given["rope_type"] == "default":
            return None
        known = [field.name for field in fields(cls)]
        unknown = [name for name in given if name not in known]
        if given["rope_type"] in TYPES and unknown:
            raise ValueError(
                f"NSAConfig: rope_scaling must have no other keys than {', '.join(known)}, got "
                f"{', '.join(map(str, unknown))}"
            )
        if given["rope_type"] not in TYPES:
            given = {"rope_type": given["rope_type"], "factor": 1.0}
        if "factor" not in given:
            raise ValueError("NSAConfig: rope_scaling must have a factor, got none")
        return cls(**given)

    def ramp(self, dim: int, theta: float) -> tuple[float, float]:
        """Pairs (low, high) between which the share of the divided angle goes from 0 to 1."""
        if self.rope_type == "linear":
            return _ALL

        def pair(turns: Any) -> Any:
            tokens = self.original_max_position_embeddings / (turns * 2 * math.pi)
            return dim * math.log(tokens) / (2 * math.log(theta))

        low, high = pair(self.beta_fast), pair(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        return float(low), float(high + 0.001 if low == high else high)

    def frequencies(self, dim: int, theta: float) -> np.ndarray:
        """Angles of position 1.

        Args:
            dim (int): Size of a head, even.
            theta (float): Base of the wavelengths.

        Returns:
            numpy.ndarray of float64, shape :math:`(dim / 2,)`.
        """
        low, high = self.ramp(dim, theta)
        share = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
        return theta ** (-np.arange(0, dim, 2) / dim) * (share / self.factor + (1 - share))

    @property
    def query_key_factor(self) -> float:
        """Factor of queries and keys."""

        def scaled(by: Any) -> Any:
            return 0.1 * by * math.log(self.factor) + 1

        if self.rope_type == "linear":
            return 1.0
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale is not None:
            return scaled(self.mscale) / scaled(self.mscale_all_dim)
        return scaled(1.0)
