"""Sparse and dense attention layers share packing, output projection and dropout."""

from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

import mindspore
from mindspore import Tensor, ops

from ..ops._by_device import on_ascend, split
from ..ops._layer import nsa_split_heads, projects
from ..ops._plan import fail_type
from ..ops._types import IntList
from .cache import AttentionCache, angles_of, make_cache, sizes_of
from .cache_check import check_cache, states_of_call
from .config import NSAConfig
from .conversion import rename
from .layer_number import LayerNumber
from .norm import HeadNorm
from .packing import pack, planned
from .padding import PADDING_RULE, check_padding, real_documents, without_padding
from .parallel.collectives import Enter, Sum, agree
from .parallel.context import ContextKeys, whole_only
from .parallel.groups import WorkerGroup
from .parallel.shards import POSITIONS, ContextShards
from .parallel.weights import HeadSplit, local_config
from .parts import Asked, raise_refusal, refusal, untouched
from .precision import (
    OWN,
    Dropout,
    ExplicitPrecision,
    Projection,
    check_operands,
    given,
    map_kind,
    rounded,
)
from .rotary import RotaryAngles, Rotate

_ARGUMENTS = ("x", "actual_seq_len", "cache", "key_padding_mask")

# Places in what `AttentionLayer.parts` says of a call: whether one operator may compute all linear
# maps, how each is called, and whether gates and rotation are the layer's own.
ALL, QUERY, KEY_VALUE, OUTPUT, GATES, ROTATE = range(6)


