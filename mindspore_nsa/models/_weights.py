"""The parameters of one attention layer out of a checkpoint."""

import re

import numpy as np
from mindspore import Parameter, Tensor

from ..ops._plan import fail_type

# Names of DeepSeek V4's own files, in this order; transformers renames in the same way.
_MAKERS = (
    (r"^indexer\.compressor\.", "compressor.indexer."),
    (r"^attn_sink$", "sinks"),
    (r"^indexer\.weights_proj\.", "compressor.indexer.scorer.weights_proj."),
    (r"^indexer\.wq_b\.", "compressor.indexer.q_b_proj."),
    (r"(^|\.)norm\.", r"\1kv_norm."),
    (r"(^|\.)ape$", r"\1position_bias"),
    (r"^wq_a\.", "q_a_proj."),
    (r"^wq_b\.", "q_b_proj."),
    (r"(^|\.)wkv\.", r"\1kv_proj."),
    (r"(^|\.)wgate\.", r"\1gate_proj."),
    (r"^wo_a\.", "o_a_proj."),
    (r"^wo_b\.", "o_b_proj."),
    (r"^q_norm\.", "q_a_norm."),
)


def attention_parameters(layer, tensors, prefix=""):
    """The parameters of a layer, for `mindspore.load_param_into_net`, out of a checkpoint's.

    Args:
        layer (Cell): A layer of this package, which says the names and shapes.
        tensors (dict): Tensors, Parameters or arrays by name, as `mindspore.load_checkpoint` of a
            safetensors file gives them, or a PyTorch `state_dict()`.
        prefix (str, optional): What the names of the layer's parameters begin with, such as
            ``"model.layers.3.self_attn."``. DeepSeek V4's own files have
            ``"layers.3.attn."``, and names of their own, which are translated. Default: ``""``.

    Returns:
        Dict of Parameters, float32, by the layer's names.

    Raises:
        TypeError: If `tensors` is no dict, or if a value is no Tensor or array of float16,
            bfloat16, float32 or float64.
        ValueError: If a parameter is missing, has another shape, or is unknown to the layer.

    Examples:
        >>> import numpy as np
        >>> import mindspore
        >>> from mindspore_nsa.models import GlmMoeDsaAttention, attention_parameters
        >>> config = dict(hidden_size=64, num_attention_heads=4, q_lora_rank=32, kv_lora_rank=16,
        ...     qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, index_n_heads=4,
        ...     index_head_dim=16, index_topk=8)
        >>> layer = GlmMoeDsaAttention(config, 0)
        >>> saved = {f"model.layers.0.self_attn.{p.name}": p for p in layer.get_parameters()}
        >>> found = attention_parameters(layer, saved, "model.layers.0.self_attn.")
        >>> print(mindspore.load_param_into_net(layer, found))
        ([], [])
    """
    name = type(layer).__name__
    if not isinstance(tensors, dict):
        fail_type(name, "tensors", "a dict", tensors)
    own = {p.name: p for p in layer.get_parameters()}
    found = {}
    for full, value in tensors.items():
        if full.startswith(prefix):
            found[_translated(full[len(prefix) :], own)] = _float32(name, full, value)
    missing, unknown = sorted(own.keys() - found), sorted(found.keys() - own)
    if missing or unknown:
        missed, others = (", ".join(names) or "none" for names in (missing, unknown))
        text = (
            f"{name}: tensors must hold the layer's parameters with the prefix {prefix!r}, and no "
            f"others; missing: {missed}; unknown: {others}"
        )
        if len(missing) == len(own):
            text += f"; prefixes of such parameters here: {_prefixes(tensors)}"
        raise ValueError(text)
    for key, value in found.items():
        if value.shape != tuple(own[key].shape):
            raise ValueError(
                f"{name}: {key} must be of shape {tuple(own[key].shape)}, got {value.shape}"
            )
    return {key: Parameter(Tensor(value), name=key) for key, value in found.items()}


# The first map of the queries stands in every layer, in V4's own files by the second name.
_FIRST = re.compile(r"(?:^|(?<=\.))(?:q_a_proj|wq_a|q_proj)\.weight$")


def _prefixes(tensors):
    """Prefixes of attention layers in a checkpoint, of many the first ones."""
    starts = [_FIRST.search(full) for full in tensors]
    found = [full[: at.start()] for full, at in zip(tensors, starts) if at]
    found = [prefix for prefix in found if not prefix.endswith("indexer.")]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return (", ".join(map(repr, found[:3])) or "none") + more


def _translated(name, own):
    if name in own:
        return name
    for pattern, known in _MAKERS:
        name = re.sub(pattern, known, name)
    return name


# Without their scales, numbers of 8 bits are other weights.
_DTYPES = ("float16", "bfloat16", "float32", "float64")


def _float32(name, full, value):
    if not hasattr(value, "dtype"):
        fail_type(name, full, "a Tensor or an array", value)
    dtype = str(value.dtype).rpartition(".")[2].lower()
    if dtype not in _DTYPES:
        raise TypeError(
            f"{name}: {full} must be of dtype {', '.join(_DTYPES)}, got {dtype}; make one of these "
            "of quantized weights and their scales first"
        )
    if isinstance(value, Tensor):
        value = value.float().asnumpy()
    elif hasattr(value, "detach"):
        # PyTorch's, of which NumPy takes neither bfloat16 nor one that has a gradient.
        value = value.detach().float().cpu().numpy()
    return np.asarray(value, np.float32)
