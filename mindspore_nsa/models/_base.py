"""The base of all models' attention layers: packing, padding, caches, picks."""

import mindspore
from mindspore import ops

from ..nn.packing import pack, planned
from ..nn.padding import PADDING_RULE, check_padding, real_documents, without_padding
from ..nn.parallel.context import whole_only
from ..nn.parts import Asked, raise_refusal, refusal, untouched
from ..nn.precision import ExplicitPrecision, rounded
from ..ops._plan import Planner, TensorSpec, fail_type, shown
from ._cache import CAPACITY, LENGTHS, check_cache, make_cache, opened
from ._cache_rows import refusing_gradients, write_rows
from ._parallel import check_stage
from ._parts import Linear
from ._text import lengths_of, text_of

_ARGUMENTS = (
    *("x", "actual_seq_len", "cache", "key_padding_mask", "topk_indices", "return_indices"),
    "stage",
)
# Arguments of transformers' layers, and their counterparts here.
_INSTEAD = {
    "attention_mask": "key_padding_mask, True where a token is padding; the layer is causal itself",
    "position_ids": "none: positions count from the first token that is no padding",
    "position_embeddings": "none: the layer turns queries and keys itself",
    "past_key_values": "cache, which new_cache makes",
}
STAGES = ("dense", "sparse")
RECALL = "recall"


def _check_picks(name, x, picks, heads):
    lead = ("T",) if len(x.shape) == 2 else ("B", "S")
    shape = ", ".join(map(str, (*lead, *((heads,) if heads else ()), "k")))
    if not isinstance(picks, TensorSpec):
        fail_type(name, "topk_indices", "a Tensor or None", picks)
    if picks.dtype != mindspore.int32:
        dtype = picks.native()[0]
        raise TypeError(f"{name}: topk_indices must be of dtype int32, got {dtype}")
    want = (*x.shape[:-1], *((heads,) if heads else ()))
    if picks.shape is not None and (
        len(picks.shape) != len(want) + 1
        or any(-1 not in pair and pair[0] != pair[1] for pair in zip(picks.shape, want))
    ):
        raise ValueError(
            f"{name}: topk_indices must be of shape ({shape}), {want} and picks, got {picks.shape}"
        )


def _plan_call(name, x, cached, padded, topk_indices, stage, asked, shared, heads, stages):
    if topk_indices is not None:
        if heads is None:
            raise ValueError(f"{name}: topk_indices must be None, this layer picks nothing")
        _check_picks(name, x, topk_indices, heads)
    elif shared:
        raise ValueError(
            f"{name}: topk_indices must be those of the layer before, because indexer_types says "
            "that this layer shares them, got None"
        )
    if asked and heads is None:
        raise ValueError(f"{name}: return_indices must be False, this layer picks nothing")
    if stage is not None:
        if not stages:
            raise ValueError(
                f"{name}: stage must be None, this layer has no KL loss, got {shown(stage)}"
            )
        if stage not in stages:
            raise ValueError(
                f"{name}: stage must be one of {', '.join(stages)} or None, got {shown(stage)}"
            )
        if cached or padded:
            raise ValueError(
                f"{name}: stage must be None with a cache or a key_padding_mask: pack the rows, "
                f"with their actual_seq_len, got {shown(stage)}"
            )
    return True


def check_call(name, x, cached, padded, topk_indices, stage, asked, shared, heads, stages):
    """Raises the errors of a call; x is known to be right.

    Args:
        name: Name of the layer.
        x: Its input.
        cached: Whether there is a cache.
        padded: Whether there is a mask of padding.
        topk_indices: Picks that are given, or None.
        stage: Of the indexer's training, or None.
        asked: Whether picks are asked for.
        shared: Whether the layer needs picks.
        heads: Sets of picks where the picks have a dimension for them, else 0; None: no picks.
        stages: Those that the layer has.
    """
    return _plan_the_call(
        name, x, cached, padded, topk_indices, stage, asked, shared, heads, stages
    )


