"""An indexer's picks of packed text and of caches, and attention over them."""

import mindspore
from mindspore import ops

from .. import ops as nsa
from ._cache import pages
from ._text import lengths_of, text_ends


def pick_keys(query, key, weights, text, cache, name, count, ratio=1, key_ends=None):
    """The best keys of every query, int32 [T, count], as numbers in its document.

    Args:
        query, weights (Tensor): [T, heads, d] and [T, heads], None for weights of 1, in float32.
        key (Tensor): [E, 1, d], one for `ratio` tokens; those of a cache are in it.
        text (tuple): The tokens.
        cache (tuple, optional): Where the keys are, as `name`.
        name (str): Of the cache's Tensor.
        count (int): Picks.
        ratio (int): Tokens that a key stands for.
        key_ends (Tensor, optional): Prefix sums of keys; those of the tokens with `ratio` 1.
    """
    query, ends = ops.stop_gradient(query), text_ends(text)
    weights = ops.ones_like(query[..., 0]) if weights is None else ops.stop_gradient(weights)
    residual = None if ratio == 1 else ops.floor_mod(lengths_of(text), ratio)
    if cache is None:
        picks = nsa.lightning_indexer(
            query, ops.stop_gradient(key), weights, actual_seq_lengths_query=ends,
            actual_seq_lengths_key=ends if key_ends is None else key_ends, layout_query="TND",
            layout_key="TND", sparse_count=count, compress_ratio=ratio, compress_residual=residual,
        )[0]  # fmt: skip
    else:
        key, table = pages(cache, name)
        picks = nsa.lightning_indexer(
            query, key, weights, actual_seq_lengths_query=ends,
            actual_seq_lengths_key=ops.floor_divide(lengths_of(text), ratio),
            block_table=table, layout_query="TND", layout_key="PA_BSND", sparse_count=count,
            compress_ratio=ratio, compress_residual=residual,
        )[0]  # fmt: skip
    return ops.squeeze(picks, 1)


def with_open_block(picks, text, size):
    """Picks [T, k] of blocks that have ended, and the block that the query stands in, if open."""
    seen = text[1] + 1
    number = ops.floor_divide(seen, size)
    tail = ops.where(ops.floor_mod(seen, size) > 0, number, ops.full_like(number, -1))
    return ops.concat((picks, ops.expand_dims(ops.cast(tail, mindspore.int32), 1)), 1)
