"""The part of a text that a worker of a context group has, and the way of a whole one to it."""

from functools import lru_cache
from typing import Any, NamedTuple

import mindspore
import numpy as np
from mindspore import Tensor

from ...ops._plan import Planner, TensorSpec, fail_type, shown
from ..config import NSAConfig
from ..packing import check_ends, check_input, check_length, check_tensor
from .collectives import agree, call_digest, documents_digest
from .groups import WorkerGroup
from .plan import ORDERS, Documents, Layout, halo, neighbours, row_limits

# Places in the lists of a call. Those of every pass follow.
_POSITIONS, _DIGEST, _ENDS, _COMPRESSED_ENDS, _WINDOW_QUERIES, _WINDOW_KEYS = range(6)
_WINDOWS, _WINDOW_POSITIONS, _TAKEN, _IDS, _PASSES = range(6, 11)
# Places in the lists of a pass.
_QUERIES, _OFFSETS, _DENSE_QUERIES, _DENSE_KEYS, _PASS_LISTS = range(5)

_KEPT = 16


class ShardLayout(NamedTuple):
    """How a worker's rows are cut: chunks of a document, documents, tokens of a chunk."""

    passes: int
    batch: int
    chunk: int


class GatherTables(NamedTuple):
    """Tables by which the exchanges of a layout move rows; None where nothing moves.

    Attributes:
        text: Where the rows of the text stand among those of all workers.
        before: Arguments of `Extend` for the rows before each chunk, which the window needs.
        after: Arguments of `Extend` for the rows after each, which the compression needs.
    """

    text: Any
    before: Any
    after: Any


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


class TokenText(NamedTuple):
    """Sizes of a layer whose queries read single tokens, for its lists: it needs no borders.

    Attributes:
        hidden_size: Width of x.
        layer: What has to agree between the workers.
        compress_block_size, compress_stride, window_size: As those of an NSAConfig.
    """

    hidden_size: int
    layer: str
    compress_block_size: int = 1
    compress_stride: int = 1
    window_size: int = 1


class ContextLists(tuple[Any, ...]):
    """Tensors of the lists of one worker for some documents, made by `ContextShards.lists`."""

    # Else a graph would take the Tensors for constants.
    __ms_mutable__ = True


def _is_int(value: Tensor) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


@lru_cache(maxsize=_KEPT)
def _documents_lists(layout: Layout, worker: int, ends: Any, sizes: Any, padded: bool) -> Any:
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
_ARRAYS = (_POSITIONS, _DIGEST, _WINDOW_POSITIONS, _TAKEN, _IDS)


def _tables(layout: Layout, worker: int, sizes: Any, direct: Any) -> GatherTables:
    """The tables of a worker; `direct`: rows go to the workers that need them, not to all."""
    size, _, window, _ = sizes

    def of(before: Any, after: Any) -> tuple[Any, ...] | None:
        if before + after == 0:
            return None
        found = (neighbours if direct else halo)(layout, worker, before, after)
        tensors = map(Tensor, (found.given, found.readable, found.taken))
        return *tensors, found.sent or (), found.received or ()

    order = layout.text_order
    text = None if order is None else Tensor(order)
    return GatherTables(text, before=of(window - 1, 0), after=of(0, size - 1))


def _shape_text(tokens: Any, workers: Any, hidden: int) -> str:
    return (
        f"[{tokens // workers}, {hidden}] or [B, {tokens // workers}, {hidden}], the own tokens of "
        f"a worker: {tokens} over {workers} workers"
    )


