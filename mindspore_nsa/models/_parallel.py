"""The workers of latent attention: which of them have which tokens, and which heads."""

from mindspore import ops

from ..nn.parallel.collectives import Enter, Sum, agree
from ..nn.parallel.groups import WorkerGroup
from ..nn.parallel.shards import ContextShards, TokenText
from ..nn.parallel.weights import HeadSplit
from ..ops._plan import Planner, fail_type, shown


def own_heads(fields, context, tensor_group):
    """Heads of this worker, after the checks of its groups."""
    name = fields.name
    if context is not None and not isinstance(context, ContextShards):
        fail_type(name, "context", "ContextShards or None", context)
    if tensor_group is not None and not isinstance(tensor_group, WorkerGroup):
        fail_type(name, "tensor_group", "a WorkerGroup or None", tensor_group)
    for group in (tensor_group, context and context.group):
        if group is not None:
            agree(name, "config", [fields.given, fields.layer_idx], group)
    size = 1 if tensor_group is None else tensor_group.size
    whole = fields.num_attention_heads % size == 0
    expected = f"a multiple of the {size} workers of tensor_group"
    fields.require("num_attention_heads", whole, expected)
    return fields.num_attention_heads // size


def text_of_all(fields):
    """The sizes that lists and the agreement of workers depend on."""
    known = sorted((key, str(value)) for key, value in fields.given.items())
    return TokenText(fields.hidden_size, f"{fields.layer_idx} {known}")


def share_heads(layer, tensor_group):
    """Have the maps of latent attention tell where their heads are, and the output sum them.

    Returns:
        Cell that sums gradients of what all heads read, None for one worker.
    """
    size = 1 if tensor_group is None else tensor_group.size
    widths = (
        (layer.q_b_proj, 0, layer.nope + layer.rope),
        (layer.kv_b_proj, 0, layer.nope + layer.value),
        (layer.o_proj, 1, layer.value),
    )
    for cell, axis, width in widths:
        split = HeadSplit(axis, (layer.heads * width,), layer.heads * size, size)
        cell.head_splits = {"weight": split}
    if size == 1:
        return None
    layer.o_proj.sum_by(Sum(tensor_group))
    return Enter(tensor_group)


def _plan_stage(name, shares, stage):
    if shares and stage is not None:
        raise ValueError(
            f"{name}: stage must be None in a layer with a tensor_group of several workers, each "
            f"of which has the attention of its own heads alone, got {shown(stage)}"
        )
    return True


def check_stage(name, shares, stage):
    """The error of a KL loss, whose teacher is the mean of all heads, where workers share them."""
    return _plan_the_stage(name, shares, stage)


_plan_the_stage = Planner(_plan_stage, check_stage, kept=32)


def side_by_side(rows):
    """Tensors [L, 1, width], None for absent ones, in one [L, widths], and the widths."""
    found, widths = (), ()
    for row in rows:
        if row is not None:
            found, widths = found + (ops.squeeze(row, 1),), widths + (row.shape[-1],)
    return (found[0] if len(found) == 1 else ops.concat(found, -1)), widths
