"""Native Sparse Attention in models of MindFormers; see docs/mindformers.md."""

import copy

import mindspore
import numpy as np
from mindspore import Tensor, nn, ops

from ..nn import NSAConfig
from ..ops._plan import fail_type
from . import _mindformers_cpu
from ._convert import (
    check_conversion,
    chosen_layers,
    framework,
    make_layer,
    refuse,
)

_NAME = "mindspore_nsa.integrations.mindformers"
_VERSIONS = "1.9 to 2.1"
_VARIANTS = "pynative.base_models.gpt.experimental_attention_variant_module_specs"
_registered = {}
# MindFormers tells every operator how it is split; the layers exchange by groups of workers.
_SHARDING = "by MindFormers' sharding (docs/parallel.md has layers that share the work)"

# A field of MindFormers' configuration, the values that the layers stand for, and what others are.
_ONLY = (
    ("multi_latent_attention", (None, False), "multi-latent attention"),
    ("rotary_interleaved", (None, False), "interleaved rotary pairs"),
    ("position_embedding_type", (None, "rope"), "position embeddings other than rope"),
    ("use_rope_scaling", (None, False), "scaled rotary embeddings"),
    ("rope_scaling", (None, {}), "scaled rotary embeddings"),
    ("rotary_seq_len_interpolation_factor", (None, 1, 1.0), "scaled rotary embeddings"),
    ("partial_rotary_factor", (None, 1, 1.0), "a part of the head rotated"),
    ("nope_layer_interval", (None, 0), "layers without positions"),
    ("window_size", (None,), "sliding windows"),
    ("attention_dropout", (None, 0, 0.0), "dropout of attention weights"),
    ("use_alibi_mask", (None, False), "biases of positions"),
    ("softmax_scale", (None,), "a scale of scores of its own"),
    ("track_max_attention_logit", (None, False), "its largest scores tracked"),
    ("apply_query_key_layer_scaling", (None, False), "scores scaled by the layer's number"),
    ("rotary_cos_format", (None, "rotate_half"), "another order of rotary pairs"),
    ("use_rotary_position_ids", (None, False), "positions that its batches give"),
    ("use_ring_attention", (None, False), "ring attention"),
    ("seq_split_num", (None, 0, 1), "texts in parts that follow each other"),
    ("tensor_model_parallel_size", (None, 1), f"tensor parallelism {_SHARDING}"),
    ("context_parallel_size", (None, 1), f"context parallelism {_SHARDING}"),
)


