"""Pooling of a window of tokens to one entry, with the open windows of a cache."""

from mindspore import ops

from ._text import ENDS, lengths_of, places_of

# A logit of nothing: finite, since infinity less infinity is no number.
NOTHING = -1e30


def tokens_of(values, text, rows, positions, cache, name):
    """values [T, width] of tokens of this call and of those kept, [n, m, width].

    Args:
        values (Tensor): Of the tokens of this call.
        text (tuple): The tokens.
        rows (Tensor): Documents [n].
        positions (Tensor): Positions in them [n, m]; of negative ones any value comes.
        cache (LayerCache, optional): Keeps last tokens of every row as `name`.
        name (str): Of the cache's Tensor.
    """
    if cache is not None:
        kept, source = cache.places[name], ops.concat((cache.tensors[name], values))
    else:
        kept, source = 0, values
    return ops.gather(source, places_of(text, rows, positions, kept), 0)


def keep_last(values, text, cache, name):
    """Keep the last tokens of every row, position p at place p modulo their number."""
    kept = cache.places[name]
    last = ops.expand_dims(lengths_of(text) - 1, 1)
    positions = last - ops.floor_mod(last - ops.arange(kept), kept)
    rows = ops.arange(text[ENDS].shape[0])
    # A row with fewer tokens gets places that nobody reads.
    tokens = tokens_of(values, text, rows, positions, cache, name)
    cache.write_all(name, ops.reshape(tokens, (-1, tokens.shape[-1])))


def softmax_pooled(values, logits):
    """Sum of values [E, m, D] over m, with weights softmax(logits) for every channel."""
    return (ops.softmax(logits, 1) * values).sum(1)


def write_entries(entries, windows, cache, name):
    """Put the entries of windows that have ended into the rows of a cache."""
    _, rows, numbers, there = windows
    count = int(there.asnumpy().sum())
    if count:
        cache.write(name, rows[:count], numbers[:count], entries[:count])


def entry_places(capacity, size):
    """Entries that a row of a cache can have, at least one."""
    return max(capacity // size, 1)