def halves(x: Tensor, dim: int) -> Tensor:
    """Neighbours in the last dimension of x [..., heads * dim] come to stand half a head apart."""
    shape = ops.shape(x)
    pairs = ops.reshape(x, (-1, dim // 2, 2))
    return ops.reshape(ops.transpose(pairs, (0, 2, 1)), shape)


class AttentionLayer(ExplicitPrecision):
    """A layer of causal attention over packed documents; subclasses say which keys a query sees.

    Args:
        config (NSAConfig): Sizes.
        branches (int): Sets of keys and values.
        context (ContextShards, optional): The workers that share the text.
        tensor_group (WorkerGroup, optional): The workers that share the heads.
        gathers_again (bool): Whether lists have to be Tensors, for `SelectedFromShards`.
    """

    # For the functions that shard parameters.
    splits_heads = True

    def __init__(
        self,
        config: NSAConfig,
        branches: int,
        context: ContextShards | None = None,
        tensor_group: WorkerGroup | None = None,
        gathers_again: bool = False,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        if not isinstance(config, NSAConfig):
            fail_type(self.name, "config", "an NSAConfig", config)
        if context is not None and not isinstance(context, ContextShards):
            fail_type(self.name, "context", "ContextShards or None", context)
        if tensor_group is not None and not isinstance(tensor_group, WorkerGroup):
            fail_type(self.name, "tensor_group", "a WorkerGroup or None", tensor_group)
        for group in (tensor_group, context and context.group):
            if group is not None:
                agree(self.name, "config", asdict(config), group)
        # A layer that takes this one's place is made with these.
        self.made_with: dict[str, Any] = {"context": context, "tensor_group": tensor_group}
        self.whole_config, self.taken_names = config, None
        alone = tensor_group is None or tensor_group.size == 1
        split_group = None if alone else tensor_group
        if split_group is not None:
            config = local_config(self.name, config, split_group.size)
        # A cache says which layer has written to it.
        part = (0, 1) if split_group is None else (split_group.rank, split_group.size)
        self.config, self.number = config, LayerNumber(self, config, part)
        self.branches, self.sparse = branches, branches > 1
        self.hidden, self.heads = config.hidden_size, config.num_heads
        self.dim, self.value_dim = config.head_dim, config.value_head_dim
        self.kv_heads = config.num_kv_heads
        self.cache_made_for = sizes_of(config, self.sparse), config.num_kv_heads, self.sparse
        self.scale = self.dim**-0.5
        if config.rope_scaling is not None:
            # YaRN's factor applies to queries and to keys.
            self.scale = self.scale * config.rope_scaling.query_key_factor**2
        self.has_bias = config.has_bias
        self.shared = self.sparse and config.shared_kv
        sets = 1 if self.shared else branches
        # One matrix for the keys of all branches, then for their values.
        self.key_width = sets * self.kv_heads * self.dim
        self.value_width = sets * self.kv_heads * self.value_dim
        self.query = Projection(config, self.hidden, self.heads * self.dim)
        self.key_value = Projection(config, self.hidden, self.key_width + self.value_width)
        self.output = Projection(config, self.heads * self.value_dim, self.hidden)
        self.query_norm = HeadNorm(config, 1) if config.qk_norm else None
        self.key_norm = HeadNorm(config, sets) if config.qk_norm else None
        self.workers = 1 if split_group is None else split_group.size
        self._splits_maps(sets)
        self.enter = None if split_group is None else Enter(split_group)
        if split_group is not None:
            self.output.sum_by(Sum(split_group))
            for norm in (self.query_norm, self.key_norm):
                if norm is not None:
                    norm.enter = Enter(split_group)
        self.context: Any = None
        if context is not None:
            self.context = ContextKeys(self.name, context, config, gathers_again)
        self.interleaved = config.rope_pairs == "interleaved"
        self.angles = RotaryAngles(self.dim, config.rope_theta, config.rope_scaling)
        self.angle_attributes = tuple(angles_of(config).values())
        self.rotate = Rotate(self.dim)
        self.dropout = Dropout(config.dropout) if config.dropout > 0 else None

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Name the parameters as MindSpore does, but keep names that were taken from a layer in
        whose place this one comes: a Cell there knows the last part of its own name only.
        """
        super().update_parameters_name(prefix, recurse)
        if self.taken_names is None:
            return
        place, names = self.taken_names
        if f".{place}".endswith(f".{prefix}"):
            rename(self, names)

    def _head_split(self, axis: int, *blocks: Any) -> Any:
        return HeadSplit(axis, blocks, self.kv_heads * self.workers, self.workers)

    def _splits_maps(self, sets: Any) -> None:
        """Tell of the linear maps where their parameters have heads; all have the output's bias."""
        query = self._head_split(0, self.heads * self.dim)
        keys, values = self.kv_heads * self.dim, self.kv_heads * self.value_dim
        both = self._head_split(0, *[keys] * sets, *[values] * sets)
        for cell, rows in ((self.query, query), (self.key_value, both)):
            cell.head_splits = {"weight": rows, **({"bias": rows} if self.has_bias else {})}
        columns = self._head_split(1, self.heads * self.value_dim)
        self.output.head_splits = {"weight": columns, **({"bias": None} if self.has_bias else {})}
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                norm.head_splits = {"weight": None}

    def reset_parameter(self) -> None:
        """Give every parameter the values that it starts with, as after `to_empty`."""
        for cell in self.cells():
            if hasattr(cell, "reset_parameter"):
                cell.reset_parameter()

    @Asked
    def parts(self) -> tuple[Any, ...]:
        """How the parts are called now, by the places above; in a graph, when it is compiled."""
        cells, mark = self._cells, self.amp_dtype
        maps = [map_kind(cells[name], mark) for name in ("query", "key_value", "output")]
        gates, whole = self._gates_parts(mark)
        whole = whole and maps == [OWN, OWN, OWN]
        return whole, *maps, gates, untouched(cells["rotate"], Rotate)

    def _gates_parts(self, mark: Any) -> tuple[Any, ...]:
        """How the gates are called, and whether their linear map is the layer's own."""
        return OWN, True

    @Asked
    def unsummed(self) -> str:
        """Return the error of an output map that does not sum over a tensor group, or ""."""
        output = self._cells["output"]
        if self.enter is None or getattr(output, "total", None) is not None:
            return ""
        return refusal(f"{self.name} with a tensor_group", "output", output, Projection)

    @Asked
    def not_for_cache(self) -> str:
        """Return the error of a part that the operator of a cache would not call, or ""."""
        return self._cache_refusal()

    def _cache_refusal(self) -> Any:
        angles, config = self._cells["angles"], self.config
        made_with = self.dim, config.rope_theta, config.rope_scaling
        if not untouched(angles, RotaryAngles) or angles.made_with != made_with:
            return self._refusal_for_cache("angles", RotaryAngles)
        if not untouched(self._cells["rotate"], Rotate):
            return self._refusal_for_cache("rotate", Rotate)
        return ""

    def _refusal_for_cache(self, part: str, needed: Any) -> Any:
        return refusal(f"{self.name} with a cache", part, self._cells[part], needed)

    def multiplies_narrow(self, x: Tensor, parts: Any) -> bool:
        """Whether products take x as it is, and what they multiply in the dtype of operands."""
        return parts[ALL] and projects(x, self.operand_dtype(x))

    def attend(
        self, x: Tensor, ends: Any, cos: Tensor, sin: Tensor, dtype: Any, parts: Any
    ) -> Tensor:
        """Attention [T, num_heads, value_head_dim] of packed x [T, hidden]."""
        raise NotImplementedError

    def attend_shard(
        self,
        x: Tensor,
        numbers: Any,
        tables: Any,
        lists: Any,
        cos: Tensor,
        sin: Tensor,
        dtype: Any,
        parts: Any,
    ) -> Tensor:
        """Attend with own rows x [L, hidden]; the rest comes from `ContextKeys.plan`."""
        raise NotImplementedError

    def step(self, x: Tensor, ends: Any, cache: Any, places: Any, dtype: Any, parts: Any) -> Tensor:
        """Attention [T, num_heads, value_head_dim] of packed x, whose tokens go into the cache.

        `places` are those of the cache's Tensors.
        """
        raise NotImplementedError

    def new_cache(self, batch: int, capacity: int, dtype: Any = None) -> AttentionCache:
        """An empty cache for `batch` rows of at most `capacity` tokens.

        ``layer(x, cache=cache)`` appends the tokens of x to the rows, in place, and gives what the
        layer would give for them at the end of the whole sequences. See docs/decoding.md.

        Args:
            batch (int): Rows: sequences that grow independently.
            capacity (int): Most tokens of a row.
            dtype (Union[mindspore.dtype, str], optional): float16, bfloat16 or float32, in which
                keys and values are kept and multiplied. Default: ``None``, the dtype of mixed
                precision (`to_float`, amp levels O2 and O3) if the layer is marked with one, as a
                graph would cast a cache of another; else that of the parameters.

        Returns:
            AttentionCache.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If a size is below 1.
        """
        if self.context is not None:
            raise ValueError(
                f"{self.name}.new_cache: a layer with a context has no cache, because its workers "
                "have parts of a text each; generate with a layer without one, of the same "
                "parameters"
            )
        if dtype is None:
            dtype = self.amp_dtype or getattr(mindspore, self.config.param_dtype)
        return make_cache(self.name, self.config, self.sparse, batch, capacity, dtype)

    def _linear(self, x: Tensor, dtype: Any, parts: Any) -> tuple[Any, ...]:
        """Queries [T, heads * D], and keys and values in one matrix, in float32."""
        if parts[QUERY] == OWN:
            query = self.query.product(x, dtype)
        else:
            query = self.query(*given(parts[QUERY], x, dtype))
        if parts[KEY_VALUE] == OWN:
            both = self.key_value.product(x, dtype)
        else:
            both = self.key_value(*given(parts[KEY_VALUE], x, dtype))
        return ops.cast(query, mindspore.float32), ops.cast(both, mindspore.float32)

    def arranged(self, query: Tensor, both: Any) -> tuple[Any, ...]:
        """Queries and keys after their norms, and pairs half a head apart, as they are turned."""
        if self.query_norm is None and self.key_norm is None and not self.interleaved:
            return query, both
        key, value = split(both, (self.key_width, self.value_width), -1)
        if self.query_norm is not None:
            query = self.query_norm(query)
        if self.key_norm is not None:
            key = self.key_norm(key)
        if self.interleaved:
            query, key = halves(query, self.dim), halves(key, self.dim)
        return query, ops.concat((key, value), -1)

    def _as_heads(self, query: Tensor, both: Any) -> tuple[Any, ...]:
        """Queries [T, heads, D], keys [T, branches * kv_heads, D] and values."""
        key, value = split(both, (self.key_width, self.value_width), -1)
        return (
            ops.reshape(query, (-1, self.heads, self.dim)),
            ops.reshape(key, (-1, self.key_width // self.dim, self.dim)),
            ops.reshape(value, (-1, self.value_width // self.value_dim, self.value_dim)),
        )

    def branch_heads(
        self, query: Tensor, both: Any, cos: Tensor, sin: Tensor, dtype: Any, parts: Any
    ) -> Any:
        """Queries of the three branches, then their keys, then their values, in `dtype`.

        All but the compression's keys are rotated. With one branch the first of each three count.
        """
        query, both = self.arranged(query, both)
        heads = None
        if parts[ROTATE]:
            heads = nsa_split_heads(
                query,
                self._of_every_branch(both),
                cos,
                sin,
                dtype,
                self.branches,
                self.heads,
                self.kv_heads,
                self.dim,
                self.value_dim,
            )
        if heads is None:
            heads = self._split_heads(query, both, cos, sin, dtype)
        return heads

    def _of_every_branch(self, both: Any) -> Any:
        """Keys and values for all branches, also where these share them."""
        if not self.shared:
            return both
        key, value = split(both, (self.key_width, self.value_width), -1)
        return ops.concat((key, key, key, value, value, value), -1)

    def _split_heads(
        self, query: Tensor, both: Any, cos: Tensor, sin: Tensor, dtype: Any
    ) -> tuple[Any, ...]:
        """Split and rotate heads by MindSpore's operators."""
        query, key, value = self._as_heads(query, both)
        if self.shared:
            key, value = ops.concat((key, key, key), 1), ops.concat((value, value, value), 1)
        query = self.rotate(query, cos, sin)
        # A cast for each: gradients of 16 bits cannot be added everywhere.
        q_cmp, q_slc, q_win = ops.cast(query, dtype), ops.cast(query, dtype), ops.cast(query, dtype)
        value = ops.cast(value, dtype)
        if not self.sparse:
            key = ops.cast(self.rotate(key, cos, sin), dtype)
            return q_cmp, q_slc, q_win, key, key, key, value, value, value
        n = self.kv_heads
        first, rest = split(key, (n, 2 * n), 1)
        k_slc, k_win = split(ops.cast(self.rotate(rest, cos, sin), dtype), n, 1)
        v_cmp, v_slc, v_win = split(value, n, 1)
        k_cmp = ops.cast(first, dtype)
        return q_cmp, q_slc, q_win, k_cmp, k_slc, k_win, v_cmp, v_slc, v_win

    def _projected(self, out: Any, x: Tensor, dtype: Any, narrow: bool, parts: Any) -> Any:
        """Project attention to the layer's output for x."""
        if narrow:
            if self.dropout is None and not self.has_bias and self.enter is None:
                batch = x.shape[0] if len(x.shape) == 3 else 0
                return self.output.product(out, dtype, dtype, batch)
            out = self.output.product(out, dtype)
        else:
            out = ops.cast(out, mindspore.float32)
            out = ops.reshape(out, (-1, self.heads * self.value_dim))
            if parts[OUTPUT] == OWN:
                out = self.output.product(out, dtype)
            else:
                out = self.output(*given(parts[OUTPUT], out, dtype))
        if self.dropout is not None:
            out = self.dropout(ops.cast(out, mindspore.float32))
        return ops.cast(ops.reshape(out, ops.shape(x)), dtype)

    def _shard(self, x: Tensor, actual_seq_len: IntList) -> Any:
        """The layer's output for own tokens of a text."""
        numbers, tables, digest, lists = self.context.plan(x, actual_seq_len)
        dtype, parts = self.operand_dtype(x), self.parts
        if self.unsummed != "":
            raise_refusal(self.unsummed)
        narrow, own = self.multiplies_narrow(x, parts), x
        if not narrow:
            own = ops.reshape(ops.cast(x, mindspore.float32), (-1, self.hidden))
            if self.amp_dtype is not None:
                own = rounded(own, dtype)
        if self.enter is not None:
            own = self.enter(own)
        own = self.context.checked(self.context.arranged(own, numbers), digest, lists)
        cos, sin = self.angles(lists[POSITIONS])
        out = self.attend_shard(own, numbers, tables, lists, cos, sin, dtype, parts)
        return self._projected(self.context.returned(out, numbers), x, dtype, narrow, parts)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In GRAPH_MODE, where the layer itself is called, what Python can see is checked here.

        A graph that fails when it runs does not run again.
        """
        if kwargs:
            self._check_names(kwargs)
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            self._check(*args, **kwargs)
        if on_ascend() and kwargs.get("cache", args[2] if len(args) > 2 else None) is not None:
            return self._step_on_device(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _step_on_device(
        self, x: Any, actual_seq_len: Any = None, cache: Any = None, *others: Any, **more: Any
    ) -> Any:
        """A call with a cache, after which the host knows the lengths without reading them."""
        if others or more or not isinstance(x, Tensor) or self.context is not None:
            return super().__call__(x, actual_seq_len, cache, *others, **more)
        ends = planned(self.name, x, actual_seq_len, self.hidden)[3]
        with states_of_call(cache, ends, self.number()):
            return super().__call__(x, actual_seq_len, cache)

    def _check_names(self, given: dict[str, Any]) -> None:
        for name in given:
            if name in _ARGUMENTS:
                continue
            text = f"{self.name}: {name} is not one of its arguments, {', '.join(_ARGUMENTS)}"
            if "mask" in name:
                text += (
                    "; key_padding_mask is True where a token of [B, S] is padding, the inverse of "
                    "an attention_mask of ones, and the layer is causal by itself"
                )
            elif near := get_close_matches(name, _ARGUMENTS, 1):
                text += f"; did you mean {near[0]}?"
            raise TypeError(text)

    def _check(
        self,
        x: Tensor | None = None,
        actual_seq_len: IntList | None = None,
        cache: Any = None,
        *others: Any,
        **more: Any,
    ) -> None:
        """The errors of `construct`, before a graph has begun."""
        if others or more or not isinstance(x, Tensor) or self.context is not None:
            # The Cell refuses these itself, or checks padding; workers check together.
            return
        ends = planned(self.name, x, actual_seq_len, self.hidden)[3]
        if cache is not None:
            ends = actual_seq_len if ends is None else ends
            check_cache(self.name, x, cache, ends, *self.cache_made_for, self.number())
            raise_refusal(self.not_for_cache)

    def construct(
        self,
        x: Tensor,
        actual_seq_len: IntList | None = None,
        cache: AttentionCache | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """See the subclass."""
        if self.context is not None:
            whole_only(self.name, cache is not None, key_padding_mask is not None)
            return self._shard(x, actual_seq_len)
        if key_padding_mask is None:
            return self.attention(x, actual_seq_len, cache)
        planned(self.name, x, actual_seq_len, self.hidden)
        check_padding(self.name, x, cache, key_padding_mask)
        rows, ends = real_documents(x, key_padding_mask, self.hidden)
        out = self.attention(rows, ends, None, PADDING_RULE)
        return without_padding(out, key_padding_mask, self.hidden)

    def attention(
        self,
        x: Tensor,
        actual_seq_len: IntList,
        cache: AttentionCache | None,
        instead: str | None = None,
    ) -> Tensor:
        """The layer's output where no token is padding. `instead`: as for `checked_ends`."""
        planned(self.name, x, actual_seq_len, self.hidden)
        if self.unsummed != "":
            raise_refusal(self.unsummed)
        if cache is not None and self.not_for_cache != "":
            raise_refusal(self.not_for_cache)
        parts = self.parts
        narrow = cache is None and self.multiplies_narrow(x, parts)
        packed, ends, positions = pack(self.name, x, actual_seq_len, self.hidden, narrow, instead)
        dtype = self.operand_dtype(x)
        # Otherwise it is the dtype of x, whose values packed holds.
        if self.amp_dtype is not None and not narrow:
            packed = rounded(packed, dtype)
        if self.enter is not None:
            packed = self.enter(packed)
        if cache is None:
            if self.sparse:
                check_operands(self.name, dtype)
            cos, sin = self.angles(positions)
            out = self.attend(packed, ends, cos, sin, dtype, parts)
        else:
            places = check_cache(self.name, x, cache, ends, *self.cache_made_for, self.number())
            # The dtype of the cache need not be this one.
            out = rounded(self.step(packed, ends, cache, places, dtype, parts), dtype)
        return self._projected(out, x, dtype, narrow, parts)
