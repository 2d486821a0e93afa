"""The attention of DeepSeek V3.2: latent attention over the tokens that an indexer picks."""

import math

from ._config import Fields
from ._indexer import TokenIndexer
from ._latent import LATENT_FIELDS, LatentAttention

_DEFAULTS = {
    **LATENT_FIELDS,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 2048,
}
# The norms within latent attention have this value; the configuration sets that of the others.
NORM_EPS = 1e-6


def latent_scale(fields):
    """Factor of the scores, with YaRN times the square of what it does to queries and keys."""
    scale = (fields.qk_nope_head_dim + fields.qk_rope_head_dim) ** -0.5
    known = fields.rope_parameters()
    kind = known.get("rope_type", known.get("type", "default"))
    by = known.get("mscale_all_dim")
    if kind == "default" or not by or known["factor"] <= 1:
        return scale
    return scale * (0.1 * by * math.log(known["factor"]) + 1) ** 2


class DeepseekV32Attention(LatentAttention):
    r"""Multi-head latent attention over the tokens that the lightning indexer picks.

    With :math:`c_q = rms(W_{qa} x)` and the latents :math:`c = rms(W_{kva} x)` (rotated parts
    apart), query `i` picks the `index_topk` tokens of largest

    .. math::
        I[i, t] = \sum_h w[i, h] \max(0, q^I[i, h] \cdot k^I[t] / \sqrt{d}),

    where :math:`q^I = W^I_q c_q`, :math:`k^I = LayerNorm(W^I_k x)`, and
    :math:`w = W^I_w x / \sqrt{H}`, and attends to these alone. The parameters have the names of
    transformers' class. The model's loss has no gradient for the indexer; the KL loss has none for
    anything else.

    Args:
        config (Union[dict, object]): The dict of a config.json, or an object with `to_dict()`.
        layer_idx (int): Number of the layer.
        context (ContextShards, optional): Who has which tokens, where workers share a text: `x` is
            the own part then, and `actual_seq_len` that of the whole text, or what
            ``context.lists(ends, layer)`` makes of it. Default: ``None``.
        tensor_group (WorkerGroup, optional): The workers that share the heads; all have the whole
            indexer and pick the same. There is no `stage` then. Default: ``None``.

    Inputs:
        - **x** (Tensor) - After the block's norm, shape :math:`(B, S, hidden)`, or packed
          :math:`(T, hidden)`. Dtype float16, bfloat16 or float32, to which operands of products are
          rounded; parameters, norms and the indexer's scores are float32.
        - **actual_seq_len** (Union[tuple[int], list[int], Tensor], optional) - For packed `x`, the
          inclusive prefix sums of the documents' lengths. Default: ``None``.
        - **cache** (LayerCache, optional) - What `new_cache` gave: the tokens of every row or
          document follow those in its row. It is an argument of a graph, several are a tuple under
          `mindspore.mutable`. There is no gradient. Default: ``None``.
        - **key_padding_mask** (Tensor, optional) - bool, shape :math:`(B, S)`: which tokens are
          padding, before and after the other tokens of a row. Their output is 0, and positions
          count from the first token that is none. Default: ``None``.
        - **topk_indices** (Tensor, optional) - int32, shape :math:`(B, S, k)` or :math:`(T, k)`:
          picks to be taken in place of the indexer's, positions in the row or document; -1 and
          later tokens count for nothing. Default: ``None``.
        - **return_indices** (bool, optional) - Whether the picks are asked for.
          Default: ``False``.
        - **stage** (str, optional) - ``"dense"``: dense attention, and the KL loss of the indexer
          over all tokens, for its warm-up; ``"sparse"``: the loss over its picks; ``"recall"``:
          dense attention, and in the place of the loss, for every query, the part of the softmax
          that stands on the picks, the mean over heads, shape :math:`(B, S)` or :math:`(T)`,
          without gradient. Default: ``None``, no loss.

    Outputs:
        Tensor, the shape and dtype of `x` (under mixed precision its dtype). With `stage` a tuple
        with the loss, float32, the mean over queries; with `return_indices` also the picks, larger
        scores first, equal ones by index, then -1. torch.topk promises no order of equal scores.

    Raises:
        TypeError: If an argument or a field of the configuration has the wrong type.
        ValueError: If a shape or value is wrong, or a field has a value that is not served.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.models import DeepseekV32Attention
        >>> config = dict(hidden_size=64, num_attention_heads=4, q_lora_rank=32, kv_lora_rank=16,
        ...     qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, index_n_heads=4,
        ...     index_head_dim=16, index_topk=8)
        >>> layer = DeepseekV32Attention(config, 0)
        >>> x = Tensor(np.random.randn(2, 20, 64).astype(np.float32))
        >>> y, picks = layer(x, return_indices=True)
        >>> print(y.shape, picks.shape)
        (2, 20, 64) (2, 20, 8)
    """

    def __init__(self, config, layer_idx, context=None, tensor_group=None):
        fields = Fields(type(self).__name__, config, _DEFAULTS, ("deepseek_v32",), layer_idx)
        rope = fields.rope(fields.qk_rope_head_dim)
        indexer = TokenIndexer(fields, pairs=False)
        workers = context, tensor_group
        super().__init__(fields, rope, latent_scale(fields), NORM_EPS, indexer, *workers)
