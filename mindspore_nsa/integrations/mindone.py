"""Native Sparse Attention in models of mindone.transformers; see docs/mindone.md."""

from functools import cache

import mindspore
import numpy as np
from mindspore import Tensor, nn, ops

from ..nn import NSAConfig
from ..ops._plan import fail_type
from ._convert import (
    check_conversion,
    chosen_layers,
    framework,
    make_layer,
    name_parameters,
    refuse,
)
from ._mindone_attention import IRRELEVANT, attention

_VERSIONS = "0.5"
# Values that the attention of a model returns.
_RESULTS = {"llama": 2, "qwen3": 3}


def _mindone(function, module):
    return framework(function, "mindone", module, _VERSIONS)


def register(name="mindspore_nsa"):
    """Let mindone's models take dense attention from here: ``attn_implementation=name``.

    Masks are those of mindone's eager attention: padding, windows and packed texts are in them.

    Args:
        name (str, optional): The implementation's name. Default: ``"mindspore_nsa"``.

    Returns:
        The name, a str.

    Raises:
        TypeError: If `name` is not a str.
        ValueError: If another function has the name, or if mindone's models would take it for
            flash or paged attention.
        ImportError: If mindone is missing.
    """
    function = "mindspore_nsa.integrations.mindone.register"
    if not isinstance(name, str):
        fail_type(function, "name", "a str", name)
    for part in ("flash", "paged"):
        if part in name:
            raise ValueError(
                f"{function}: name must not contain {part!r}, by which mindone's models leave out "
                f"masks, got {name!r}"
            )
    functions = _mindone(function, "transformers.modeling_utils").AttentionInterface
    masks = _mindone(function, "transformers.masking_utils")
    # Models that make their masks by masking_utils get None where a name has no mask function.
    for interface, ours, what in (
        (functions, attention, "attention"),
        (masks.AttentionMaskInterface, masks.eager_mask, "mask"),
    ):
        if interface._global_mapping.get(name, ours) is not ours or name == "eager":
            raise ValueError(f"{function}: another {what} has the name {name!r}")
    functions.register(name, attention)
    masks.AttentionMaskInterface.register(name, masks.eager_mask)
    return name


# Fields of the models' configurations: those that nsa_config takes, and those that have no part in
# attention. nsa_config refuses what the others ask for.
SERVED_FIELDS = (
    *("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rope_theta"),
    *("rope_scaling", "max_position_embeddings", "attention_bias", "rms_norm_eps"),
)
REFUSED_FIELDS = (
    *("attention_dropout", "use_sliding_window", "sliding_window", "max_window_layers"),
    "layer_types",
)
IRRELEVANT_FIELDS = (
    *("vocab_size", "intermediate_size", "num_hidden_layers", "hidden_act", "initializer_range"),
    *("use_cache", "pad_token_id", "bos_token_id", "eos_token_id", "pretraining_tp"),
    *("tie_word_embeddings", "mlp_bias"),
)


def _padding_of(mask, before, length):
    """Which keys are padding, from a mask that hides these and later tokens, and nothing else."""
    name = "ConvertedAttention"
    if len(mask.shape) != 4 or mask.shape[1] != 1 or mask.shape[2] != length:
        raise ValueError(f"{name}: attention_mask must have shape (B, 1, {length}, K), got "
                         f"{mask.shape}")  # fmt: skip
    hidden = mask.asnumpy()[:, 0, :, : before + length]
    hidden = ~hidden if hidden.dtype == bool else hidden != 0
    # The last query sees every key that is no padding.
    padding = hidden[:, -1]
    ahead = np.arange(before + length) > np.arange(before, before + length)[:, None]
    wrong = (hidden != (ahead | padding[:, None])).any(-1) & ~padding[:, before:]
    if wrong.any():
        raise ValueError(
            f"{name}: attention_mask must hide padding and later tokens only: no packed texts, "
            "windows or prefixes"
        )
    return Tensor(padding)


class ConvertedAttention(nn.Cell):
    """One of the layers in the place of a model's attention.

    Args:
        layer (Union[NativeSparseAttention, DenseAttention]): The layer.
        number (int): Number of the model's layer.
        results (int): How many values the model expects.
    """

    def __init__(self, layer, number, results):
        super().__init__()
        self.attention, self.layer_idx, self.results = layer, number, results

    def construct(
        self,
        hidden_states,
        attention_mask=None,
        position_embeddings=None,
        past_key_values=None,
        past_key_value=None,
        cache_position=None,
        output_attentions=False,
        **options,
    ):
        """Attend as in the model, with positions from the rows and not from the model."""
        if output_attentions:
            raise ValueError("ConvertedAttention: output_attentions must be False: none are kept")
        for name, value in options.items():
            if value is not None and value is not False and name not in IRRELEVANT:
                raise ValueError(f"ConvertedAttention: {name} must be None: it is not served")
        held = past_key_values if past_key_value is None else past_key_value
        padding, length = None, hidden_states.shape[1]
        if attention_mask is not None:
            before = held.seen[self.layer_idx] if hasattr(held, "step") else 0
            padding = _padding_of(attention_mask, before, length)
        if held is None:
            out = self.attention(hidden_states, None, None, padding)
        elif not hasattr(held, "step"):
            raise TypeError(
                "ConvertedAttention: past_key_values must be an NSACache(model, batch, capacity), "
                f"or use_cache False, got {type(held).__name__}"
            )
        else:
            out = held.step(self, hidden_states, padding)
        return (out, None) if self.results == 2 else (out, None, held)


