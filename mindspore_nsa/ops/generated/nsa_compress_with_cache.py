"""Calls of NsaCompressWithCache.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._custom import absent
from .._operands import listed, passed


class NsaCompressWithCacheStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaCompressWithCache."""

    slot_mapping: Any
    block_table: Any
    actual_seq_len: Any


def call_nsa_compress_with_cache(
    operator: Any, c: NsaCompressWithCacheStandIns, input: Tensor, weight: Tensor,
    slot_mapping: Any, block_table: Any, actual_seq_len: Any, cache: Tensor,
) -> Any:
    """Call NsaCompressWithCache."""
    (slot_mapping_stand_in, block_table_stand_in, actual_seq_len_stand_in) = c
    return operator(
        input, weight, passed(slot_mapping, slot_mapping_stand_in),
        passed(block_table, block_table_stand_in), passed(actual_seq_len, actual_seq_len_stand_in),
        cache,
    )


class NsaCompressWithCacheArguments(NamedTuple):
    """Arguments of the aclnn function of NsaCompressWithCache that the host knows."""

    slot_mapping: Any
    act_seq_len: Any
    block_table_optional: Any
    compress_block_size: Any
    compress_stride: Any
    page_block_size: Any


def aclnn_nsa_compress_with_cache(custom: Any, c: NsaCompressWithCacheArguments) -> Any:
    """Make a function of the inputs of NsaCompressWithCache."""

    def call(
        input: Any, weight: Any, slot_mapping: Any, block_table: Any, actual_seq_len: Any,
        cache: Any,
    ) -> Any:
        out = custom(
            input, weight, listed(slot_mapping, c.slot_mapping),
            cache,  # cache_ref
            listed(actual_seq_len, c.act_seq_len), block_table if c.block_table_optional else None,
            "TND",  # layout_optional
            c.compress_block_size, c.compress_stride,
            1,  # act_seq_len_type
            c.page_block_size,
        )
        return out

    return call


def aclnn_bprop_of_nsa_compress_with_cache(bprop: Any, c: NsaCompressWithCacheArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompressWithCache."""
    placeholder = absent()

    def backward(
        input: Any, weight: Any, slot_mapping: Any, cache_ref: Any, act_seq_len: Any,
        block_table_optional: Any, layout_optional: Any, compress_block_size: Any,
        compress_stride: Any, act_seq_len_type: Any, page_block_size: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            input, weight, slot_mapping if c.slot_mapping is not None else placeholder,
            block_table_optional if c.block_table_optional else placeholder,
            act_seq_len if c.act_seq_len is not None else placeholder, cache_ref, out, dout,
        )
        return (
            gradients[0], gradients[1],
            gradients[2] if c.slot_mapping is not None else slot_mapping, gradients[5],
            gradients[4] if c.act_seq_len is not None else act_seq_len,
            gradients[3] if c.block_table_optional else block_table_optional, layout_optional,
            compress_block_size, compress_stride, act_seq_len_type, page_block_size,
        )

    return backward


STAND_INS: dict[str, Any] = {
    "NsaCompressWithCache": NsaCompressWithCacheStandIns,
}
GIVEN: dict[str, Any] = {}
ACLNN: dict[str, tuple[Any, Any, Any]] = {
    "NsaCompressWithCache": (
        NsaCompressWithCacheArguments, aclnn_nsa_compress_with_cache,
        aclnn_bprop_of_nsa_compress_with_cache,
    ),
}
