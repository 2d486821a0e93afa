"""Dense attention in the form of mindone's attention functions."""

import mindspore
from mindspore import ops

from ..ops import flash_attention_score
from ..ops._constexpr import Constexpr

_NAME = "mindspore_nsa.integrations.mindone.attention"
# Sparse modes of flash_attention_score: mask and band, the mask alone, a band to the bottom right.
_MASK_AND_BAND, _MASK, _BAND = 0, 1, 4
_FAR = 2147483647
# A score plus this has no part in the softmax of any dtype; masks of older models hold -10000.
_HIDDEN = -1e4
_MASK_DTYPES = (
    *(mindspore.bool_, mindspore.float16, mindspore.bfloat16, mindspore.float32),
    mindspore.float64,
)

# Options that mindone's models hand on and that no attention function of them reads.
IRRELEVANT = (
    *("position_ids", "cache_position", "position_embeddings", "past_key_value"),
    *("past_key_values", "use_cache", "return_dict", "output_hidden_states"),
    *("output_router_logits", "num_items_in_batch", "logits_to_keep", "labels", "layer_idx"),
)
# Options that change attention: what the error says of each.
REFUSED = {
    "softcap": "scores have no cap here",
    "position_bias": "add it to attention_mask",
    "output_attentions": "no weights are kept",
    "cu_seq_lens_q": "packed texts need a mask, which mindone makes of position_ids",
    "cu_seq_lens_k": "packed texts need a mask, which mindone makes of position_ids",
    "max_length_q": "packed texts need a mask, which mindone makes of position_ids",
    "max_length_k": "packed texts need a mask, which mindone makes of position_ids",
    "block_tables": "no paged attention",
    "slot_mapping": "no paged attention",
    "batch_valid_length": "no paged attention",
}
# Values of attributes by which eager attention of a model computes something else.
REFUSED_ATTRIBUTES = {"position_embedding_type": ("relative_key", "relative_key_query")}


class _InGraph(Constexpr):
    """Whether a graph is being compiled, whose Tensors have no values yet."""

    def __call__(self):
        return False

    def __infer__(self):
        return {"dtype": None, "shape": None, "value": True}


_in_graph = _InGraph("MindoneAttentionInGraph")


def _check_options(options):
    for name, value in options.items():
        if value is None or value is False or name in IRRELEVANT:
            continue
        why = REFUSED.get(name, "it is not known here, and may change attention")
        raise ValueError(f"{_NAME}: {name} must be None: {why}")


def _check_attributes(module):
    for name, values in REFUSED_ATTRIBUTES.items():
        value = getattr(module, name, None)
        if value in values:
            raise ValueError(f"{_NAME}: {name} of the module must not be {value!r}")


def _check_window(window):
    if window is None:
        return
    if isinstance(window, bool) or not isinstance(window, int):
        raise TypeError(f"{_NAME}: sliding_window must be an int or None, got {window}")
    if window < 1:
        raise ValueError(f"{_NAME}: sliding_window must be at least 1, got {window}")


def _cut(mask, query, keys):
    """A mask of as many columns as there are keys."""
    if mask.dtype not in _MASK_DTYPES:
        raise TypeError(
            f"{_NAME}: attention_mask must be a Tensor of bools, True where a key is seen, or of "
            f"floats, got dtype {mask.dtype}"
        )
    batch, heads, length = query.shape[:3]
    shape = mask.shape
    if (
        len(shape) != 4
        or shape[0] not in (1, batch)
        or shape[1] not in (1, heads)
        or shape[2] not in (1, length)
        or shape[3] < keys
    ):
        raise ValueError(
            f"{_NAME}: attention_mask must have shape ({batch} or 1, {heads} or 1, {length} or 1, "
            f"{keys} or more), got {shape}; masks of heads are no attention_mask"
        )
    # A CPU compares no bfloat16.
    mask = mask.astype(mindspore.float32) if mask.dtype == mindspore.bfloat16 else mask
    # mindone's masks may have more columns than there are keys.
    return mask[:, :, :, :keys] if shape[3] > keys else mask


