"""The Native Sparse Attention layer."""

from typing import Any

from mindspore import Tensor

from ..ops._plan import fail_type
from ..ops._types import IntList
from .attention import AttentionLayer
from .branches import Branches
from .cache import AttentionCache
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
from .gates import BRANCHES, GatedSum, Gates
from .packing import pack, planned
from .parallel.branches import ShardBranches
from .parallel.groups import WorkerGroup
from .parallel.selection import SelectedFromShards
from .parallel.shards import ContextShards
from .precision import checked_operands, rounded
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
        super().__init__(config, BRANCHES, context, tensor_group, recompute_gather)
        if not isinstance(recompute_gather, bool):
            fail_type(self.name, "recompute_gather", "a bool", recompute_gather)
        if recompute_gather and context is None:
            raise ValueError(f"{self.name}: recompute_gather needs a context, got context None")
        config = self.config
        self.again = None
        if recompute_gather:
            self.again = SelectedFromShards(config, self.scale, context)
        self.compress_key = Compression(config, config.head_dim, self.branch_heads.interleaved)
        self.compress_value = Compression(config, config.value_head_dim)
        self.gates = Gates(config)
        self.gated_sum = GatedSum(self)
        kind: Any = Branches if context is None else ShardBranches
        self.branches = kind(self)
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

    def construct(
        self,
        x: Tensor,
        actual_seq_len: IntList | None = None,
        cache: AttentionCache | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """See the class."""
        x, ends, plan = self.text.given(x, actual_seq_len, cache, key_padding_mask)
        self.projections.check()
        self.cache_step.check(cache)
        dtype, kinds = self.operand_dtype(x), self.projections.kinds
        narrow = cache is None and self.projections.multiply_narrow(x, dtype, kinds)
        rows, text, positions = self.text.rows(x, ends, plan, key_padding_mask, dtype, narrow)
        if cache is not None:
            # One operator for the three branches and their sum.
            out = self.cache_step.attend(x, rows, text, cache, dtype, kinds)
        else:
            if self.context is None:
                dtype = checked_operands(self.name, dtype)
            query, key_value, logits = self.projections.project(rows, dtype, kinds)
            # (q, k, v) of each branch, by the indices of the paper's equation (5).
            cmp, slc, win = self.branch_heads.by_branch(query, key_value, positions, dtype, kinds)
            compressed, blocks = self.branches.compressed(*cmp, text, dtype)
            selected = self.branches.selected(*slc, blocks, text, dtype)
            window = self.branches.window(*win, text, dtype)
            out = self.gated_sum.of(rows, logits, compressed, selected, window, dtype, kinds)
        out = self.projections.output(self.text.returned(out, text), x, dtype, narrow, kinds)
        return self.text.padded(out, key_padding_mask)

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
        selected, ends, blocks = self._selection("selection_quality", x, actual_seq_len)
        query, key, _ = selected
        return quality_of(query, key, blocks, ends, self.scale, self.config.select_block_size)

    def _selection(self, function: str, x: Tensor, actual_seq_len: IntList) -> tuple[Any, ...]:
        """(heads of the selected branch, prefix sums, blocks) of x, for a function's errors."""
        if self.context is not None:
            raise ValueError(
                f"{self.name}.{function}: a layer with a context has parts of a text; look at the "
                "blocks of a layer without one, of the same parameters"
            )
        planned(self.name, x, actual_seq_len, self.hidden)
        dtype, kinds = self.operand_dtype(x), self.projections.kinds
        narrow = self.projections.multiply_narrow(x, dtype, kinds)
        rows, ends, positions = pack(self.name, x, actual_seq_len, self.hidden, narrow)
        if x.dtype != dtype and not narrow:
            rows = rounded(rows, dtype)
        query, key_value, _ = self.projections.project(rows, dtype, kinds)
        cmp, slc = self.branch_heads.by_branch(query, key_value, positions, dtype, kinds)[:2]
        return slc, ends, self.branches.compressed(*cmp, ends, dtype)[1]
