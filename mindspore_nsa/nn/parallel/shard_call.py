"""The call of a layer with a context: its part of the text, tables and lists."""

from typing import Any, NamedTuple

import numpy as np
from mindspore import Tensor

from ...ops._plan import Planner, TensorSpec, fail_type, shown
from ..packing import check_ends, check_input, check_length, check_tensor
from .collectives import call_digest
from .plan import Layout, halo, neighbours
from .shard_lists import ARRAYS, KEPT, documents_lists


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
    arrays = documents_lists(layout, rank, ends, sizes, False)
    values = [
        Tensor(array) if tensors or i in ARRAYS else tuple(array.tolist())
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


_plan_shard = Planner(_plan_call, planned_shard, lists=("lists",), kept=KEPT)