def _plan_call(
    name: str, x: Any, lists: Any, hidden: Any, context: Any, sizes: Any, tensors: Any, direct: Any
) -> tuple[Any, ...]:
    """(ShardLayout, GatherTables, digest, lists or None where they are Tensors of the call).

    `lists` is the word "lists" for these; `tensors`: the others, too, and the order of the text,
    are to be Tensors; `direct` is that of `_tables`.
    """
    check_input(name, x, hidden)
    tokens, workers, rank, order = context
    if -1 in x.shape or x.shape[-2] * workers != tokens:
        own = tokens // workers
        raise ValueError(
            f"{name}: x must be of shape [{own}, {hidden}] or [B, {own}, {hidden}], the own tokens "
            f"of a worker ({tokens} over {workers} workers), got {x.shape}"
        )
    batch = x.shape[0] if len(x.shape) == 3 else 1
    layout = Layout(tokens, workers, order, batch)
    digest = call_digest(layout.own, str(x.dtype), tokens, repr((name, order, sizes)))
    tables = _tables(layout, rank, sizes, direct)
    if tensors and tables.text is None:
        tables = tables._replace(text=Tensor(np.arange(layout.tokens)))
    known = ShardLayout(layout.passes, batch, layout.chunk), tables, Tensor(digest)
    if len(x.shape) == 3:
        if lists is not None:
            raise ValueError(
                f"{name}: actual_seq_len must be None for x of shape [B, S, hidden], whose rows "
                f"are the documents, got {shown(lists)}"
            )
        check_length(name, tokens)
        ends = tuple(range(tokens, layout.tokens + 1, tokens))
    elif lists == "lists":
        return *known, None
    else:
        ends = _known_ends(name, lists, tokens)
    arrays = _documents_lists(layout, rank, ends, sizes, False)
    values = [
        Tensor(array) if tensors or i in _ARRAYS else tuple(array.tolist())
        for i, array in enumerate(arrays)
    ]
    return *known, tuple(values)


def _known_ends(name: str, lists: Any, tokens: Any) -> tuple[Any, ...]:
    """Prefix sums of the whole text as a tuple."""
    if lists is None:
        raise ValueError(
            f"{name}: actual_seq_len must be given for packed x: prefix sums of the documents of "
            f"all {tokens} tokens, got None"
        )
    if isinstance(lists, TensorSpec):
        check_tensor(name, lists)
        if lists.content is None:
            raise ValueError(
                f"{name}: actual_seq_len must be a tuple or list of ints, or what "
                f"ContextShards.lists makes, in a graph with a context, got {lists}"
            )
        lists = lists.content
    if not isinstance(lists, (tuple, list)):
        fail_type(name, "actual_seq_len", "a tuple or list of ints or ContextLists", lists)
    check_ends(name, lists, tokens)
    return tuple(map(int, lists))


def planned_shard(
    name: str,
    x: Tensor,
    lists: Any,
    hidden: int,
    context: Any,
    sizes: Any,
    tensors: Any,
    direct: Any,
) -> Any:
    """Return the result of `_plan_call`, or raise the error of a wrong input."""
    return _plan_shard(name, x, lists, hidden, context, sizes, tensors, direct)


_plan_shard = Planner(_plan_call, planned_shard, lists=("lists",), kept=_KEPT)


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


_plan_tensor_lists = Planner(_plan_lists, check_lists, kept=_KEPT)


def _cut(x: Tensor, axis: int) -> Any:
    shape = x.shape
    return shape[axis] if -len(shape) <= axis < len(shape) else None


