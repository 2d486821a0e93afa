"""Parameters and parts that sparse and dense attention layers share, and the checks of a call."""

from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

import mindspore
from mindspore import Tensor

from ..ops._by_device import on_ascend
from ..ops._plan import fail_type, lists_of_call
from ..ops._types import IntList
from .branch_heads import BranchHeads
from .branches import BranchAttention
from .cache import AttentionCache, make_cache
from .cache_check import check_cache, states_of_call
from .cache_state import sizes_of
from .cache_step import CacheStep
from .config import NSAConfig
from .conversion import rename
from .layer_number import LayerNumber
from .norm import HeadNorm
from .packing import planned
from .parallel.collectives import Enter, Sum, agree
from .parallel.context import ContextKeys
from .parallel.groups import WorkerGroup
from .parallel.shards import ContextShards
from .parallel.text import SharedText
from .parallel.weights import HeadSplit, local_config
from .precision import Dropout, ExplicitPrecision, Projection
from .projections import Projections
from .rotary import RotaryAngles, Rotate
from .text import WholeText

_ARGUMENTS = ("x", "actual_seq_len", "cache", "key_padding_mask")


class AttentionLayer(ExplicitPrecision):
    """The parameters and parts of a layer of causal attention over packed documents.

    Subclasses have the `construct`, which nothing here calls.

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
        self.sparse = branches > 1
        self.hidden, self.heads = config.hidden_size, config.num_heads
        self.dim, self.value_dim = config.head_dim, config.value_head_dim
        self.cache_made_for = sizes_of(config, self.sparse), config.num_kv_heads, self.sparse
        self.scale = self.dim**-0.5
        if config.rope_scaling is not None:
            # YaRN's factor applies to queries and to keys.
            self.scale = self.scale * config.rope_scaling.query_key_factor**2
        # Tokens before its own that a query sees in the window.
        self.pre_tokens = config.window_size - 1
        self.has_bias = config.has_bias
        self.branch_heads = BranchHeads(self, config, branches)
        sets = self.branch_heads.sets
        both = self.branch_heads.key_width + self.branch_heads.value_width
        self.query = Projection(config, self.hidden, self.heads * self.dim)
        self.key_value = Projection(config, self.hidden, both)
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
        self.angles = RotaryAngles(self.dim, config.rope_theta, config.rope_scaling)
        self.rotate = Rotate(self.dim)
        self.dropout = Dropout(config.dropout) if config.dropout > 0 else None
        # The parts that `construct` is made of; `branches` is the subclass's.
        self.attention = BranchAttention(self)
        self.text = WholeText(self) if context is None else SharedText(self)
        self.projections = Projections(self, gated=self.sparse)
        self.cache_step = CacheStep(self, config)

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
        return HeadSplit(axis, blocks, self.config.num_kv_heads * self.workers, self.workers)

    def _splits_maps(self, sets: Any) -> None:
        """Tell of the linear maps where their parameters have heads; all have the output's bias."""
        query = self._head_split(0, self.heads * self.dim)
        kv_heads = self.config.num_kv_heads
        keys, values = kv_heads * self.dim, kv_heads * self.value_dim
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In GRAPH_MODE, where the layer itself is called, what Python can see is checked here.

        A graph that fails when it runs does not run again.
        """
        if kwargs:
            self._check_names(kwargs)
        if not on_ascend():
            return self._called(*args, **kwargs)
        with lists_of_call(id(self)):
            return self._called(*args, **kwargs)

    def _called(self, *args: Any, **kwargs: Any) -> Any:
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
        if not self._takes_what_is_given():
            ends = None
        with states_of_call(cache, ends, self.number()):
            return super().__call__(x, actual_seq_len, cache)

    def _takes_what_is_given(self) -> bool:
        """Whether nobody else's code decides which tokens a call writes to the cache."""
        module = getattr(self.construct, "__module__", None) or ""
        return module.startswith(f"{__package__}.") and not self._forward_pre_hook

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
            self.cache_step.check(cache)
