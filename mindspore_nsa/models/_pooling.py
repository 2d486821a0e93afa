"""Pooling of a window of tokens to one entry, with the open windows of a cache."""

from mindspore import ops

from ._cache import kept, places_in, with_rows
from ._text import lengths_of, places_of, text_ends

# A logit of nothing: finite, since infinity less infinity is no number.
NOTHING = -1e30


def tokens_of(values, text, rows, positions, cache, name):
    """values [T, width] of tokens of this call and of those kept, [n, m, width].

    Args:
        values (Tensor): Of the tokens of this call.
        text (tuple): The tokens.
        rows (Tensor): Documents [n].
        positions (Tensor): Positions in them [n, m]; of negative ones any value comes.
        cache (tuple, optional): Keeps last tokens of every row as `name`.
        name (str): Of the cache's Tensor.
    """
    if cache is not None:
        places, source = places_in(cache, name), ops.concat((kept(cache, name), values))
    else:
        places, source = 0, values
    return ops.gather(source, places_of(text, rows, positions, places), 0)


def keep_last(values, text, cache, name, read):
    """The cache with the last tokens of every row, position p at place p modulo their number.

    `read` is what was made of the tokens that are there before.
    """
    places = places_in(cache, name)
    last = ops.expand_dims(lengths_of(text) - 1, 1)
    positions = last - ops.floor_mod(last - ops.arange(places), places)
    rows = ops.arange(text_ends(text).shape[0])
    # A row with fewer tokens gets places that nobody reads.
    tokens = ops.depend(tokens_of(values, text, rows, positions, cache, name), read)
    return with_rows(cache, name, ops.arange(kept(cache, name).shape[0]), tokens)


def softmax_pooled(values, logits):
    """Sum of values [E, m, D] over m, with weights softmax(logits) for every channel."""
    return (ops.softmax(logits, 1) * values).sum(1)


def write_entries(entries, windows, cache, name):
    """The cache with the entries of windows that have ended."""
    _, rows, numbers, there = windows
    index = rows * places_in(cache, name) + numbers
    return with_rows(cache, name, ops.where(there, index, ops.full_like(index, -1)), entries)