# Fields that nsa_config or convert_attention takes.
SERVED_FIELDS = (
    *("hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "rotary_base"),
    *("add_bias_linear", "add_qkv_bias", "layernorm_epsilon", "params_dtype", "qk_layernorm"),
    *("normalization", "use_contiguous_weight_layout_attention"),
)


def nsa_config(transformer_config, **sizes):
    """The sizes of a layer from MindFormers' configuration of a transformer.

    Args:
        transformer_config (TransformerConfig): What `model.get_gpt_transformer_config()` gives.
        sizes: Fields of `NSAConfig` that MindFormers does not have: blocks, window, gates.

    Returns:
        NSAConfig.

    Raises:
        TypeError: If a size is none of `NSAConfig`.
        ValueError: If the configuration asks for what the layers have not.
    """
    function = f"{_NAME}.nsa_config"
    check_conversion(function, "nsa", sizes)
    c = transformer_config
    if not hasattr(c, "num_attention_heads"):
        fail_type(function, "transformer_config", "a TransformerConfig of MindFormers", c)
    for field, allowed, what in _ONLY:
        value = getattr(c, field, None)
        if value not in allowed:
            refuse(function, what, f"{field} {value}")
    heads = c.num_attention_heads
    model_sizes = {
        "hidden_size": c.hidden_size,
        "num_heads": heads,
        "num_kv_heads": c.num_query_groups or heads,
        "head_dim": c.kv_channels or c.hidden_size // heads,
        "rope_theta": c.rotary_base,
        "has_bias": bool(c.add_bias_linear or c.add_qkv_bias),
        "qk_norm_eps": c.layernorm_epsilon,
        "param_dtype": c.params_dtype,
    }
    return NSAConfig(**{**model_sizes, **sizes})


class NSASelfAttention(nn.Cell):
    """Native Sparse Attention as the `self_attention` of a MindFormers layer.

    Its parameters have the names of `NativeSparseAttention` behind those of the layer:
    decoder.layers.0.self_attention.attention.query.weight.

    Args:
        config (TransformerConfig): Configuration of the transformer.
        layer_number (int): Number of the layer, from 0.
        submodules (object, optional): MindFormers passes what a spec has; it has no effect.
            Default: ``None``.
        is_mtp_layer (bool, optional): MindFormers says whether the layer is one of multi-token
            prediction; it has no effect. Default: ``False``.
        attention (str, optional): ``"nsa"`` or ``"dense"``. Default: ``"nsa"``.
        sizes: Fields of `NSAConfig` that `config` does not have.

    Inputs:
        - **hidden_states** (Tensor) - Shape :math:`(S, B, H)`.
        - **attention_mask** (Tensor, optional) - Is not read: attention is causal.
        - **rotary_pos_emb** (Tensor, optional) - Is not read: positions count from the beginning of
          a row, or of a document of `actual_seq_len`. mscale and rotary_cos_sin neither.
        - **prefix_keys_values** (None) - Must be None.
        - **actual_seq_len** (Union[Tensor, tuple], optional) - Prefix sums of the documents'
          lengths over the rows one after another.

    Outputs:
        Tuple of a Tensor of the shape and dtype of `hidden_states`, and None for the bias.

    Raises:
        TypeError: If a size is none of `NSAConfig`.
        ValueError: If the configuration or a call asks for what the layer has not.

    Supported Platforms:
        ``CPU`` ``Ascend``
    """

    def __init__(
        self,
        config,
        layer_number,
        submodules=None,
        is_mtp_layer=False,
        attention="nsa",
        weights=None,
        **sizes,
    ):
        super().__init__()
        name = type(self).__name__
        check_conversion(name, attention, sizes)
        self.layer_number = layer_number
        self.attention = make_layer(name, nsa_config(config, **sizes), attention, weights)

    def reset_parameter(self):
        """Fill the parameters; MindFormers' trainer calls this for a model built without memory."""
        self.attention.reset_parameter()

    def construct(
        self,
        hidden_states,
        attention_mask=None,
        rotary_pos_emb=None,
        prefix_keys_values=None,
        actual_seq_len=None,
        mscale=None,
        rotary_cos_sin=None,
    ):
        """See the class."""
        if prefix_keys_values is not None:
            raise ValueError("NSASelfAttention: prefix_keys_values must be None")
        rows = ops.transpose(hidden_states, (1, 0, 2))
        if actual_seq_len is None:
            out = self.attention(rows)
        else:
            shape = ops.shape(rows)
            out = self.attention(ops.reshape(rows, (-1, shape[-1])), actual_seq_len)
            out = ops.reshape(out, shape)
        return ops.transpose(out, (1, 0, 2)), None


def split_qkv(weight, num_heads, num_kv_heads, head_dim, contiguous=False):
    """MindFormers' linear_qkv, rows grouped by key head, as those of a DenseAttention.

    Args:
        weight (Union[Tensor, numpy.ndarray]): Weight or bias; its first dimension is that of the
            outputs: for every key head its queries, its key, its value; or, `contiguous`, all
            queries, all keys, all values.
        num_heads (int): Query heads.
        num_kv_heads (int): Key heads.
        head_dim (int): Size of a head.
        contiguous (bool, optional): `use_contiguous_weight_layout_attention` of the configuration.
            Default: ``False``.

    Returns:
        Tuple of arrays: of `query`, and of `key_value` (keys, then values).
    """
    if isinstance(weight, Tensor):
        weight = weight.astype(mindspore.float32).asnumpy()
    group = num_heads // num_kv_heads
    if contiguous:
        parts = np.split(weight, [num_heads * head_dim, (num_heads + num_kv_heads) * head_dim])
        return parts[0], np.concatenate(parts[1:])
    heads = weight.reshape(num_kv_heads, group + 2, head_dim, *weight.shape[1:])
    query, key, value = (
        part.reshape(-1, *weight.shape[1:])
        for part in (heads[:, :group], heads[:, group], heads[:, group + 1])
    )
    return query, np.concatenate((key, value))


def join_qkv(query, key_value, num_heads, num_kv_heads, head_dim, contiguous=False):
    """The way back: linear_qkv from the rows of a DenseAttention.

    Args:
        query (Union[Tensor, numpy.ndarray]): Weight or bias of `query`.
        key_value (Union[Tensor, numpy.ndarray]): That of `key_value`, one set of keys and values.
        num_heads (int): Query heads.
        num_kv_heads (int): Key heads.
        head_dim (int): Size of a head.
        contiguous (bool, optional): See `split_qkv`. Default: ``False``.

    Returns:
        numpy.ndarray.

    Raises:
        ValueError: If `key_value` has rows of several sets.
    """
    query, key_value = (
        x.astype(mindspore.float32).asnumpy() if isinstance(x, Tensor) else x
        for x in (query, key_value)
    )
    rows = 2 * num_kv_heads * head_dim
    if len(key_value) != rows:
        raise ValueError(
            f"{_NAME}.join_qkv: key_value must have {rows} rows, one set of keys and values, got "
            f"{len(key_value)}"
        )
    if contiguous:
        return np.concatenate((query, key_value))
    rest = query.shape[1:]
    heads = query.reshape(num_kv_heads, -1, head_dim, *rest)
    key, value = key_value.reshape(2, num_kv_heads, 1, head_dim, *rest)
    return np.concatenate((heads, key, value), 1).reshape(-1, *rest)


def _norm_of(function, old):
    """Whether a model's attention norms its queries and keys, and the weights of the norms."""
    weights = {}
    for ours, its in (("query_norm", "q_layernorm"), ("key_norm", "k_layernorm")):
        norm = getattr(old, its, None)
        if norm is None or type(norm).__name__ == "IdentityOp":
            continue
        if "RMSNorm" not in type(norm).__name__:
            refuse(function, "norms of queries and keys other than RMSNorm", type(norm).__name__)
        weights[f"{ours}.weight"] = norm.weight
    return weights


def _weights(config, old, contiguous):
    """The weights of a model's attention by the names of a DenseAttention."""
    weights = {}
    for kind in ("weight", "bias"):
        joint = getattr(old.linear_qkv, kind, None)
        if joint is not None:
            sizes = (config.num_heads, config.num_kv_heads, config.head_dim, contiguous)
            parts = split_qkv(joint, *sizes)
            weights[f"query.{kind}"], weights[f"key_value.{kind}"] = parts
        output = getattr(old.linear_proj, kind, None)
        if output is not None:
            weights[f"output.{kind}"] = output
    return weights


def _decoder(function, model):
    inner = model.get_gpt_model() if hasattr(model, "get_gpt_model") else model
    layers = getattr(getattr(inner, "decoder", None), "layers", None)
    if layers is None:
        fail_type(function, "model", "a model of MindFormers with a GPTModel", model)
    return inner.config, layers


def convert_attention(model, layers=None, copy_weights=True, attention="nsa", **sizes):
    """Exchange the attention of a model of MindFormers, in place.

    Args:
        model (PreTrainedModel): A model with a GPTModel, as Qwen3, or the GPTModel.
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
        ImportError: If MindFormers is missing.
    """
    function = f"{_NAME}.convert_attention"
    framework(function, "mindformers", "", _VERSIONS)
    check_conversion(function, attention, sizes)
    config, cells = _decoder(function, model)
    chosen = chosen_layers(function, layers, len(cells))
    for number in chosen:
        if isinstance(cells[number].self_attention, NSASelfAttention):
            raise ValueError(f"{function}: layer {number} is converted already")
    if copy_weights:
        sizes.setdefault("gating", "residual")
    contiguous = bool(getattr(config, "use_contiguous_weight_layout_attention", False))
    made = []
    for number in chosen:
        old = cells[number].self_attention
        if not hasattr(old, "linear_qkv"):
            refuse(function, "an attention that has no linear_qkv", type(old).__name__)
        norms, weights = _norm_of(function, old), None
        here = {"qk_norm": bool(norms), **sizes}
        if copy_weights:
            weights = {**_weights(nsa_config(config, **here), old, contiguous), **norms}
        new = NSASelfAttention(config, number, attention=attention, weights=weights, **here)
        # The name of the place, as checkpoints have it: a model may leave its own name out.
        before = old.linear_qkv.weight.name.rpartition("linear_qkv")[0]
        made.append((new, before))
    # Only now, so that an error leaves the model as it was.
    for number, (new, before) in zip(chosen, made):
        cells[number].self_attention = new
        for place, parameter in new.parameters_and_names():
            parameter.name = before + place
    return model


def nsa_spec(spec, layers=None, attention="nsa", **sizes):
    """A copy of a layer's or a block's spec with this attention, for a GPTModel of one's own.

    Args:
        spec (Union[ModuleSpec, TransformerBlockSubmodules]): As get_gpt_layer_local_spec or
            get_gpt_decoder_block_spec gives it.
        layers (list[int], optional): Numbers of the layers, for the spec of a block.
            Default: ``None``, all.
        attention (str, optional): ``"nsa"`` or ``"dense"``. Default: ``"nsa"``.
        sizes: Fields of `NSAConfig` that MindFormers does not have.

    Returns:
        A copy of `spec`, which stays as it is.

    Raises:
        TypeError: If an argument has the wrong type, or a size is none of `NSAConfig`.
        ValueError: If a layer does not exist, or if `layers` is given for the spec of a layer.
        ImportError: If MindFormers is missing.
    """
    function = f"{_NAME}.nsa_spec"
    framework(function, "mindformers", "", _VERSIONS)
    check_conversion(function, attention, sizes)
    blocks = getattr(spec, "layer_specs", None)
    if blocks is not None:
        chosen = chosen_layers(function, layers, len(blocks))
        changed = copy.copy(spec)
        changed.layer_specs = [
            nsa_spec(block, attention=attention, **sizes) if number in chosen else block
            for number, block in enumerate(blocks)
        ]
        return changed
    if not hasattr(getattr(spec, "submodules", None), "self_attention"):
        fail_type(function, "spec", "the ModuleSpec of a transformer layer, or of a block", spec)
    if layers is not None:
        raise ValueError(f"{function}: layers must be None for the spec of a layer, got {layers}")
    changed, parts = copy.copy(spec), copy.copy(spec.submodules)
    parts.self_attention = type(spec)(
        module=NSASelfAttention, params={"attention": attention, **sizes}
    )
    changed.submodules = parts
    return changed


def register(name="nsa", **sizes):
    """Let ``experimental_attention_variant: nsa`` of MindFormers 2.1's PyNative models be this.

    It reaches models whose spec comes from `get_gpt_decoder_block_spec`; the shipped Qwen3 makes
    its own, and needs `convert_attention`.

    Args:
        name (str, optional): The variant's name. Default: ``"nsa"``.
        sizes: Fields of `NSAConfig` that MindFormers does not have.

    Returns:
        The name, a str.

    Raises:
        TypeError: If an argument has the wrong type, or a size is none of `NSAConfig`.
        ValueError: If the name is registered with other sizes.
        ImportError: If MindFormers or its registry is missing.
    """
    function = f"{_NAME}.register"
    if not isinstance(name, str):
        fail_type(function, "name", "a str", name)
    check_conversion(function, "nsa", sizes)
    registry = framework(function, "mindformers", _VARIANTS, "2.1 and hyper_parallel")
    # After `stop_serving_cpu` there is another registry, which does not know the name.
    known, before = _registered.get(name, (None, None))
    if known is registry:
        if before != sizes:
            raise ValueError(
                f"{function}: name must not be {name!r} again with other sizes, got {sizes}"
            )
        return name
    spec = framework(function, "mindformers", "parallel_core.utils.spec_utils", _VERSIONS)

    @registry.register_attention_variant(name)
    def build(qk_layernorm=False, fused_norm=True, normalization="RMSNorm"):
        if qk_layernorm and normalization != "RMSNorm":
            refuse(function, "norms of queries and keys other than RMSNorm", normalization)
        params = {"qk_norm": bool(qk_layernorm), **sizes}
        return spec.ModuleSpec(module=NSASelfAttention, params=params)

    _registered[name] = registry, dict(sizes)
    return name


def serve_cpu():
    """Let the layers of MindFormers' variants ``dsa`` and ``dsv4_hybrid`` train on a CPU.

    Until `stop_serving_cpu` the operators that they call are those of this package, among them
    `ops.lightning_indexer`, `ops.sparse_flash_attention` and the ones of
    `hyper_parallel.custom_ops.experimental`; and functions of `mindspore.mint` and methods of
    Tensor that have no CPU kernel, or a wrong one, are composed of others. Where hyper_parallel is
    not installed, empty classes stand in for it, enough for one process. It must be called before
    MindFormers' PyNative modules are imported, which take these names then. While something is
    served already, a call changes nothing.

    Raises:
        ImportError: If MindFormers is not installed in version 2.1.0.
        RuntimeError: If the device is no CPU, or a module has taken the names already.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> from mindspore_nsa.integrations import mindformers as adapter
        >>> adapter.serve_cpu()  # doctest: +SKIP
        >>> from mindformers.pynative.transformers import multi_latent_attention  # doctest: +SKIP
        >>> adapter.stop_serving_cpu()  # doctest: +SKIP
    """
    _mindformers_cpu.serve(f"{_NAME}.serve_cpu")


def stop_serving_cpu():
    """Put back all that `serve_cpu` replaced, and drop MindFormers' PyNative modules.

    Layers that exist keep what they took; the modules are imported again when they are needed.
    Where nothing is served, nothing is done.
    """
    _mindformers_cpu.stop()


__all__ = [
    "NSASelfAttention",
    "convert_attention",
    "join_qkv",
    "nsa_config",
    "nsa_spec",
    "register",
    "serve_cpu",
    "split_qkv",
    "stop_serving_cpu",
]
