"""Where the tokens of a call stand: packed documents, or what follows the rows of a cache.

A text is a tuple of int64 Tensors: the prefix sums of the documents' tokens in this call [docs],
every token's position in its document [T], the document of every token [T], and the tokens that
every document had before [docs], zeros without a cache. Its last member is an int: the most tokens
that a document can have. It is no NamedTuple, because a graph that makes one of Tensors gives zeros
for all gradients, without a word.
"""

import mindspore
import numpy as np
from mindspore import ops

from ..ops._custom import constant
from ..ops._plan import Planner, TensorSpec
from ._cache import BATCH
from ._cache_rows import lengths_with_room


def text_ends(text):
    """Prefix sums of the documents' tokens in this call, int64 [docs]."""
    return text[0]


def text_positions(text):
    """Position of every token in its document, int64 [T]."""
    return text[1]


def text_rows(text):
    """Document of every token, int64 [T]."""
    return text[2]


def text_before(text):
    """Tokens that every document had before this call, int64 [docs]."""
    return text[3]


def longest_document(text):
    """The most tokens that a document can have, an int."""
    return text[4]


def _plan_sums(ends):
    return None if isinstance(ends, TensorSpec) else constant(np.asarray(ends, np.int64))


def _as_tensor(ends):
    """Prefix sums as a Tensor."""
    known = _plan_known(ends)
    return ops.cast(ends, mindspore.int64) if known is None else known


_plan_known = Planner(_plan_sums, _as_tensor, kept=32)


def text_of(name, x, ends, positions, longest, lengths=None, capacity=0):
    """The text of packed x [T, hidden], whose documents end at `ends`.

    With a cache its documents follow the `lengths` of the rows, int64 [B].
    """
    ends = _as_tensor(ends)
    positions = ops.cast(positions, mindspore.int64)
    rows = ops.searchsorted(ends, ops.arange(ops.shape(x)[0]), right=True)
    if lengths is None:
        return ends, positions, rows, ops.zeros_like(ends), longest
    before = lengths_with_room(name, capacity, lengths, ends)
    return ends, positions + ops.gather(before, rows, 0), rows, before, capacity


def shard_text(ends, positions, longest):
    """The text of a worker's queries, whose keys are those of all workers.

    The lists of the context say where these are: nothing reads the rows and the earlier tokens.
    """
    return ends, positions, positions, positions, longest


def starts_of(ends):
    """First token of every document, int64 [docs]."""
    # An empty slice has no kernel, so the sums are never shortened to none.
    return ops.concat((ops.zeros_like(ends[:1]), ends))[:-1]


def lengths_of(text):
    """Tokens of every document with those before, int64 [docs]."""
    return text_ends(text) - starts_of(text_ends(text)) + text_before(text)


def windows_of(text, tokens, size, cache):
    """Windows of `size` tokens of a document that end with tokens of this call.

    Args:
        text (tuple): The tokens.
        tokens (int): T.
        size (int): Tokens of a window.
        cache (tuple, optional): Whether rows may have open windows.

    Returns:
        Tuple: prefix sums of the documents' windows [docs]; and for each of as many windows as
        there can be, at least one, its document [E], its number in the document [E], and whether it
        is there [E], of int64 and bool.
    """
    ends, before = text_ends(text), text_before(text)
    count = tokens // size if cache is None else (tokens + cache[BATCH] * (size - 1)) // size
    first = ops.floor_divide(before, size)
    sums = ops.cumsum(ops.floor_divide(lengths_of(text), size) - first, 0)
    number = ops.arange(max(count, 1))
    row = ops.minimum(ops.searchsorted(sums, number, right=True), ends.shape[0] - 1)
    there = number < sums[-1]
    window = number - ops.gather(starts_of(sums) - first, row, 0)
    return sums, row, window, there


def places_of(text, rows, positions, kept):
    """Where tokens stand among those kept of every row, then those of this call.

    Args:
        text (tuple): The tokens of the call.
        rows (Tensor): Documents [n].
        positions (Tensor): Positions in them [n, m], negative ones for no token.
        kept (int): Last tokens that a cache keeps of a row, position p at p modulo `kept`; 0
            without a cache.

    Returns:
        Tensor of int64, [n, m]; any place that exists for a token that does not.
    """
    ends, before = text_ends(text), text_before(text)
    offset = ops.gather(starts_of(ends) - before, rows, 0)
    # Windows that are not there may reach beyond the last token.
    places = ops.maximum(positions + ops.expand_dims(offset, 1), 0)
    places = ops.minimum(places, ends[-1] - 1)
    if kept == 0:
        return places
    ring = ops.expand_dims(rows * kept, 1) + ops.floor_mod(ops.maximum(positions, 0), kept)
    old = positions < ops.expand_dims(ops.gather(before, rows, 0), 1)
    return ops.where(old, ring, places + ends.shape[0] * kept)
