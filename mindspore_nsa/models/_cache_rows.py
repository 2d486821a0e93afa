"""The native parts of a cache: rows are written in place, and room is looked for before that."""

from functools import lru_cache

from mindspore import ops

from ..ops._custom import custom, planned_for_graph
from ..ops._gradient import mark_without_gradient, without_gradient
from ..ops._plan import Planner, TensorSpec
from ..ops.generated import REFUSALS


def _no_gradient_text(name):
    return f"{name}: it has no gradient with a cache; train without one"


def _plan_refusal(name, x):
    return without_gradient(_no_gradient_text(name))


def refusing_gradients(name, x):
    """x, whose gradient is an error: that of keys ends where they are written to a cache."""
    refuse = _plan_the_refusal(name, x)
    return refuse(x)


_plan_the_refusal = Planner(_plan_refusal, refusing_gradients, kept=32)


def _plan_mark(name, count):
    if not planned_for_graph.get():
        return None
    return mark_without_gradient(_no_gradient_text(name), (True,) * count)


def _mark(name, count):
    return _plan_the_mark(name, count)


_plan_the_mark = Planner(_plan_mark, _mark, kept=32)


def mark_written(name, tensors):
    """Tell a graph that Tensors are written: MindSpore then refuses views, which it would copy."""
    mark = _mark(name, len(tensors))
    if mark is not None:
        mark(*tensors)


@lru_cache(maxsize=1)
def _writer():
    operator = custom("NsaWriteRows", "", REFUSALS[3](_no_gradient_text("mindspore_nsa.models")))
    # A compiler must not drop, merge or reorder it.
    operator.add_prim_attr("side_effect_mem", True)
    return operator


def _plan_write(tensor, index, values):
    return _writer()


def write_rows(tensor, index, values):
    """Write values [n, ...] to rows int64 [n] of a Tensor in place, -1 for nowhere.

    Returns:
        Tensor of no meaning: what reads the rows has to depend on it.
    """
    write = _plan_the_write(tensor, index, values)
    return write(tensor, index, values)


_plan_the_write = Planner(_plan_write, write_rows, kept=256)


@lru_cache(maxsize=64)
def _room_check(text):
    def bprop(lengths, ends, out, dout):
        return ops.zeros_like(lengths), ops.zeros_like(ends)

    return custom("NsaCheckRoom", text, bprop)


def _plan_room(name, capacity, lengths, ends):
    rows, documents = lengths.shape[0], ends.shape[0]
    if documents not in (-1, rows):
        raise ValueError(
            f"{name}: x must have {rows} rows or documents, one for every row of the cache, got "
            f"{documents}"
        )
    if not isinstance(lengths, TensorSpec) or lengths.content is None or ends.content is None:
        return _room_check(f"{capacity} {name}")
    before = 0
    for row, (length, end) in enumerate(zip(lengths.content, ends.content, strict=True)):
        if length < 0:
            raise ValueError(f"{name}: cache must have lengths >= 0, got {length} in row {row}")
        if length + end - before > capacity:
            raise ValueError(
                f"{name}: cache must have room for the tokens of x, its capacity is {capacity}, "
                f"got {length + end - before} tokens in row {row}"
            )
        before = end
    return None


def lengths_with_room(name, capacity, lengths, ends):
    """A copy of a cache's lengths, or the error of rows that are too long with documents of x.

    Args:
        name (str): Name of the layer.
        capacity (int): Most tokens of a row.
        lengths (Tensor): Tokens of every row, int64 [B].
        ends (Tensor): Prefix sums of the documents' tokens, int64 [B].
    """
    check = _plan_the_room(name, capacity, lengths, ends)
    if check is None:
        return lengths + 0
    return check(lengths, ends)


_plan_the_room = Planner(_plan_room, lengths_with_room, lists=("lengths", "ends"), kept=32)