def _check_seen_in_window(seen, length, window):
    """The error of a mask that shows a query keys before its window.

    A query's own position is the end of the keys less the queries after it, or, in a cache of a
    fixed length, the last key that it sees.
    """
    keys = seen.shape[3]
    columns = ops.arange(keys).astype(mindspore.int32)
    rows = ops.reshape(ops.arange(keys - length, keys).astype(mindspore.int32), (-1, 1))
    last = (seen * (columns + 1)).max(axis=-1, keepdims=True) - 1
    positions = ops.minimum(last, rows)
    if bool(ops.logical_and(seen, columns <= positions - window).any()):
        raise ValueError(
            f"{_NAME}: attention_mask must leave out keys before the window where sliding_window "
            f"is given, as mindone's masks do, got sliding_window {window}"
        )


def _mask_arguments(mask, query, window, causal):
    """Arguments of the operator for a mask, which has a column for every key.

    And, None if there are none, the queries that see no key.
    """
    (batch, heads, length), keys = query.shape[:3], mask.shape[3]
    if window is not None and _in_graph():
        raise ValueError(
            f"{_NAME}: sliding_window must be None in a graph with attention_mask, got {window}"
        )
    seen, bias, blind = mask, None, None
    if mask.dtype != mindspore.bool_:
        seen = mask == 0
        # Numbers of a mask are known where no graph is compiled; there they are added.
        if _in_graph() or not bool(ops.logical_or(seen, mask <= _HIDDEN).all()):
            bias = ops.broadcast_to(mask, (mask.shape[0], heads, length, keys))
            bias = bias.astype(query.dtype)
            seen = mask > _HIDDEN
        else:
            blind = ops.logical_not(seen.any(axis=-1, keep_dims=True))
            blind = blind if bool(blind.any()) else None
    if window is not None:
        _check_seen_in_window(seen, length, window)
    arguments = {"sparse_mode": _MASK}
    if bias is None:
        hidden = ops.logical_not(seen)
        if hidden.shape[1] != 1:
            shape = (batch, heads, length, keys)
        else:
            shape = (hidden.shape[0], 1, length, keys)
        arguments["attn_mask"] = ops.broadcast_to(hidden, shape)
    else:
        arguments = {"sparse_mode": _MASK_AND_BAND, "real_shift": bias, "pse_type": 0}
    if causal:
        arguments["sparse_mode"] = _MASK_AND_BAND
        arguments["next_tokens"] = keys - length
    return arguments, blind


def _arguments(module, query, key, mask, window, is_causal):
    """Arguments of the operator that say which pairs of queries and keys count."""
    if mask is not None:
        mask = _cut(mask, query, key.shape[2])
        return _mask_arguments(mask, query, window, is_causal is True)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if causal:
        before = _FAR if window is None else window - 1
        return {"sparse_mode": _BAND, "pre_tokens": before, "next_tokens": 0}, None
    if window is not None:
        raise ValueError(
            f"{_NAME}: sliding_window must be None where attention is not causal and has no mask, "
            f"got {window}"
        )
    return {"sparse_mode": _MASK_AND_BAND}, None