class ContextShards:
    r"""Which tokens of a text each worker of a context group has.

    In contiguous order worker :math:`r` of :math:`R` has the tokens from :math:`r T / R` on. In
    head-tail order the text is cut in :math:`2 R` chunks, of which it has numbers :math:`r` and
    :math:`2 R - 1 - r`, so that all workers have the same number of earlier tokens to look at.

    Args:
        tokens (int): Tokens :math:`T` of the whole packed text, or :math:`S` of every document of
            a batch; a multiple of :math:`R`, or of :math:`2 R` in head-tail order.
        group (WorkerGroup): The workers that share it, `parallel_groups(...).context`.
        order (str, optional): ``"contiguous"`` or ``"head_tail"``. Default: ``"contiguous"``.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `tokens` is no such multiple, or `order` another word, or if they differ
            between the workers.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import numpy as np
        >>> from mindspore_nsa import nn
        >>> shards = nn.ContextShards(8, nn.parallel_groups().context)
        >>> print(shards.pad((3, 6)), shards.positions((3, 6, 8)))
        (3, 6, 8) [0 1 2 0 1 2 0 1]
    """

    def __init__(self, tokens: int, group: Any, order: str = "contiguous") -> None:
        name = type(self).__name__
        if not _is_int(tokens):
            fail_type(name, "tokens", "an int", tokens)
        if not isinstance(group, WorkerGroup):
            fail_type(name, "group", "a WorkerGroup, made by parallel_groups", group)
        if not isinstance(order, str):
            fail_type(name, "order", "a str", order)
        if order not in ORDERS:
            raise ValueError(f"{name}: order must be one of {', '.join(ORDERS)}, got {order!r}")
        agree(name, "tokens, order", [int(tokens), order], group)
        chunks = group.size * (2 if order == "head_tail" else 1)
        if tokens < 1 or tokens % chunks:
            enough = max(1, -(-int(tokens) // chunks)) * chunks
            raise ValueError(
                f"{name}: tokens must be a positive multiple of {chunks} ({group.size} workers, "
                f"order {order}), got {tokens} (pad: {enough} tokens, the added ones a document of "
                "their own)"
            )
        self.tokens, self.group, self.order = int(tokens), group, order
        self.layout = Layout(self.tokens, group.size, order)

    @property
    def key(self) -> tuple[Any, ...]:
        """Numbers that a plan depends on."""
        return self.tokens, self.group.size, self.group.rank, self.order

    def _check_length(self, function: str, x: Tensor, axis: int, expected: int) -> None:
        if not isinstance(x, (np.ndarray, Tensor)):
            fail_type(f"ContextShards.{function}", "x", "a Tensor or NumPy array", x)
        if not _is_int(axis):
            fail_type(f"ContextShards.{function}", "axis", "an int", axis)
        if _cut(x, axis) != expected:
            raise ValueError(
                f"ContextShards.{function}: x must have {expected} tokens along axis {axis}, got "
                f"shape {tuple(x.shape)}"
            )

    def shard(self, x: Any, axis: int = 0) -> Tensor | np.ndarray:
        """The own part of inputs, labels or weights of a loss.

        Labels are shifted before: a token's successor may be another worker's.

        Args:
            x (Union[Tensor, numpy.ndarray]): All `tokens` along `axis`.
            axis (int, optional): 0 for a packed text, 1 for a batch. Default: ``0``.

        Returns:
            Tensor or numpy.ndarray like `x`, with `tokens` / R along `axis`.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If `x` has another number of tokens.
        """
        self._check_length("shard", x, axis, self.tokens)
        rows = self.layout.rows(self.group.rank)
        if isinstance(x, np.ndarray):
            return x.take(rows, axis)
        # MindSpore's own way of rows by number knows fewer dtypes.
        whole = x.astype(mindspore.float32) if x.dtype == mindspore.bfloat16 else x
        return Tensor(whole.asnumpy().take(rows, axis)).astype(x.dtype)

    def unshard(self, parts: Any, axis: int = 0) -> Tensor | np.ndarray:
        """The whole again, from the parts of all workers.

        Args:
            parts (Sequence[Union[Tensor, numpy.ndarray]]): The own part of every worker, in order.
            axis (int, optional): As for `shard`. Default: ``0``.

        Returns:
            Tensor or numpy.ndarray like the parts, with all `tokens` along `axis`.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If there are not as many parts as workers, or one has another length.
        """
        if not isinstance(parts, (tuple, list)):
            fail_type("ContextShards.unshard", "parts", "a tuple or list", parts)
        if len(parts) != self.group.size:
            raise ValueError(
                f"ContextShards.unshard: parts must be those of {self.group.size} workers, got "
                f"{len(parts)}"
            )
        for part in parts:
            self._check_length("unshard", part, axis, self.tokens // self.group.size)
        dtype = parts[0].dtype
        narrow = dtype == mindspore.bfloat16
        arrays = [
            p if isinstance(p, np.ndarray) else (p.float() if narrow else p).asnumpy()
            for p in parts
        ]
        whole = np.concatenate(arrays, axis).take(self.layout.places(np.arange(self.tokens)), axis)
        return whole if isinstance(parts[0], np.ndarray) else Tensor(whole).astype(dtype)

    def pad(self, ends: tuple[int, ...] | list[int]) -> tuple[int, ...]:
        """Prefix sums of documents with one more, which fills the text up to `tokens`.

        Its tokens may be any; in the loss they have the weight 0. It is empty where nothing is
        missing, so that the list always grows by one.

        Args:
            ends (Union[tuple[int], list[int]]): Inclusive prefix sums of the documents' lengths.

        Returns:
            tuple[int].

        Raises:
            TypeError: If `ends` are not ints.
            ValueError: If they decrease, or if there are more than `tokens`.
        """
        if not isinstance(ends, (tuple, list)):
            fail_type("ContextShards.pad", "ends", "a tuple or list of ints", ends)
        check_ends("ContextShards.pad", ends, -1, "ends")
        if ends[-1] > self.tokens:
            raise ValueError(
                f"ContextShards.pad: ends must be at most the {self.tokens} tokens, got {ends[-1]}"
            )
        return (*map(int, ends), self.tokens)

    def positions(self, ends: tuple[int, ...] | list[int]) -> Any:
        """Positions of the own tokens in their documents, int32 [tokens / R], a NumPy array.

        Args:
            ends (Union[tuple[int], list[int]]): Inclusive prefix sums of the documents' lengths;
                the last one is `tokens`.
        """
        ends = self._ends("positions", ends)
        return Documents(self.layout, self.group.rank, ends).positions

    def _ends(self, function: str, ends: Any) -> tuple[Any, ...]:
        if isinstance(ends, (np.ndarray, Tensor)) and len(ends.shape) == 1:
            ends = tuple(ends.tolist())
        if not isinstance(ends, (tuple, list)):
            fail_type(f"ContextShards.{function}", "ends", "a tuple, list or Tensor of ints", ends)
        check_ends(f"ContextShards.{function}", ends, self.tokens, "ends")
        return tuple(map(int, ends))

    def lists(self, ends: Any, config: Any) -> Any:
        """Make what a layer takes in place of `actual_seq_len`: one graph serves all documents.

        The Tensors have the same shapes for all texts with the same number of documents; a list
        with fewer repeats its last value.

        Args:
            ends (Union[tuple[int], list[int], Tensor, numpy.ndarray]): Inclusive prefix sums of the
                documents' lengths; the last one is `tokens`.
            config (Union[NSAConfig, Cell]): That of the layer, or a layer of `mindspore_nsa.models`
                with a context.

        Returns:
            ContextLists, a tuple of Tensors.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If `ends` are no prefix sums of `tokens`.
        """
        ends = self._ends("lists", ends)
        config = getattr(config, "shared_text", config)
        if not isinstance(config, (NSAConfig, TokenText)):
            fail_type("ContextShards.lists", "config", "an NSAConfig", config)
        arrays = _documents_lists(self.layout, self.group.rank, ends, context_sizes(config), True)
        return ContextLists(map(Tensor, arrays))


def context_sizes(config: NSAConfig | TokenText) -> tuple[Any, ...]:
    """(l, s, w, text) of a configuration: what lists depend on, and all that has to agree."""
    return (
        config.compress_block_size,
        config.compress_stride,
        config.window_size,
        repr(config),
    )
