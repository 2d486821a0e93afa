"""Calls of NsaCacheStep.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._custom import absent
from .._operands import listed, passed


class NsaCacheStepStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaCacheStep."""

    actual_seq_len: Any
    gates: Any
    weight_k: Any
    weight_v: Any
    position_k: Any
    position_v: Any
    others: Any
    angles: Any
    fine_angles: Any


def call_nsa_cache_step(
    operator: Any, c: NsaCacheStepStandIns, query: Tensor, key: Tensor, value: Tensor,
    selected: Tensor, state: Tensor, actual_seq_len: Any, gates: Any, weight_k: Any, weight_v: Any,
    position_k: Any, position_v: Any, others: Any, angles: Any, fine_angles: Any,
) -> Any:
    """Call NsaCacheStep."""
    (
        actual_seq_len_stand_in, gates_stand_in, weight_k_stand_in, weight_v_stand_in,
        position_k_stand_in, position_v_stand_in, others_stand_in, angles_stand_in,
        fine_angles_stand_in,
    ) = c
    return operator(
        query, key, value, selected, state, passed(actual_seq_len, actual_seq_len_stand_in),
        passed(gates, gates_stand_in), passed(weight_k, weight_k_stand_in),
        passed(weight_v, weight_v_stand_in), passed(position_k, position_k_stand_in),
        passed(position_v, position_v_stand_in), passed(others, others_stand_in),
        passed(angles, angles_stand_in), passed(fine_angles, fine_angles_stand_in),
    )


class NsaCacheStepArguments(NamedTuple):
    """Arguments of the aclnn function of NsaCacheStep that the host knows."""

    actual_seq_len_optional: Any
    gates_optional: Any
    weight_k_optional: Any
    weight_v_optional: Any
    position_k_optional: Any
    position_v_optional: Any
    others_ref: Any
    angles: Any
    fine_angles: Any
    scale_value: Any
    theta: Any
    rope_factor: Any
    rope_low: Any
    rope_high: Any
    shared_kv: Any
    window_size: Any
    rollback: Any
    compress_block_size: Any
    compress_stride: Any
    select_block_size: Any
    select_block_count: Any
    init_blocks: Any
    local_blocks: Any
    importance: Any
    layer: Any


def aclnn_nsa_cache_step(custom: Any, c: NsaCacheStepArguments) -> Any:
    """Make a function of the inputs of NsaCacheStep."""

    def call(
        query: Any, key: Any, value: Any, selected: Any, state: Any, actual_seq_len: Any,
        gates: Any, weight_k: Any, weight_v: Any, position_k: Any, position_v: Any, others: Any,
        angles: Any, fine_angles: Any,
    ) -> Any:
        out = custom(
            query, key, value,
            selected,  # selected_ref
            state,  # state_ref
            listed(actual_seq_len, c.actual_seq_len_optional), gates if c.gates_optional else None,
            weight_k if c.weight_k_optional else None, weight_v if c.weight_v_optional else None,
            position_k if c.position_k_optional else None,
            position_v if c.position_v_optional else None, others if c.others_ref else None,
            angles if c.angles else None, fine_angles if c.fine_angles else None, c.scale_value,
            c.theta, c.rope_factor, c.rope_low, c.rope_high, c.shared_kv, c.window_size, c.rollback,
            c.compress_block_size, c.compress_stride, c.select_block_size, c.select_block_count,
            c.init_blocks, c.local_blocks, c.importance, c.layer,
        )
        return out

    return call


def aclnn_bprop_of_nsa_cache_step(bprop: Any, c: NsaCacheStepArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCacheStep."""
    placeholder = absent()

    def backward(
        query: Any, key: Any, value: Any, selected_ref: Any, state_ref: Any,
        actual_seq_len_optional: Any, gates_optional: Any, weight_k_optional: Any,
        weight_v_optional: Any, position_k_optional: Any, position_v_optional: Any, others_ref: Any,
        angles: Any, fine_angles: Any, scale_value: Any, theta: Any, rope_factor: Any,
        rope_low: Any, rope_high: Any, shared_kv: Any, window_size: Any, rollback: Any,
        compress_block_size: Any, compress_stride: Any, select_block_size: Any,
        select_block_count: Any, init_blocks: Any, local_blocks: Any, importance: Any, layer: Any,
        out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            query, key, value, selected_ref, state_ref,
            actual_seq_len_optional if c.actual_seq_len_optional is not None else placeholder,
            gates_optional if c.gates_optional else placeholder,
            weight_k_optional if c.weight_k_optional else placeholder,
            weight_v_optional if c.weight_v_optional else placeholder,
            position_k_optional if c.position_k_optional else placeholder,
            position_v_optional if c.position_v_optional else placeholder,
            others_ref if c.others_ref else placeholder, angles if c.angles else placeholder,
            fine_angles if c.fine_angles else placeholder, out, dout,
        )
        return (
            gradients[0], gradients[1], gradients[2], gradients[3], gradients[4],
            gradients[5] if c.actual_seq_len_optional is not None else actual_seq_len_optional,
            gradients[6] if c.gates_optional else gates_optional,
            gradients[7] if c.weight_k_optional else weight_k_optional,
            gradients[8] if c.weight_v_optional else weight_v_optional,
            gradients[9] if c.position_k_optional else position_k_optional,
            gradients[10] if c.position_v_optional else position_v_optional,
            gradients[11] if c.others_ref else others_ref, gradients[12] if c.angles else angles,
            gradients[13] if c.fine_angles else fine_angles, scale_value, theta, rope_factor,
            rope_low, rope_high, shared_kv, window_size, rollback, compress_block_size,
            compress_stride, select_block_size, select_block_count, init_blocks, local_blocks,
            importance, layer,
        )

    return backward


STAND_INS: dict[str, Any] = {
    "NsaCacheStep": NsaCacheStepStandIns,
}
GIVEN: dict[str, Any] = {}
ACLNN: dict[str, tuple[Any, Any, Any]] = {
    "NsaCacheStep": (NsaCacheStepArguments, aclnn_nsa_cache_step, aclnn_bprop_of_nsa_cache_step),
}