def _mean_where(blind, out, value):
    """The mean of the values where a query sees no key.

    Eager attention adds its lowest number to every score there, which makes them equal.
    """
    mean = ops.mean(value.astype(mindspore.float32), 2, True)
    mean = ops.repeat_interleave(mean, out.shape[1] // value.shape[1], 1)
    return ops.where(blind, mean, out.astype(mindspore.float32)).astype(out.dtype)


def _factors(head_mask, batch, heads):
    """Return the factors of the heads' outputs."""
    shape = head_mask.shape
    if shape == (heads,):
        return ops.reshape(head_mask, (1, heads, 1, 1))
    if len(shape) != 4 or shape[0] not in (1, batch) or shape[1:] != (heads, 1, 1):
        raise ValueError(
            f"{_NAME}: head_mask must have shape ({heads},) or ({batch} or 1, {heads}, 1, 1), got "
            f"{shape}"
        )
    return head_mask


def attention(
    module,
    query,
    key,
    value,
    attention_mask,
    dropout=0.0,
    scaling=None,
    sliding_window=None,
    is_causal=None,
    head_mask=None,
    s_aux=None,
    **options,
):
    """Dense attention in the form of mindone's attention functions.

    Args:
        module (Cell): The attention layer of the model; its `is_causal` counts where neither a
            mask nor the argument says anything.
        query (Tensor): Shape :math:`(B, N_1, S, D)`.
        key (Tensor): Shape :math:`(B, N_2, S_2, D)`.
        value (Tensor): Shape :math:`(B, N_2, S_2, D_v)`.
        attention_mask (Union[Tensor, None]): Shape :math:`(B, N_1, S, K)` with :math:`K >= S_2`;
            each of the first three sizes may be 1. Floats are added to the scores; bools are True
            where a query sees a key. A query that sees no key gives the mean of the values with
            floats, as eager attention does, and 0 with bools or `s_aux`. None: all keys, or, where
            attention is causal, no later key; the last query has the last key's position.
        dropout (float, optional): Must be 0. Default: ``0.0``.
        scaling (float, optional): What scores are multiplied by. Default: ``None``,
            :math:`D^{-1/2}`.
        sliding_window (int, optional): Keys that a query sees of a causal row, its own included. A
            mask has to leave out the others itself, as mindone's do. Default: ``None``, all.
        is_causal (bool, optional): Whether a query sees no later key. True counts beside a mask,
            False means the mask alone. Default: ``None``: with a mask the mask alone, without one
            the attribute `is_causal` of `module`, or True where there is none.
        head_mask (Tensor, optional): Factors of heads, shape :math:`(N_1,)` or
            :math:`(B\\ or\\ 1, N_1, 1, 1)`. Default: ``None``.
        s_aux (Tensor, optional): One more logit per head that has no value, :math:`N_1` numbers.
            Default: ``None``.
        options: What mindone passes besides. Options that no attention reads have no effect;
            others are an error unless they are None or False.

    Returns:
        Tuple of the output, shape :math:`(B, S, N_1, D_v)`, and None.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a shape is wrong, if `dropout` is set, if an option changes attention or is
            unknown, if a mask shows keys before the window, or if the module has relative position
            embeddings of its own.

    Supported Platforms:
        ``CPU`` ``Ascend``
    """
    if dropout:
        raise ValueError(f"{_NAME}: dropout must be 0, got {dropout}")
    _check_options(options)
    _check_attributes(module)
    _check_window(sliding_window)
    if is_causal is not None and not isinstance(is_causal, bool):
        raise TypeError(f"{_NAME}: is_causal must be a bool or None, got {is_causal}")
    heads = query.shape[1]
    arguments, blind = _arguments(module, query, key, attention_mask, sliding_window, is_causal)
    if s_aux is not None:
        arguments["sink"] = ops.reshape(s_aux, (-1,)).astype(mindspore.float32)
    out = flash_attention_score(
        query.contiguous(),
        key.contiguous(),
        value.contiguous(),
        heads,
        scalar_value=query.shape[-1] ** -0.5 if scaling is None else scaling,
        input_layout="BNSD",
        **arguments,
    )
    # One more logit takes all of the softmax where the scores are the lowest numbers.
    if blind is not None and s_aux is None:
        out = _mean_where(blind, out, value)
    if head_mask is not None:
        out = out * _factors(head_mask, query.shape[0], heads).astype(out.dtype)
    return out.swapaxes(1, 2), None
