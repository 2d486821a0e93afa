"""The attention of GLM-5: that of DeepSeek V3.2, with picks that several layers share."""

from ._config import Fields
from ._indexer import TokenIndexer
from ._latent import LATENT_FIELDS, LatentAttention
from .deepseek_v32 import NORM_EPS, latent_scale

_DEFAULTS = {
    **LATENT_FIELDS,
    "hidden_size": 6144,
    "num_attention_heads": 64,
    "q_lora_rank": 2048,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 2048,
}
_KINDS = {"F": "full", "S": "shared"}


def indexer_types(fields):
    """ "full" or "shared" for every layer, as the configuration's fields say.

    `indexer_types` has the words, `index_topk_pattern` their first letters; else every
    `index_topk_freq`-th layer is full, from the one before `index_skip_topk_offset` on.
    """
    given = fields.given
    if "indexer_types" in given:
        return given["indexer_types"]
    pattern = given.get("index_topk_pattern")
    if pattern is not None:
        return [_KINDS.get(kind, kind) for kind in pattern]
    every, offset = max(given.get("index_topk_freq", 1), 1), given.get("index_skip_topk_offset", 2)
    return [_KINDS["S" if max(i - offset + 1, 0) % every else "F"] for i in range(fields.layers)]


def shares(fields):
    """Whether the layer takes the picks of the one before."""
    kind = fields.of_layer("indexer_types", indexer_types(fields))
    if kind not in _KINDS.values():
        raise ValueError(
            f"{fields.name}: indexer_types must be full or shared, got {kind!r} for layer "
            f"{fields.layer_idx}"
        )
    return kind == "shared"


class GlmMoeDsaAttention(LatentAttention):
    """Multi-head latent attention over picked tokens, of which layers may share the picks.

    The mathematics is that of `DeepseekV32Attention`; the indexer's rotary embedding turns
    neighbouring dimensions. A layer that `indexer_types` calls "shared" has no indexer: it takes
    the picks that the layer before it returned, ``layer(x, topk_indices=picks)``.

    Args:
        config (Union[dict, object]): The dict of a config.json, or an object with `to_dict()`.
        layer_idx (int): Number of the layer.
        context (ContextShards, optional): As for `DeepseekV32Attention`. Default: ``None``.
        tensor_group (WorkerGroup, optional): As for `DeepseekV32Attention`. Default: ``None``.

    Inputs:
        - **x**, **actual_seq_len**, **cache**, **key_padding_mask**, **topk_indices**,
          **return_indices**, **stage** - As those of `DeepseekV32Attention`. A shared layer needs
          `topk_indices`, returns them with `return_indices`, and has no `stage`.

    Outputs:
        As those of `DeepseekV32Attention`.

    Raises:
        TypeError: If an argument or a field of the configuration has the wrong type.
        ValueError: If a shape or value is wrong, or a field has a value that is not served.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.models import GlmMoeDsaAttention
        >>> config = dict(hidden_size=64, num_attention_heads=4, q_lora_rank=32, kv_lora_rank=16,
        ...     qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, index_n_heads=4,
        ...     index_head_dim=16, index_topk=8, num_hidden_layers=2, index_topk_pattern="FS")
        >>> full, shared = GlmMoeDsaAttention(config, 0), GlmMoeDsaAttention(config, 1)
        >>> x = Tensor(np.random.randn(2, 20, 64).astype(np.float32))
        >>> y, picks = full(x, return_indices=True)
        >>> print(shared(y, topk_indices=picks).shape)
        (2, 20, 64)
    """

    def __init__(self, config, layer_idx, context=None, tensor_group=None):
        fields = Fields(type(self).__name__, config, _DEFAULTS, ("glm_moe_dsa",), layer_idx)
        rope = fields.rope(fields.qk_rope_head_dim)
        indexer = None if shares(fields) else TokenIndexer(fields, pairs=True)
        workers = context, tensor_group
        super().__init__(fields, rope, latent_scale(fields), NORM_EPS, indexer, *workers)
