"""The attention of GLM-5.3: latent attention without rotation over pools of tokens."""

import numpy as np
from mindspore import Parameter, Tensor, ops

from ..nn.precision import ExplicitPrecision, rounded
from ._cache import ENTRIES, RING
from ._config import Fields, Rope
from ._latent import LATENT_FIELDS, LatentAttention
from ._parts import LayerNorm, Linear
from ._picks import pick_keys, with_open_block
from ._pooling import keep_last, softmax_pooled, tokens_of, write_entries
from ._text import longest_document, windows_of
from .glm_moe_dsa import shares

_DEFAULTS = {
    **LATENT_FIELDS,
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 256,
    "qk_rope_head_dim": 0,
    "v_head_dim": 256,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 2048,
    "index_kpool": 16,
    "index_kpool_always_select_tail": True,
    "rms_norm_eps": 1e-5,
}


class PoolIndexer(ExplicitPrecision):
    """The pools of tokens with the largest scores, and the tokens after the last full pool.

    A pool's key is the sum of its tokens' keys with weights softmax(gate + ape), for every channel.
    """

    def __init__(self, fields):
        super().__init__()
        f = fields
        self.heads, self.dim, self.size = f.index_n_heads, f.index_head_dim, f.index_kpool
        self.count, self.tail = f.index_topk // self.size, bool(f.index_kpool_always_select_tail)
        self.wq_b = Linear(f.q_lora_rank, self.heads * self.dim)
        self.wk = Linear(f.hidden_size, self.dim)
        self.k_norm = LayerNorm(self.dim)
        self.weights_proj = Linear(f.hidden_size, self.heads)
        zeros = Tensor(np.zeros((self.size, self.dim), np.float32))
        self.index_kpool_compress_ape = Parameter(zeros, name="index_kpool_compress_ape")
        zeros = Tensor(np.zeros((self.dim, f.hidden_size), np.float32))
        self.index_kpool_compress_gate = Parameter(zeros, name="index_kpool_compress_gate")
        self.factor = (self.heads * self.dim) ** -0.5

    def kept(self):
        """Keys of full pools; keys and gates of the tokens after them."""
        index = ("index", ENTRIES, self.size, self.dim)
        return index, ("open", RING, self.size, 2 * self.dim)

    def construct(self, x, residual, text, cos, sin, cache, dtype):
        """Scores and the cache: query [T, heads, d], keys of pools [E, 1, d], weights, key sums."""
        query = ops.reshape(self.wq_b(residual, dtype), (-1, self.heads, self.dim))
        gate = rounded(self.index_kpool_compress_gate, dtype)
        gate = ops.matmul(rounded(x, dtype), ops.transpose(gate, (1, 0)))
        raw = ops.concat((self.k_norm(self.wk(x, dtype)), gate), -1)
        windows = windows_of(text, x.shape[0], self.size, cache)
        sums, rows, numbers, _ = windows
        places = ops.expand_dims(numbers * self.size, 1) + ops.arange(self.size)
        tokens = tokens_of(raw, text, rows, places, cache, "open")
        logits = tokens[..., self.dim :] + self.index_kpool_compress_ape
        key = ops.expand_dims(softmax_pooled(tokens[..., : self.dim], logits), 1)
        if cache is not None:
            cache = keep_last(raw, text, cache, "open", key)
            cache = write_entries(key, windows, cache, "index")
        return (query, key, self.weights_proj(x, x.dtype) * self.factor, sums), cache

    def pick(self, scores, text, cache, key_ends):
        """Picks [T, k + 1] of pools, the open one last; [T, k] where no tail is selected."""
        query, key, weights, sums = scores
        count = max(min(self.count, longest_document(text) // self.size), 1)
        picks = pick_keys(query, key, weights, text, cache, "index", count, self.size, sums)
        return with_open_block(picks, text, self.size) if self.tail else picks


class Glm5NextTextAttention(LatentAttention):
    r"""Multi-head latent attention over pools of tokens that an indexer picks.

    The mathematics is that of `DeepseekV32Attention` without a rotary embedding. The indexer scores
    pools of `index_kpool` tokens, whose keys are softmax-weighted sums, picks
    `index_topk / index_kpool` of those that have ended, and adds the tokens after the last full
    one. A layer that `indexer_types` calls "shared" takes the picks of another, as in
    `GlmMoeDsaAttention`; they may come from across layers of linear attention. The indexer gets no
    gradient.

    Args:
        config (Union[dict, object]): The dict of a config.json, or an object with `to_dict()`, of
            the text model or of the whole.
        layer_idx (int): Number of the layer, one whose type is "indexed_attention".

    Inputs:
        - **x**, **actual_seq_len**, **cache**, **key_padding_mask**, **return_indices** - As those
          of `DeepseekV32Attention`.
        - **topk_indices** (Tensor, optional) - Numbers of pools, int32, shape :math:`(B, S, k)` or
          :math:`(T, k)`, as `return_indices` gives them, with the open pool. Default: ``None``.
        - **stage** (None) - The model has no KL loss.

    Outputs:
        As those of `DeepseekV32Attention`. Where no pool has ended and
        `index_kpool_always_select_tail` is off, a query attends to nothing and attention is 0.

    Raises:
        TypeError: If an argument or a field of the configuration has the wrong type.
        ValueError: If a shape or value is wrong, or a field has a value that is not served.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.models import Glm5NextTextAttention
        >>> config = dict(hidden_size=64, num_attention_heads=4, q_lora_rank=32, kv_lora_rank=16,
        ...     qk_nope_head_dim=16, v_head_dim=16, index_n_heads=4, index_head_dim=16,
        ...     index_topk=8, index_kpool=4)
        >>> layer = Glm5NextTextAttention(config, 0)
        >>> x = Tensor(np.random.randn(2, 20, 64).astype(np.float32))
        >>> y, pools = layer(x, return_indices=True)
        >>> print(y.shape, pools.shape)
        (2, 20, 64) (2, 20, 3)
    """

    stages = ()

    def __init__(self, config, layer_idx):
        types = ("glm5_next_text", "glm5_next")
        f = Fields(type(self).__name__, config, _DEFAULTS, types, layer_idx)
        f.require("qk_rope_head_dim", f.qk_rope_head_dim == 0, "0")
        f.require("index_topk", f.index_topk % f.index_kpool == 0, "a multiple of index_kpool")
        kinds = f.given.get("layer_types")
        if kinds is not None and f.of_layer("layer_types", kinds) == "linear_attention":
            f.require("layer_types", False, f"indexed_attention for layer {f.layer_idx}")
        indexer = None if shares(f) else PoolIndexer(f)
        no_rope, scale = Rope(0, 1.0, None, 1.0), f.qk_nope_head_dim**-0.5
        super().__init__(f, no_rope, scale, f.rms_norm_eps, indexer)
        self.block_size = f.index_kpool
