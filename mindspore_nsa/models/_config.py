"""Attention layers read their fields out of a model's config.json here."""

from typing import NamedTuple

from ..nn.rope import TYPES, RopeScaling
from ..ops._plan import fail_type, shown


class Rope(NamedTuple):
    """A rotary embedding.

    Attributes:
        dim: Dimensions of a head that turn, even; 0 for none.
        theta: Base of the wavelengths.
        scaling: RopeScaling or None.
        factor: Of cosines and sines.
    """

    dim: int
    theta: float
    scaling: RopeScaling | None
    factor: float


class Fields:
    """The fields of a configuration as attributes, with the defaults of transformers.

    Args:
        name (str): Name of the layer, for errors.
        config (Union[dict, object]): The dict of a config.json, or an object with `to_dict()`. Of a
            model for images and text the part of the text is read.
        defaults (dict): Fields with their defaults.
        model_types (tuple): What `model_type` may be.
        layer_idx (int): Number of the layer in the model.
    """

    def __init__(self, name, config, defaults, model_types, layer_idx):
        if hasattr(config, "to_dict"):
            config = config.to_dict()
        if not isinstance(config, dict):
            fail_type(name, "config", "a dict or an object with to_dict()", config)
        text = config.get("text_config")
        config = text if isinstance(text, dict) else config
        given = {key: value for key, value in config.items() if value is not None}
        self.name, self.given = name, given
        if given.get("model_type", model_types[0]) not in model_types:
            self.refuse("model_type", f"one of {', '.join(model_types)}")
        for key, value in {"hidden_size": None, "rms_norm_eps": 1e-6, **defaults}.items():
            value = given.get(key, value)
            if value is None:
                raise ValueError(f"{name}: config must have the field {key}")
            setattr(self, key, value)
        if type(layer_idx) is not int:
            fail_type(name, "layer_idx", "an int", layer_idx)
        layers = given.get("num_hidden_layers", layer_idx + 1)
        if not 0 <= layer_idx < layers:
            raise ValueError(f"{name}: layer_idx must be in [0, {layers}), got {layer_idx}")
        self.layer_idx, self.layers = layer_idx, layers
        if given.get("attention_dropout", 0):
            self.refuse("attention_dropout", "0, because the operators drop no probabilities")

    def refuse(self, key, expected):
        """Raise the error of a field that is not served."""
        raise ValueError(f"{self.name}: {key} must be {expected}, got {shown(self.given.get(key))}")

    def require(self, key, condition, expected):
        """An error unless a condition on a field holds."""
        if not condition:
            got = getattr(self, key, self.given.get(key))
            raise ValueError(f"{self.name}: {key} must be {expected}, got {shown(got)}")

    def of_layer(self, key, default):
        """The entry for this layer of a list that has one for each."""
        entries = self.given.get(key, default)
        if not isinstance(entries, (list, tuple)) or len(entries) <= self.layer_idx:
            raise ValueError(
                f"{self.name}: {key} must be a list of at least {self.layer_idx + 1} entries, "
                f"got {shown(entries)}"
            )
        return entries[self.layer_idx]

    def rope_parameters(self):
        """`rope_parameters`, or the fields that older files have in its place."""
        known = self.given.get("rope_parameters", self.given.get("rope_scaling", {}))
        if not isinstance(known, dict):
            self.refuse("rope_parameters", "a dict")
        return known

    def rope(self, head_dim, theta=10000.0, parameters=None):
        """The rotary embedding of heads of a size.

        Args:
            head_dim: Size of the heads, of which `partial_rotary_factor` says the part that turns.
            theta: Base where the configuration has none.
            parameters: Another dict than `rope_parameters`.
        """
        known = self.rope_parameters() if parameters is None else parameters
        kind = known.get("rope_type", known.get("type", "default"))
        theta = known.get("rope_theta", self.given.get("rope_theta", theta))
        part = known.get("partial_rotary_factor", self.given.get("partial_rotary_factor", 1.0))
        dim = int(head_dim * part)
        if dim % 2:
            raise ValueError(f"{self.name}: dimensions that turn must be an even number, got {dim}")
        if kind == "default":
            return Rope(dim, float(theta), None, 1.0)
        if kind not in TYPES:
            raise ValueError(
                f"{self.name}: rope_type must be default, {' or '.join(TYPES)}, got {shown(kind)}"
            )
        if kind == "linear":
            return Rope(dim, float(theta), RopeScaling("linear", float(known["factor"])), 1.0)
        return self._yarn(dim, float(theta), known)

    def _yarn(self, dim, theta, known):
        trained = known.get("original_max_position_embeddings")
        if trained is None:
            raise ValueError(f"{self.name}: YaRN needs original_max_position_embeddings, got None")
        factor = known.get("factor") or self.given["max_position_embeddings"] / trained
        options = {
            key: known[key]
            for key in ("beta_fast", "beta_slow", "attention_factor", "truncate")
            if known.get(key) is not None
        }
        if known.get("mscale") and known.get("mscale_all_dim"):
            options.update((key, float(known[key])) for key in ("mscale", "mscale_all_dim"))
        scaling = RopeScaling(
            "yarn", float(factor), original_max_position_embeddings=trained, **options
        )
        return Rope(dim, theta, scaling, scaling.query_key_factor)