def _decoder(function, model):
    inner = getattr(model, "model", model)
    config = getattr(model, "config", None)
    if config is None or not hasattr(inner, "layers"):
        fail_type(function, "model", "a decoder of mindone.transformers", model)
    if config.model_type not in _RESULTS:
        refuse(function, f"no model type of {', '.join(_RESULTS)}", config.model_type)
    return config, inner.layers


def nsa_config(config, **sizes):
    """The sizes of a layer from a model's configuration.

    Args:
        config (PretrainedConfig): Of a Llama or Qwen3 model.
        sizes: Fields of `NSAConfig` that the model does not have: blocks, window, gates.

    Returns:
        NSAConfig.

    Raises:
        TypeError: If a size is none of `NSAConfig`.
        ValueError: If the model has what the layers have not.
    """
    function = "mindspore_nsa.integrations.mindone.nsa_config"
    check_conversion(function, "nsa", sizes)
    if config.model_type not in _RESULTS:
        refuse(function, f"no model type of {', '.join(_RESULTS)}", config.model_type)
    if getattr(config, "attention_dropout", 0.0):
        refuse(function, "dropout of attention weights", config.attention_dropout)
    kinds = set(getattr(config, "layer_types", None) or ())
    if getattr(config, "use_sliding_window", False) or kinds - {"full_attention"}:
        refuse(function, "sliding windows", sorted(kinds) or config.sliding_window)
    if getattr(config, "sliding_window", None) and config.model_type == "llama":
        refuse(function, "sliding windows", config.sliding_window)
    if getattr(config, "partial_rotary_factor", 1.0) not in (None, 1.0):
        refuse(function, "a part of the head rotated", config.partial_rotary_factor)
    heads = config.num_attention_heads
    scaling = getattr(config, "rope_scaling", None)
    if isinstance(scaling, dict) and "yarn" in (scaling.get("rope_type"), scaling.get("type")):
        scaling = {"original_max_position_embeddings": config.max_position_embeddings, **scaling}
    model_sizes = {
        "hidden_size": config.hidden_size,
        "num_heads": heads,
        "num_kv_heads": config.num_key_value_heads,
        "head_dim": getattr(config, "head_dim", None) or config.hidden_size // heads,
        "rope_theta": config.rope_theta,
        "rope_scaling": scaling,
        "has_bias": bool(getattr(config, "attention_bias", False)),
    }
    if config.model_type == "qwen3":
        model_sizes.update(qk_norm=True, qk_norm_eps=config.rms_norm_eps)
    return NSAConfig(**{**model_sizes, **sizes})


def _weights(old):
    """The weights of a model's attention by the names of a DenseAttention."""
    weights = {}
    for kind in ("weight", "bias"):
        parts = [getattr(getattr(old, f"{name}_proj"), kind, None) for name in "qkvo"]
        if parts[0] is None:
            continue
        query, key, value, output = (part.astype(mindspore.float32).asnumpy() for part in parts)
        weights[f"query.{kind}"], weights[f"output.{kind}"] = query, output
        weights[f"key_value.{kind}"] = np.concatenate((key, value))
    for ours, its in (("query_norm", "q_norm"), ("key_norm", "k_norm")):
        if hasattr(old, its):
            weights[f"{ours}.weight"] = getattr(old, its).weight
    return weights


def convert_attention(model, layers=None, copy_weights=True, attention="nsa", **sizes):
    """Exchange the attention of a Llama or Qwen3 model, in place.

    Args:
        model (PreTrainedModel): Of mindone.transformers.
        layers (list[int], optional): Numbers of the layers to exchange. Default: ``None``, all.
        copy_weights (bool, optional): Whether the new layers begin with the weights of the old
            ones; then `gating` is ``"residual"`` unless it is given. Default: ``True``.
        attention (str, optional): ``"nsa"`` or ``"dense"``. Default: ``"nsa"``.
        sizes: Fields of `NSAConfig` that the model does not have, as `window_size`.

    Returns:
        The model.

    Raises:
        TypeError: If an argument has the wrong type, or a size is none of `NSAConfig`.
        ValueError: If the model has what the layers have not, or if a layer is converted already.
        ImportError: If mindone is missing.
    """
    function = "mindspore_nsa.integrations.mindone.convert_attention"
    _mindone(function, "transformers")
    check_conversion(function, attention, sizes)
    model_config, cells = _decoder(function, model)
    chosen = chosen_layers(function, layers, len(cells))
    for number in chosen:
        if isinstance(cells[number].self_attn, ConvertedAttention):
            raise ValueError(f"{function}: layer {number} is converted already")
    if copy_weights:
        sizes.setdefault("gating", "residual")
    made = []
    for number in chosen:
        old = cells[number].self_attn
        dtype = old.q_proj.weight.dtype
        config = nsa_config(model_config, **{"param_dtype": dtype, **sizes})
        weights = _weights(old) if copy_weights else None
        layer = make_layer(function, config, attention, weights)
        made.append(ConvertedAttention(layer, number, _RESULTS[model_config.model_type]))
    # Only now, so that an error leaves the model as it was.
    for number, new in zip(chosen, made):
        cells[number].self_attn = new
    name_parameters(model)
    return model


