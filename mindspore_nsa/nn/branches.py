"""The attentions of a layer over a text that one worker has whole."""

from typing import Any

from mindspore import Tensor, ops

from ..ops import flash_attention_score
from ..ops.nsa_compress_attention import compress_attention
from ..ops.nsa_selected_attention import selected_attention
from .packing import compressed_documents
from .parts import LayerPart


class BranchAttention(LayerPart):
    """Calls of the attention operators with the sizes of a layer."""

    def over_compressed(
        self, query: Tensor, key: Tensor, value: Tensor, ends: Any, kv_ends: Any, offsets: Any
    ) -> tuple[Any, ...]:
        """Attention over compressed keys, and the blocks that it chooses."""
        layer = self.layer
        c = layer.config
        # A graph with a Tensor list warns of a name that nobody reads.
        results = compress_attention(
            query,
            key,
            value,
            scale_value=layer.scale,
            head_num=layer.heads,
            compress_block_size=c.compress_block_size,
            compress_stride=c.compress_stride,
            select_block_size=c.select_block_size,
            select_block_count=c.select_block_count,
            actual_seq_qlen=ends,
            actual_cmp_seq_kvlen=kv_ends,
            causal=True,
            init_blocks=c.init_blocks,
            local_blocks=c.local_blocks,
            importance=c.importance,
            q_offset=offsets,
            statistics=False,
        )
        return results[0], results[1]

    def over_blocks(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        blocks: Any,
        ends: Any,
        kv_ends: Any,
        offsets: Any,
    ) -> Tensor:
        """Attention over chosen blocks."""
        layer = self.layer
        c = layer.config
        results = selected_attention(
            query,
            key,
            value,
            blocks,
            scale_value=layer.scale,
            head_num=layer.heads,
            select_block_size=c.select_block_size,
            select_block_count=c.select_block_count,
            atten_mask=None,
            actual_seq_qlen=ends,
            actual_seq_kvlen=kv_ends,
            causal=True,
            q_offset=offsets,
            statistics=False,
        )
        return results[0]

    def over_window(
        self, query: Tensor, key: Tensor, value: Tensor, ends: Any, kv_ends: Any
    ) -> Any:
        """Attention over the last tokens."""
        layer = self.layer
        return flash_attention_score(
            query,
            key,
            value,
            layer.heads,
            actual_seq_qlen=ends,
            actual_seq_kvlen=kv_ends,
            scalar_value=layer.scale,
            pre_tokens=layer.pre_tokens,
            next_tokens=0,
            input_layout="TND",
            sparse_mode=4,
        )


def compress(
    layer: Any, key: Tensor, value: Tensor, ends: Any, rows: Any, positions: Any, dtype: Any
) -> tuple[Any, ...]:
    """Compressed keys, rotated by `positions`, and values; [rows, N2, ...] of a dtype.

    Keys are rotated after the compression, which would average angles.
    """
    cos, sin = layer.angles(positions)
    key = layer.rotate(layer.compress_key(key, ends, rows, dtype), cos, sin)
    value = layer.compress_value(value, ends, rows, dtype)
    return ops.cast(key, dtype), ops.cast(value, dtype)


class Branches(LayerPart):
    """The branches over a whole text, of which a layer knows the documents' `ends`.

    Args:
        layer (AttentionLayer): The layer, whose compression and angles these are.
    """

    def compressed(
        self, query: Tensor, key: Tensor, value: Tensor, ends: Any, dtype: Any
    ) -> tuple[Any, ...]:
        """Attention over compressed tokens [T, N1, Dv], and the blocks that it chooses."""
        layer = self.layer
        size, stride = layer.config.compress_block_size, layer.config.compress_stride
        rows, kv_ends, positions = compressed_documents(query, ends, size, stride)
        key, value = compress(layer, key, value, ends, rows, positions, dtype)
        return layer.attention.over_compressed(query, key, value, ends, kv_ends, None)

    def selected(
        self, query: Tensor, key: Tensor, value: Tensor, blocks: Any, ends: Any, dtype: Any
    ) -> Tensor:
        """Attention over those blocks."""
        return self.layer.attention.over_blocks(query, key, value, blocks, ends, ends, None)

    def window(self, query: Tensor, key: Tensor, value: Tensor, ends: Any, dtype: Any) -> Any:
        """Attention over the last tokens; in a dense layer without a window over all earlier."""
        return self.layer.attention.over_window(query, key, value, ends, ends)
