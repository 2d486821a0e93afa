"""The lists of a call with a context, for one worker: what is in them, and at which place."""

from functools import lru_cache
from typing import Any

import numpy as np

from ...ops._plan import Planner
from .collectives import documents_digest
from .plan import Documents, Layout, row_limits

# Places in the lists of a call. Those of every pass follow.
_POSITIONS, _DIGEST, _ENDS, _COMPRESSED_ENDS, _WINDOW_QUERIES, _WINDOW_KEYS = range(6)
_WINDOWS, _WINDOW_POSITIONS, _TAKEN, _IDS, _PASSES = range(6, 11)
# Places in the lists of a pass.
_QUERIES, _OFFSETS, _DENSE_QUERIES, _DENSE_KEYS, _PASS_LISTS = range(5)

# Texts whose lists and plans are kept.
KEPT = 16

# The lists of a call by what takes them. They are no NamedTuple: they may be Tensors of the call,
# and a graph that makes a NamedTuple of Tensors gives zeros for all gradients, without a word.


def row_positions(lists: Any) -> Any:
    """Position of every own row in its document."""
    return lists[_POSITIONS]


def documents_of(lists: Any) -> Any:
    """Digest of the documents, by which workers compare their calls."""
    return lists[_DIGEST]


def document_ends(lists: Any) -> Any:
    """Prefix sums of the documents' tokens, of the whole text."""
    return lists[_ENDS]


def compression_lists(lists: Any) -> tuple[Any, Any]:
    """(prefix sums of what own windows are compressed from, positions of their first tokens)."""
    return lists[_WINDOWS], lists[_WINDOW_POSITIONS]


def compressed_lists(lists: Any) -> tuple[Any, Any]:
    """(rows to read, rows to add gradients to) of the compressed tokens of the whole text."""
    return lists[_TAKEN], lists[_IDS]


def compressed_ends(lists: Any) -> Any:
    """Prefix sums of the documents' compressed tokens, of the whole text."""
    return lists[_COMPRESSED_ENDS]


def window_lists(lists: Any) -> tuple[Any, Any]:
    """Prefix sums of (queries, keys) for the window."""
    return lists[_WINDOW_QUERIES], lists[_WINDOW_KEYS]


def pass_lists(lists: Any, number: int) -> tuple[Any, Any]:
    """(prefix sums of queries, positions of the documents' first ones) of a pass."""
    first = _PASSES + number * _PASS_LISTS
    return lists[first + _QUERIES], lists[first + _OFFSETS]


def dense_pass_lists(lists: Any, number: int) -> tuple[Any, Any]:
    """Prefix sums of (queries, keys) of a pass, for dense attention."""
    first = _PASSES + number * _PASS_LISTS
    return lists[first + _DENSE_QUERIES], lists[first + _DENSE_KEYS]


class ContextLists(tuple[Any, ...]):
    """Tensors of the lists of one worker for some documents, made by `ContextShards.lists`."""

    # Else a graph would take the Tensors for constants.
    __ms_mutable__ = True


@lru_cache(maxsize=KEPT)
def documents_lists(layout: Layout, worker: int, ends: Any, sizes: Any, padded: bool) -> Any:
    """The lists as NumPy arrays in the order of the places above.

    `padded`: rows of the compression are as many as any documents may need, so that shapes do not
    depend on them.
    """
    size, stride, window, _ = sizes
    documents = Documents(layout, worker, ends)
    compressed = documents.compressed(size, stride)
    rows, total = documents.most_windows(size, stride), 1
    if padded:
        rows, total = row_limits(layout, size, stride)
    positions = np.zeros(rows, np.int32)
    positions[: len(compressed.positions)] = compressed.positions
    order = documents.compressed_order(size, stride, rows)
    missing = max(0, total - len(order))
    taken = np.concatenate([order, np.zeros(missing, np.int64)])
    ids = np.concatenate([order, np.full(missing, -1)])
    found = [
        documents.positions,
        documents_digest(ends),
        documents.ends,
        documents.compressed_ends(size, stride),
        *documents.window(window),
        compressed.list,
        positions,
        taken,
        ids,
    ]
    for one in documents.passes:
        found += [one.queries, one.offsets, one.dense_queries, one.dense_keys]
    return found


# These are Tensors even where documents are known when a graph is compiled.
ARRAYS = (_POSITIONS, _DIGEST, _WINDOW_POSITIONS, _TAKEN, _IDS)


def _plan_lists(
    name: str,
    count: Any,
    positions: Any,
    windows: Any,
    taken: Any,
    keys: Any,
    context: Any,
    sizes: Any,
) -> Any:
    tokens, workers, _, order = context
    layout = Layout(tokens, workers, order)
    size, stride, window, _ = sizes
    rows, total = row_limits(layout, size, stride)
    expected = _PASSES + layout.passes * _PASS_LISTS, (layout.own,), (rows,), (total,)
    got = count, positions.shape, windows.shape, taken.shape
    if got != expected:
        raise ValueError(
            f"{name}: actual_seq_len must be made by the `lists` of these ContextShards for this "
            f"config, got lists of other sizes: {got} instead of {expected}"
        )
    return keys.shape[0]


def check_lists(
    name: str,
    count: int,
    positions: Any,
    windows: Any,
    taken: Any,
    keys: Any,
    context: Any,
    sizes: Any,
) -> Any:
    """Raises an error where ContextLists are those of other shards or of another config."""
    return _plan_tensor_lists(name, count, positions, windows, taken, keys, context, sizes)


_plan_tensor_lists = Planner(_plan_lists, check_lists, kept=KEPT)