@cache
def _cache_class(base):
    class NSACache(base):
        """The caches of a converted model's layers, for `generate`; see `NSACache`."""

        def __init__(self, model, batch, capacity, dtype):
            super().__init__()
            config, cells = _decoder("NSACache", model)
            if config.model_type != "llama":
                raise ValueError(
                    f"NSACache: model must be a Llama: mindone's {config.model_type} hands caches "
                    "on as a tuple, which its generate refuses; generate with use_cache False"
                )
            self.held, self.seen, self.batch = {}, {}, batch
            for number, cell in enumerate(cells):
                if isinstance(cell.self_attn, ConvertedAttention):
                    layer = cell.self_attn.attention
                    self.held[number] = layer.new_cache(batch, capacity, dtype)
                    self.seen[number] = 0
            if not self.held:
                raise ValueError("NSACache: model must have converted layers, got none")
            self.capacity = capacity

        def step(self, cell, x, padding):
            """The output of a layer for new tokens, of which those that are no padding are kept."""
            number, (batch, length, width) = cell.layer_idx, x.shape
            before = self.seen[number]
            self.seen[number] = before + length
            if padding is None:
                return cell.attention(x, cache=self.held[number])
            padding = padding[:, before : before + length].asnumpy()
            if not padding.any():
                return cell.attention(x, cache=self.held[number])
            real = ~padding
            rows = ops.reshape(x, (-1, width))
            places = Tensor(np.flatnonzero(real).astype(np.int32))
            ends = np.cumsum(real.sum(1)).tolist()
            kept = cell.attention(ops.gather(rows, places, 0), ends, cache=self.held[number])
            # Padding takes the place of a token that nobody reads.
            source = np.maximum(np.cumsum(real.reshape(-1)) - 1, 0).astype(np.int32)
            out = ops.gather(kept, Tensor(source), 0)
            return ops.reshape(out, (batch, length, width))

        def get_seq_length(self, layer_idx=0):
            """Tokens that the model has been given, padding included."""
            return next(iter(self.seen.values()))

        def get_mask_sizes(self, cache_position, layer_idx):
            """Keys of the next mask, and where they begin."""
            return self.get_seq_length() + cache_position.shape[0], 0

        def get_max_cache_shape(self, layer_idx=0):
            """The capacity."""
            return self.capacity

        def reset(self):
            """Empty, for another prompt."""
            for number, held in self.held.items():
                held.reset()
                self.seen[number] = 0

        def reorder_cache(self, beam_idx):
            """Rows for the beams that go on; a row may go on several times."""
            rows = beam_idx.asnumpy().astype(np.int64).tolist()
            self.held = {number: held.select(rows) for number, held in self.held.items()}
            super().reorder_cache(beam_idx)

        def crop(self, max_length):
            """Not there: with padding the lengths of rows differ."""
            raise NotImplementedError("NSACache: crop the rows by truncate of the layers' caches")

        @property
        def is_compileable(self):
            """Whether a step may be compiled."""
            return False

        @property
        def max_batch_size(self):
            """Rows."""
            return self.batch

    return NSACache


def NSACache(model, batch, capacity, dtype=None):  # noqa: N802
    """A cache for ``model.generate(..., past_key_values=NSACache(model, batch, capacity))``.

    Layers that are not converted keep their keys and values in it as in mindone's DynamicCache.

    Args:
        model (PreTrainedModel): A model that `convert_attention` has changed.
        batch (int): Rows of the prompt.
        capacity (int): Most tokens of a row, those to be generated included.
        dtype (mindspore.dtype, optional): Of keys and values. Default: ``None``, that of the
            parameters.

    Returns:
        A cache of mindone's kind.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the model is no Llama, if no layer of it is converted, or if a size is below
            1.
        ImportError: If mindone is missing.
    """
    base = _mindone("mindspore_nsa.integrations.mindone.NSACache", "transformers.cache_utils")
    return _cache_class(base.DynamicCache)(model, batch, capacity, dtype)


__all__ = ["NSACache", "attention", "convert_attention", "nsa_config", "register"]