_plan_the_call = Planner(_plan_call, check_call, kept=256)


class ModelAttention(ExplicitPrecision):
    """A model's attention over packed documents; subclasses say what it is.

    Attributes:
        pick_heads: As `heads` of `check_call`.
        shared: Whether the layer takes the picks of another one.
        stages: Stages of the indexer's training.
        absorbed: Names of maps of which the layer reads the weights and calls nothing.
    """

    pick_heads, shared, stages, absorbed = 0, False, (), ()

    def __init__(self, fields):
        super().__init__()
        self.name, self.hidden = type(self).__name__, fields.hidden_size
        self.context, self.enter = None, None

    def attend(self, x, text, cache, picks, stage, dtype):
        """Attention of packed x, as `_text` has it.

        Returns:
            Tuple: the layer's output [T, hidden] in float32, picks [T, ...] and the KL loss.
        """
        raise NotImplementedError

    def attend_shard(self, x, layout, tables, lists, picks, stage, dtype):
        """Do what `attend` does for own tokens x [L, hidden] of a text that workers share.

        The other arguments come from `ContextKeys.plan`.
        """
        raise NotImplementedError

    def kept(self):
        """Name, kind, size and width of a row of each thing that a cache holds."""
        raise NotImplementedError

    @Asked
    def not_called(self):
        """Return the error of a part whose call would be left out, or ""."""
        for part in self.absorbed:
            if not untouched(self._cells[part], Linear):
                return refusal(self.name, part, self._cells[part], Linear)
        output = self._cells.get("o_proj")
        if self.enter is not None and getattr(output, "total", None) is None:
            return refusal(f"{self.name} with a tensor_group", "o_proj", output, Linear)
        return ""

    @Asked
    def holds(self):
        """`kept` as a graph gets it, when it is compiled."""
        return self.kept()

    def new_cache(self, batch, max_length):
        """An empty cache, to which ``layer(x, cache=cache)`` appends the tokens of x.

        Args:
            batch (int): Rows: sequences that grow independently.
            max_length (int): Most tokens of a row.

        Returns:
            LayerCache.

        Raises:
            TypeError: If an argument is no int.
            ValueError: If it is below 1, or if the layer has a context.
        """
        if self.context is not None:
            whole_only(f"{self.name}.new_cache", True, False)
        return make_cache(self.name, batch, max_length, self.holds)

    def indexer_loss(self, x, actual_seq_len=None, stage="sparse"):
        """The KL loss of the indexer alone: ``layer(x, stage=stage)`` has the output, too.

        Args:
            x (Tensor): As for a call.
            actual_seq_len (Union[tuple[int], list[int], Tensor], optional): As for a call.
                Default: ``None``.
            stage (str, optional): As for a call, one with a loss. Default: ``"sparse"``.

        Returns:
            Tensor, float32, shape :math:`()`: the mean over all queries.
        """
        if stage is None or stage == RECALL:
            raise ValueError(
                f"{self.name}: stage of indexer_loss must be one with a KL loss, got {shown(stage)}"
            )
        return self.construct(x, actual_seq_len, stage=stage)[1]

    def __call__(self, *args, **kwargs):
        """In GRAPH_MODE, where the layer itself is called, a cache's layer is known here alone."""
        for name in kwargs:
            if name not in _ARGUMENTS:
                instead = f"; in its place: {_INSTEAD[name]}" if name in _INSTEAD else ""
                raise TypeError(
                    f"{self.name}: {name} is not one of its arguments, {', '.join(_ARGUMENTS)}"
                    f"{instead}"
                )
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            self._check_cache(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _check_cache(self, x=None, actual_seq_len=None, cache=None, *_, **__):
        if cache is not None:
            check_cache(self.name, self.holds, cache)

    def construct(
        self,
        x,
        actual_seq_len=None,
        cache=None,
        key_padding_mask=None,
        topk_indices=None,
        return_indices=False,
        stage=None,
    ):
        """See the subclass."""
        padded = key_padding_mask is not None
        if self.context is None:
            planned(self.name, x, actual_seq_len, self.hidden)
        else:
            whole_only(self.name, cache is not None, padded)
            self.context.plan(x, actual_seq_len)
        check_call(
            self.name, x, cache is not None, padded, topk_indices, stage, return_indices,
            self.shared, self.pick_heads, self.stages,
        )  # fmt: skip
        check_stage(self.name, self.enter is not None, stage)
        if self.not_called != "":
            raise_refusal(self.not_called)
        if cache is not None:
            check_cache(self.name, self.holds, cache)
        shape = ops.shape(x)[:-1]
        picks = topk_indices
        if picks is not None:
            picks = ops.reshape(picks, (-1, *ops.shape(picks)[len(shape) :]))
        if self.context is not None:
            out, picks, loss = self._shard(x, actual_seq_len, picks, stage)
        elif padded:
            check_padding(self.name, x, None if cache is None else (), key_padding_mask)
            rows, ends = real_documents(x, key_padding_mask, self.hidden)
            out, picks, loss = self._packed(rows, ends, None, picks, stage, shape[1], PADDING_RULE)
            out = without_padding(out, key_padding_mask, self.hidden)
        else:
            out, picks, loss = self._packed(x, actual_seq_len, cache, picks, stage, shape[-1], None)
        # MindSpore reshapes no bfloat16 in a graph on a CPU.
        out = ops.cast(ops.reshape(out, ops.shape(x)), self.operand_dtype(x))
        if return_indices:
            picks = ops.reshape(picks, (*shape, *ops.shape(picks)[1:]))
        if stage is None:
            return (out, picks) if return_indices else out
        if stage == RECALL:
            loss = ops.reshape(loss, shape)
        return (out, loss, picks) if return_indices else (out, loss)

    def _shard(self, x, actual_seq_len, picks, stage):
        """float32 output [L, hidden], picks and loss of own tokens over the keys of all workers."""
        layout, tables, digest, lists = self.context.plan(x, actual_seq_len)
        dtype = self.operand_dtype(x)
        own = ops.reshape(ops.cast(x, mindspore.float32), (-1, self.hidden))
        own = self.context.checked(self.context.arranged(own, layout), digest, lists)
        if picks is not None:
            picks = ops.cast(self.context.arranged(picks, layout), mindspore.int32)
        out, picks, loss = self.attend_shard(own, layout, tables, lists, picks, stage, dtype)
        out = self.context.returned(out, layout)
        picks = ops.cast(self.context.returned(picks, layout), mindspore.int32)
        if stage == RECALL:
            loss = self.context.returned(ops.expand_dims(loss, 1), layout)
        return rounded(out, dtype), picks, loss

    def _packed(self, x, actual_seq_len, cache, picks, stage, longest, instead):
        """float32 output [T, hidden], picks and loss where no token is padding."""
        packed, ends, positions = pack(self.name, x, actual_seq_len, self.hidden, False, instead)
        dtype = self.operand_dtype(x)
        if cache is None:
            text = text_of(self.name, packed, ends, positions, longest)
            out, picks, loss = self.attend(packed, text, None, picks, stage, dtype)
        else:
            held, lengths = opened(self.name, self.holds, cache), cache[LENGTHS]
            text = text_of(self.name, packed, ends, positions, longest, lengths, held[CAPACITY])
            out, picks, loss = self.attend(packed, text, held, picks, stage, dtype)
            # Lengths grow after all that can fail.
            after = ops.depend(lengths_of(text), out)
            out = ops.depend(out, write_rows(lengths, ops.arange(after.shape[0]), after))
            out = refusing_gradients(self.name, out)
        return rounded(out, dtype), picks, loss
