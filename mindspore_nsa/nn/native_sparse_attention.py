"""The Native Sparse Attention layer."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ..ops import flash_attention_score
from ..ops._cache_step import nsa_cache_step
from ..ops._layer import nsa_projection, projects
from ..ops._plan import fail_type
from ..ops._types import IntList
from ..ops.nsa_compress_attention import compress_attention
from ..ops.nsa_selected_attention import selected_attention
from .attention import ALL, GATES, AttentionLayer
from .cache import OTHERS, ROLLBACK, SELECTED, STATE
from .compression import Compression
from .config import NSAConfig
from .conversion import (
    check_weights,
    converted_config,
    dense_weights,
    load_dense,
    refuse_attached,
    take_state,
)
from .dense_attention import UNBOUNDED, DenseAttention
from .gates import BRANCHES, Gates
from .packing import compressed_documents, pack, planned
from .parallel.groups import WorkerGroup
from .parallel.selection import SelectedFromShards
from .parallel.shards import (
    COMPRESSED_ENDS,
    ENDS,
    OFFSETS,
    QUERIES,
    TEXT,
    WINDOW_KEYS,
    WINDOW_POSITIONS,
    WINDOW_QUERIES,
    WINDOWS,
    ContextShards,
)
from .parts import plain, takes_dtype, untouched
from .precision import FOREIGN, OWN, WITH_DTYPE, map_kind, rounded
from .selection_quality import SelectionQuality, quality_of


class NativeSparseAttention(AttentionLayer):
    r"""Native Sparse Attention: three causal attentions per query, mixed by learned gates.

    .. math::
        o = g_{cmp} Attn(q, K_{cmp}, V_{cmp}) + g_{slc} Attn(q, K_{slc}, V_{slc})
        + g_{win} Attn(q, K_{win}, V_{win})

    Every branch has keys and values of its own, unless `config.shared_kv` is set. The compressed
    ones are learned weighted sums of windows of tokens; their attention also says which blocks of
    tokens the query reads in the second branch; the third reads the last `window_size` tokens.
    Documents that are packed together do not see each other, and positions count from each
    document's beginning.

    Args:
        config (NSAConfig): Sizes.
        context (ContextShards, optional): Workers that share a text: `x` is this worker's part of
            it, and `actual_seq_len` are the documents of the whole. Default: ``None``.
        tensor_group (WorkerGroup, optional): Workers that share the heads: each has the parameters
            of its own, as `shard_parameters` makes them, and all have the same `x` and output.
            Default: ``None``.
        recompute_gather (bool, optional): With a context: gather the keys of the selected branch
            once more in the backward, rather than keep them. Not for target ``"ascend"``, where
            lists are no Tensors. Default: ``False``.

    Inputs:
        - **x** (Tensor) - Shape :math:`(B, S, hidden)`, every row a document, or packed
          :math:`(T, hidden)`. Dtype float16, bfloat16 or float32.
        - **actual_seq_len** (Union[tuple[int], list[int], Tensor], optional) - For packed `x`, the
          inclusive prefix sums of the documents' lengths; the last one is :math:`T`. A Tensor has
          shape :math:`(documents,)` and dtype int64 or int32, and its values may change from step
          to step without a new graph. Default: ``None``.
        - **cache** (AttentionCache, optional) - What `new_cache` gave: the tokens of `x` follow
          those in it, every row of the batch, or packed document, in a row of its own. They are
          written in place. There is no gradient then. Default: ``None``.
        - **key_padding_mask** (Tensor, optional) - For `x` of shape :math:`(B, S, hidden)`, which
          tokens are padding, shape :math:`(B, S)`, dtype bool; only before and after the other
          tokens of a row. Their output is 0, they change nothing of the other tokens', and
          positions count from the first token that is none. Default: ``None``.

    Outputs:
        Tensor, the shape and dtype of `x` (under mixed precision its dtype).

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a compiled graph runs.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.nn import NativeSparseAttention, NSAConfig
        >>> config = NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> layer = NativeSparseAttention(config)
        >>> x = np.random.randn(2, 100, 64).astype(np.float32)
        >>> print(layer(Tensor(x)).shape)
        (2, 100, 64)
        >>> packed = Tensor(x.reshape(200, 64))
        >>> print(layer(packed, (130, 200)).shape)
        (200, 64)
    """

    def __init__(
        self,
        config: NSAConfig,
        context: ContextShards | None = None,
        tensor_group: WorkerGroup | None = None,
        recompute_gather: bool = False,
    ) -> None:
        super().__init__(config, 3, context, tensor_group, recompute_gather)
        if not isinstance(recompute_gather, bool):
            fail_type(self.name, "recompute_gather", "a bool", recompute_gather)
        if recompute_gather and context is None:
            raise ValueError(f"{self.name}: recompute_gather needs a context, got context None")
        config = self.config
        self.again = None
        if recompute_gather:
            self.again = SelectedFromShards(config, self.scale, context)
        self.compress_key = Compression(config, config.head_dim, self.interleaved)
        self.compress_value = Compression(config, config.value_head_dim)
        self.gates = Gates(config)
        by_head = self._head_split(1, config.num_kv_heads)
        for cell in (self.compress_key, self.compress_value):
            cell.head_splits = {"weight": by_head, "position": by_head}
        rows = self._head_split(0, *[config.num_heads] * BRANCHES)
        self.gates.linear.head_splits = {
            "weight": rows,
            **({"bias": rows} if config.has_bias else {}),
        }

    @classmethod
    def from_dense(
        cls, dense: DenseAttention | dict[str, Any], config: NSAConfig | None = None
    ) -> "NativeSparseAttention":
        """A layer with the weights of a dense one, to go on training from.

        Every branch gets the dense layer's keys and values, the compression starts as a mean. With
        `config.gating` ``"residual"`` the gates start at the selected branch, so that the layer is
        the dense one up to ``select_block_count * select_block_size`` tokens, and beyond reads what
        the compressed scores choose. With ``"sigmoid"`` the gates start as in any new layer, near
        one half each.

        A layer also gives its workers (`context`, `tensor_group`), names, dtypes, `requires_grad`
        and other flags of its parameters, mixed precision, training mode and recomputation; hooks
        and exchanged parts are refused. New parameters are trainable.

        Args:
            dense (Union[DenseAttention, dict]): The layer, or its weights by name as Tensors or
                arrays: query.weight, key_value.weight (keys, then values), output.weight, with
                `qk_norm` query_norm.weight and key_norm.weight, with `has_bias` biases, 0 where
                they are left out.
            config (NSAConfig, optional): Sizes. Default: ``None``, those of the dense layer, with
                `gating` ``"residual"``.

        Returns:
            NativeSparseAttention.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If `config` does not fit the dense layer, if that has a window, hooks or
                parts that are not its own, or if the weights are others or of other shapes.

        Examples:
            >>> import numpy as np
            >>> from mindspore import Tensor
            >>> from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, NSAConfig
            >>> config = NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
            >>> dense = DenseAttention(config)
            >>> layer = NativeSparseAttention.from_dense(dense)
            >>> x = Tensor(np.random.randn(2, 200, 64).astype(np.float32))
            >>> print(np.allclose(layer(x), dense(x), atol=1e-5))
            True
        """
        function = f"{cls.__name__}.from_dense"
        if not isinstance(dense, DenseAttention):
            made = check_weights(function, dense, config)
            layer = cls(made)
            load_dense(function, layer, dense)
        else:
            own_dtypes = config is None
            made = converted_config(function, dense, config)
            if dense.pre_tokens != UNBOUNDED:
                raise ValueError(f"{function}: dense must see all earlier tokens, got a window")
            refuse_attached(function, dense, DenseAttention)
            layer = cls(made, **dense.made_with)
            load_dense(function, layer, dense_weights(dense))
            take_state(layer, dense, own_dtypes)
        if made.gating == "residual":
            layer.gates.close()
        return layer

    def _gates_parts(self, mark: Any) -> tuple[Any, ...]:
        """Whether the gates are the layer's own, and whether their linear map is, too."""
        gates = self._cells["gates"]
        if untouched(gates, Gates):
            return OWN, map_kind(gates._cells["linear"], mark) == OWN
        return WITH_DTYPE if takes_dtype(gates, 4) else FOREIGN, False

    def _cache_refusal(self) -> Any:
        for part in ("compress_key", "compress_value"):
            if not untouched(self._cells[part], Compression):
                return self._refusal_for_cache(part, Compression)
        gates = self._cells["gates"]
        # A subclass may say what the weights are, not how branches are added.
        if not (
            isinstance(gates, Gates)
            and plain(gates)
            and "mix" not in vars(gates)
            and (type(gates).construct, type(gates).mix) == (Gates.construct, Gates.mix)
        ):
            return self._refusal_for_cache("gates", Gates)
        return super()._cache_refusal()

    def products(self, x: Tensor, dtype: Any, parts: Any) -> tuple[Any, ...]:
        """Queries [T, heads * D], keys and values in one matrix, logits of the gates; float32.

        Logits are None where the gates are called as a Cell.
        """
        y = None
        if parts[ALL]:
            weights = self.query.weight, self.key_value.weight, self.gates.linear.weight
            y = nsa_projection(x, *weights, dtype, mindspore.float32)
        if y is None:
            query, both = self._linear(x, dtype, parts)
            logits = self.gates.logits(x, dtype) if parts[GATES] == OWN else None
            return query, both, logits
        return self.query.biased(y[0]), self.key_value.biased(y[1]), self.gates.linear.biased(y[2])

    def step(self, x: Tensor, ends: Any, cache: Any, places: Any, dtype: Any, parts: Any) -> Tensor:
        """Attention [T, num_heads, value_head_dim] of packed x, whose tokens go into the cache."""
        c = self.config
        query, both, logits = self.products(x, dtype, parts)
        if logits is None:
            logits = self.gates.logits(x, dtype)
        query, both = self.arranged(query, both)
        query, key, value = self._as_heads(query, both)
        theta, factor, low, high = self.angle_attributes
        full = mindspore.float32
        return nsa_cache_step(
            query,
            key,
            value,
            cache[places[SELECTED]],
            cache[places[STATE]],
            ends,
            self.gates.weights(logits),
            ops.cast(self.compress_key.weight, full),
            ops.cast(self.compress_value.weight, full),
            self.compress_key.encodings(),
            self.compress_value.encodings(),
            cache[places[OTHERS]],
            self.angles.coarse,
            self.angles.fine,
            scale_value=self.scale,
            theta=theta,
            rope_factor=factor,
            rope_low=low,
            rope_high=high,
            window_size=c.window_size,
            shared_kv=c.shared_kv,
            rollback=ROLLBACK,
            compress_block_size=c.compress_block_size,
            compress_stride=c.compress_stride,
            select_block_size=c.select_block_size,
            select_block_count=c.select_block_count,
            init_blocks=c.init_blocks,
            local_blocks=c.local_blocks,
            importance=c.importance,
            layer=self.number(),
        )

    def compressed(self, query: Tensor, key: Tensor, value: Tensor, ends: Any, dtype: Any) -> Any:
        """The first branch [T, num_heads, value_head_dim] and the blocks it chooses."""
        # Compressed keys are rotated after the compression, which would average angles.
        rows, cmp_ends, positions = compressed_documents(
            query, ends, self.config.compress_block_size, self.config.compress_stride
        )
        key, value = self._windows(key, value, ends, rows, positions, dtype)
        return self._choose(query, key, value, ends, cmp_ends, None)

    def _windows(
        self, key: Tensor, value: Tensor, ends: Any, rows: Any, positions: Any, dtype: Any
    ) -> tuple[Any, ...]:
        """Compressed keys, rotated by `positions`, and values; [rows, N2, ...] of a dtype."""
        cos, sin = self.angles(positions)
        key = self.rotate(self.compress_key(key, ends, rows, dtype), cos, sin)
        value = self.compress_value(value, ends, rows, dtype)
        return ops.cast(key, dtype), ops.cast(value, dtype)

    def _choose(
        self, query: Tensor, key: Tensor, value: Tensor, ends: Any, cmp_ends: Any, offsets: Any
    ) -> tuple[Any, ...]:
        """Attention over compressed keys, and the blocks that it chooses."""
        c = self.config
        # A graph with a Tensor list warns of a name that nobody reads.
        results = compress_attention(
            query,
            key,
            value,
            self.scale,
            self.heads,
            c.compress_block_size,
            c.compress_stride,
            c.select_block_size,
            c.select_block_count,
            None,  # neither mask
            None,
            ends,
            cmp_ends,
            None,  # what blocks there are follows from the rest
            True,  # causal
            c.init_blocks,
            c.local_blocks,
            c.importance,
            offsets,
            False,  # the statistics are not used
        )
        return results[0], results[1]

    def _selected(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        blocks: Any,
        ends: Any,
        kv_ends: Any,
        offsets: Any,
    ) -> Any:
        """Attention over the blocks."""
        c = self.config
        results = selected_attention(
            query,
            key,
            value,
            blocks,
            self.scale,
            self.heads,
            c.select_block_size,
            c.select_block_count,
            None,  # no mask
            ends,
            kv_ends,
            True,  # causal
            offsets,
            False,  # the statistics are not used
        )
        return results[0]

    def _window(self, query: Tensor, key: Tensor, value: Tensor, ends: Any, kv_ends: Any) -> Any:
        """Attention over the last tokens."""
        return flash_attention_score(
            query,
            key,
            value,
            self.heads,
            actual_seq_qlen=ends,
            actual_seq_kvlen=kv_ends,
            scalar_value=self.scale,
            pre_tokens=self.config.window_size - 1,
            next_tokens=0,
            input_layout="TND",
            sparse_mode=4,
        )

    def _mixed(
        self,
        x: Tensor,
        logits: Tensor,
        compressed: Tensor,
        selected: Tensor,
        window: Tensor,
        dtype: Any,
        parts: Any,
    ) -> Any:
        if parts[GATES] == OWN:
            narrow = parts[ALL] and projects(logits, dtype)
            result = dtype if narrow else mindspore.float32
            return self.gates.mix(logits, compressed, selected, window, dtype, result)
        if parts[GATES] == WITH_DTYPE:
            mixed = self.gates(x, compressed, selected, window, dtype)
        else:
            mixed = self.gates(x, compressed, selected, window)
        return ops.cast(mixed, mindspore.float32)

    def selected_blocks(self, x: Tensor, actual_seq_len: IntList | None = None) -> Tensor:
        r"""The blocks that the second branch reads for every token of x: for looking at.

        Args:
            x (Tensor): As for a call of the layer, shape :math:`(B, S, hidden)` or packed
                :math:`(T, hidden)`.
            actual_seq_len (Union[tuple[int], list[int], Tensor], optional): As for a call.
                Default: ``None``.

        Returns:
            Tensor of int32, shape :math:`(T, num\_kv\_heads, select\_block\_count)`, with
            :math:`T = B S`: numbers of blocks within the token's document. Those that are always
            read come first, then by importance; -1 where there are no more.

        Raises:
            TypeError: If an argument has the wrong type or dtype.
            ValueError: If a rank, shape or value is wrong.
        """
        return self._selection("selected_blocks", x, actual_seq_len)[2]

    def selection_quality(
        self, x: Tensor, actual_seq_len: IntList | None = None
    ) -> SelectionQuality:
        """How much of dense attention stands on the selected blocks of x: for looking at.

        For every query the softmax of the second branch's scores over all earlier tokens is
        computed by NumPy, which takes the time of dense attention.

        Args:
            x (Tensor): As for a call of the layer.
            actual_seq_len (Union[tuple[int], list[int], Tensor], optional): As for a call.
                Default: ``None``.

        Returns:
            SelectionQuality, the masses on the selected blocks, on as many newest ones and on as
            many best ones.

        Raises:
            TypeError: If an argument has the wrong type or dtype.
            ValueError: If a rank, shape or value is wrong.
        """
        heads, ends, blocks = self._selection("selection_quality", x, actual_seq_len)
        size = self.config.select_block_size
        return quality_of(heads[1], heads[4], blocks, ends, self.scale, size)

    def _selection(self, function: str, x: Tensor, actual_seq_len: IntList) -> tuple[Any, ...]:
        """(`branch_heads`, prefix sums, selected blocks) of x, for a function's errors."""
        if self.context is not None:
            raise ValueError(
                f"{self.name}.{function}: a layer with a context has parts of a text; look at the "
                "blocks of a layer without one, of the same parameters"
            )
        planned(self.name, x, actual_seq_len, self.hidden)
        parts = self.parts
        narrow = self.multiplies_narrow(x, parts)
        packed, ends, positions = pack(self.name, x, actual_seq_len, self.hidden, narrow)
        dtype = self.operand_dtype(x)
        if x.dtype != dtype and not narrow:
            packed = rounded(packed, dtype)
        cos, sin = self.angles(positions)
        query, both, _ = self.products(packed, dtype, parts)
        heads = self.branch_heads(query, both, cos, sin, dtype, parts)
        return heads, ends, self.compressed(heads[0], heads[3], heads[6], ends, dtype)[1]

    def attend(
        self, x: Tensor, ends: Any, cos: Tensor, sin: Tensor, dtype: Any, parts: Any
    ) -> Tensor:
        """Attention [T, num_heads, value_head_dim] of packed x [T, hidden]."""
        query, both, logits = self.products(x, dtype, parts)
        heads = self.branch_heads(query, both, cos, sin, dtype, parts)
        q_cmp, q_slc, q_win, k_cmp, k_slc, k_win, v_cmp, v_slc, v_win = heads
        compressed, blocks = self.compressed(q_cmp, k_cmp, v_cmp, ends, dtype)
        selected = self._selected(q_slc, k_slc, v_slc, blocks, ends, ends, None)
        window = self._window(q_win, k_win, v_win, ends, ends)
        return self._mixed(x, logits, compressed, selected, window, dtype, parts)

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
        keys = self.context
        query, both, logits = self.products(x, dtype, parts)
        heads = self.branch_heads(query, both, cos, sin, dtype, parts)
        q_cmp, q_slc, q_win, k_cmp, k_slc, k_win, v_cmp, v_slc, v_win = heads

        k_cmp, v_cmp = keys.windows(k_cmp, v_cmp, tables)
        rows, positions = lists[WINDOW_POSITIONS].shape[0], lists[WINDOW_POSITIONS]
        k_cmp, v_cmp = self._windows(k_cmp, v_cmp, lists[WINDOWS], rows, positions, dtype)
        k_cmp, v_cmp = keys.compressed(k_cmp, v_cmp, lists)
        if self.again is None:
            k_slc, v_slc = keys.everything(k_slc, tables), keys.everything(v_slc, tables)
        k_win, v_win = keys.window(k_win, v_win, tables)

        window = self._window(q_win, k_win, v_win, lists[WINDOW_QUERIES], lists[WINDOW_KEYS])
        q_cmp = keys.parts(q_cmp, numbers)
        compressed: tuple[Any, ...] = ()
        chosen: tuple[Any, ...] = ()
        for i in range(numbers[0]):
            queries = keys.of_pass(lists, i, QUERIES)
            offsets = keys.of_pass(lists, i, OFFSETS)
            cmp_ends = lists[COMPRESSED_ENDS]
            key, value = ops.cast(k_cmp, dtype), ops.cast(v_cmp, dtype)
            out, blocks = self._choose(q_cmp[i], key, value, queries, cmp_ends, offsets)
            compressed, chosen = compressed + (out,), chosen + (blocks,)
        selected = self._selected_shard(q_slc, k_slc, v_slc, chosen, numbers, tables, lists, dtype)
        compressed = keys.whole(compressed)
        return self._mixed(x, logits, compressed, selected, window, dtype, parts)

    def _selected_shard(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        blocks: Any,
        numbers: Any,
        tables: Any,
        lists: Any,
        dtype: Any,
    ) -> Any:
        """The selected branch of own queries, over all keys or to be gathered ones."""
        keys, ends = self.context, lists[ENDS]
        if self.again is not None:
            queries = keys.of_passes(lists, numbers, QUERIES)
            offsets = keys.of_passes(lists, numbers, OFFSETS)
            if len(blocks) > 1:
                blocks = (ops.concat(blocks),)
            order = tables[TEXT]
            return self.again(query, key, value, blocks[0], order, ends, queries, offsets)[0]
        query = keys.parts(query, numbers)
        selected: tuple[Tensor, ...] = ()
        for i in range(numbers[0]):
            queries = keys.of_pass(lists, i, QUERIES)
            offsets = keys.of_pass(lists, i, OFFSETS)
            k, v = ops.cast(key, dtype), ops.cast(value, dtype)
            selected += (self._selected(query[i], k, v, blocks[i], queries, ends, offsets),)
        return keys.whole(selected)
