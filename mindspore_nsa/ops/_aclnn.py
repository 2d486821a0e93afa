"""Calls of the aclnn functions of CANN's package with an operator's inputs.

`c` has the values that the host knows, whether an optional Tensor is given, and
the dtype of a list that is a Tensor; None: it is absent. For an argument that is no
Tensor a bprop returns anything.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

from typing import Any, NamedTuple

from ._custom import absent
from ._operands import listed


class FlashAttentionScoreArguments(NamedTuple):
    """What the aclnn function of FlashAttentionScore is called with, beside Tensors."""

    real_shift_optional: Any
    drop_mask_optional: Any
    atten_mask_optional: Any
    prefix_optional: Any
    actual_seq_q_len_optional: Any
    actual_seq_kv_len_optional: Any
    q_start_idx_optional: Any
    kv_start_idx_optional: Any
    sink_optional: Any
    scale_value: Any
    keep_prob: Any
    pre_tokens: Any
    next_tokens: Any
    head_num: Any
    input_layout: Any
    sparse_mode: Any
    pse_type: Any


def aclnn_flash_attention_score(custom: Any, c: FlashAttentionScoreArguments) -> Any:
    """Make a function of the inputs of FlashAttentionScore."""

    def call(
        query,
        key,
        value,
        real_shift,
        drop_mask,
        attn_mask,
        prefix,
        actual_seq_qlen,
        actual_seq_kvlen,
        sink,
        q_start_idx,
        kv_start_idx,
    ):
        out = custom(
            query,
            key,
            value,
            real_shift if c.real_shift_optional else None,  # real_shift_optional
            drop_mask if c.drop_mask_optional else None,  # drop_mask_optional
            None,  # padding_mask_optional
            attn_mask if c.atten_mask_optional else None,  # atten_mask_optional
            c.prefix_optional,
            c.actual_seq_q_len_optional,
            c.actual_seq_kv_len_optional,
            c.q_start_idx_optional,
            c.kv_start_idx_optional,
            sink if c.sink_optional else None,  # sink_optional
            c.scale_value,
            c.keep_prob,
            c.pre_tokens,
            c.next_tokens,
            c.head_num,
            c.input_layout,
            0,  # inner_precise
            c.sparse_mode,
            c.pse_type,
        )
        return (out[3], out[0], out[1])

    return call


def aclnn_bprop_of_flash_attention_score(bprop: Any, c: FlashAttentionScoreArguments) -> Any:
    """Make the bprop of the aclnn function from that of FlashAttentionScore."""
    placeholder = absent()

    def backward(
        query,
        key,
        value,
        real_shift_optional,
        drop_mask_optional,
        padding_mask_optional,
        atten_mask_optional,
        prefix_optional,
        actual_seq_q_len_optional,
        actual_seq_kv_len_optional,
        q_start_idx_optional,
        kv_start_idx_optional,
        sink_optional,
        scale_value,
        keep_prob,
        pre_tokens,
        next_tokens,
        head_num,
        input_layout,
        inner_precise,
        sparse_mode,
        pse_type,
        out,
        dout,
    ):
        gradients = bprop(
            query,
            key,
            value,
            real_shift_optional if c.real_shift_optional else placeholder,
            drop_mask_optional if c.drop_mask_optional else placeholder,
            atten_mask_optional if c.atten_mask_optional else placeholder,
            placeholder,
            placeholder,
            placeholder,
            sink_optional if c.sink_optional else placeholder,
            placeholder,
            placeholder,
            (out[3], out[0], out[1]),
            (dout[3], dout[0], dout[1]),
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            gradients[3] if c.real_shift_optional else real_shift_optional,
            gradients[4] if c.drop_mask_optional else drop_mask_optional,
            padding_mask_optional,
            gradients[5] if c.atten_mask_optional else atten_mask_optional,
            prefix_optional,
            actual_seq_q_len_optional,
            actual_seq_kv_len_optional,
            q_start_idx_optional,
            kv_start_idx_optional,
            gradients[9] if c.sink_optional else sink_optional,
            scale_value,
            keep_prob,
            pre_tokens,
            next_tokens,
            head_num,
            input_layout,
            inner_precise,
            sparse_mode,
            pse_type,
        )

    return backward


class FlashAttentionScoreGradArguments(NamedTuple):
    """What the aclnn function of FlashAttentionScoreGrad is called with, beside Tensors."""

    pse_shift_optional: Any
    drop_mask_optional: Any
    atten_mask_optional: Any
    prefix_optional: Any
    actual_seq_q_len_optional: Any
    actual_seq_kv_len_optional: Any
    q_start_idx_optional: Any
    kv_start_idx_optional: Any
    sink_optional: Any
    q_offset_optional: Any
    softmax_sum_grad_optional: Any
    scale_value: Any
    keep_prob: Any
    pre_tokens: Any
    next_tokens: Any
    head_num: Any
    input_layout: Any
    sparse_mode: Any
    pse_type: Any
    compress_block_size: Any
    compress_stride: Any
    pse_grad: Any


def aclnn_flash_attention_score_grad(custom: Any, c: FlashAttentionScoreGradArguments) -> Any:
    """Make a function of the inputs of FlashAttentionScoreGrad."""

    def call(
        query,
        key,
        value,
        dy,
        real_shift,
        drop_mask,
        attn_mask,
        softmax_max,
        softmax_sum,
        attention_in,
        prefix,
        actual_seq_qlen,
        actual_seq_kvlen,
        sink,
        q_offset,
        softmax_sum_grad,
        q_start_idx,
        kv_start_idx,
    ):
        out = custom(
            query,
            key,  # key_in
            value,
            dy,
            real_shift if c.pse_shift_optional else None,  # pse_shift_optional
            drop_mask if c.drop_mask_optional else None,  # drop_mask_optional
            None,  # padding_mask_optional
            attn_mask if c.atten_mask_optional else None,  # atten_mask_optional
            softmax_max,  # softmax_max_optional
            softmax_sum,  # softmax_sum_optional
            None,  # softmax_in_optional
            attention_in,  # attention_in_optional
            c.prefix_optional,
            c.actual_seq_q_len_optional,
            c.actual_seq_kv_len_optional,
            c.q_start_idx_optional,
            c.kv_start_idx_optional,
            sink if c.sink_optional else None,  # sink_optional
            c.q_offset_optional,
            softmax_sum_grad if c.softmax_sum_grad_optional else None,  # softmax_sum_grad_optional
            c.scale_value,
            c.keep_prob,
            c.pre_tokens,
            c.next_tokens,
            c.head_num,
            c.input_layout,
            0,  # inner_precise
            c.sparse_mode,
            c.pse_type,
            c.compress_block_size,
            c.compress_stride,
            c.pse_grad,
        )
        return (out[0], out[1], out[2], out[3], out[4])

    return call


def aclnn_bprop_of_flash_attention_score_grad(
    bprop: Any, c: FlashAttentionScoreGradArguments
) -> Any:
    """Make the bprop of the aclnn function from that of FlashAttentionScoreGrad."""
    placeholder = absent()

    def backward(
        query,
        key_in,
        value,
        dy,
        pse_shift_optional,
        drop_mask_optional,
        padding_mask_optional,
        atten_mask_optional,
        softmax_max_optional,
        softmax_sum_optional,
        softmax_in_optional,
        attention_in_optional,
        prefix_optional,
        actual_seq_q_len_optional,
        actual_seq_kv_len_optional,
        q_start_idx_optional,
        kv_start_idx_optional,
        sink_optional,
        q_offset_optional,
        softmax_sum_grad_optional,
        scale_value,
        keep_prob,
        pre_tokens,
        next_tokens,
        head_num,
        input_layout,
        inner_precise,
        sparse_mode,
        pse_type,
        compress_block_size,
        compress_stride,
        pse_grad,
        out,
        dout,
    ):
        gradients = bprop(
            query,
            key_in,
            value,
            dy,
            pse_shift_optional if c.pse_shift_optional else placeholder,
            drop_mask_optional if c.drop_mask_optional else placeholder,
            atten_mask_optional if c.atten_mask_optional else placeholder,
            softmax_max_optional,
            softmax_sum_optional,
            attention_in_optional,
            placeholder,
            placeholder,
            placeholder,
            sink_optional if c.sink_optional else placeholder,
            placeholder,
            softmax_sum_grad_optional if c.softmax_sum_grad_optional else placeholder,
            placeholder,
            placeholder,
            (out[0], out[1], out[2], out[3], out[4]),
            (dout[0], dout[1], dout[2], dout[3], dout[4]),
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            gradients[3],
            gradients[4] if c.pse_shift_optional else pse_shift_optional,
            gradients[5] if c.drop_mask_optional else drop_mask_optional,
            padding_mask_optional,
            gradients[6] if c.atten_mask_optional else atten_mask_optional,
            gradients[7],
            gradients[8],
            softmax_in_optional,
            gradients[9],
            prefix_optional,
            actual_seq_q_len_optional,
            actual_seq_kv_len_optional,
            q_start_idx_optional,
            kv_start_idx_optional,
            gradients[13] if c.sink_optional else sink_optional,
            q_offset_optional,
            gradients[15] if c.softmax_sum_grad_optional else softmax_sum_grad_optional,
            scale_value,
            keep_prob,
            pre_tokens,
            next_tokens,
            head_num,
            input_layout,
            inner_precise,
            sparse_mode,
            pse_type,
            compress_block_size,
            compress_stride,
            pse_grad,
        )

    return backward


class NsaCacheStepArguments(NamedTuple):
    """What the aclnn function of NsaCacheStep is called with, beside Tensors."""

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
        query,
        key,
        value,
        selected,
        state,
        actual_seq_len,
        gates,
        weight_k,
        weight_v,
        position_k,
        position_v,
        others,
        angles,
        fine_angles,
    ):
        out = custom(
            query,
            key,
            value,
            selected,  # selected_ref
            state,  # state_ref
            listed(actual_seq_len, c.actual_seq_len_optional),  # actual_seq_len_optional
            gates if c.gates_optional else None,  # gates_optional
            weight_k if c.weight_k_optional else None,  # weight_k_optional
            weight_v if c.weight_v_optional else None,  # weight_v_optional
            position_k if c.position_k_optional else None,  # position_k_optional
            position_v if c.position_v_optional else None,  # position_v_optional
            others if c.others_ref else None,  # others_ref
            angles if c.angles else None,  # angles
            fine_angles if c.fine_angles else None,  # fine_angles
            c.scale_value,
            c.theta,
            c.rope_factor,
            c.rope_low,
            c.rope_high,
            c.shared_kv,
            c.window_size,
            c.rollback,
            c.compress_block_size,
            c.compress_stride,
            c.select_block_size,
            c.select_block_count,
            c.init_blocks,
            c.local_blocks,
            c.importance,
            c.layer,
        )
        return out

    return call


def aclnn_bprop_of_nsa_cache_step(bprop: Any, c: NsaCacheStepArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCacheStep."""
    placeholder = absent()

    def backward(
        query,
        key,
        value,
        selected_ref,
        state_ref,
        actual_seq_len_optional,
        gates_optional,
        weight_k_optional,
        weight_v_optional,
        position_k_optional,
        position_v_optional,
        others_ref,
        angles,
        fine_angles,
        scale_value,
        theta,
        rope_factor,
        rope_low,
        rope_high,
        shared_kv,
        window_size,
        rollback,
        compress_block_size,
        compress_stride,
        select_block_size,
        select_block_count,
        init_blocks,
        local_blocks,
        importance,
        layer,
        out,
        dout,
    ):
        gradients = bprop(
            query,
            key,
            value,
            selected_ref,
            state_ref,
            actual_seq_len_optional if c.actual_seq_len_optional is not None else placeholder,
            gates_optional if c.gates_optional else placeholder,
            weight_k_optional if c.weight_k_optional else placeholder,
            weight_v_optional if c.weight_v_optional else placeholder,
            position_k_optional if c.position_k_optional else placeholder,
            position_v_optional if c.position_v_optional else placeholder,
            others_ref if c.others_ref else placeholder,
            angles if c.angles else placeholder,
            fine_angles if c.fine_angles else placeholder,
            out,
            dout,
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            gradients[3],
            gradients[4],
            gradients[5] if c.actual_seq_len_optional is not None else actual_seq_len_optional,
            gradients[6] if c.gates_optional else gates_optional,
            gradients[7] if c.weight_k_optional else weight_k_optional,
            gradients[8] if c.weight_v_optional else weight_v_optional,
            gradients[9] if c.position_k_optional else position_k_optional,
            gradients[10] if c.position_v_optional else position_v_optional,
            gradients[11] if c.others_ref else others_ref,
            gradients[12] if c.angles else angles,
            gradients[13] if c.fine_angles else fine_angles,
            scale_value,
            theta,
            rope_factor,
            rope_low,
            rope_high,
            shared_kv,
            window_size,
            rollback,
            compress_block_size,
            compress_stride,
            select_block_size,
            select_block_count,
            init_blocks,
            local_blocks,
            importance,
            layer,
        )

    return backward


class NsaCompressArguments(NamedTuple):
    """What the aclnn function of NsaCompress is called with, beside Tensors."""

    act_seq_len_optional: Any
    compress_block_size: Any
    compress_stride: Any


def aclnn_nsa_compress(custom: Any, c: NsaCompressArguments) -> Any:
    """Make a function of the inputs of NsaCompress."""

    def call(
        input,
        weight,
        actual_seq_len,
    ):
        out = custom(
            input,
            weight,
            c.act_seq_len_optional,
            "TND",  # layout_optional
            c.compress_block_size,
            c.compress_stride,
            0,  # act_seq_len_type
        )
        return out

    return call


def aclnn_bprop_of_nsa_compress(bprop: Any, c: NsaCompressArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompress."""
    placeholder = absent()

    def backward(
        input,
        weight,
        act_seq_len_optional,
        layout_optional,
        compress_block_size,
        compress_stride,
        act_seq_len_type,
        out,
        dout,
    ):
        gradients = bprop(
            input,
            weight,
            placeholder,
            out,
            dout,
        )
        return (
            gradients[0],
            gradients[1],
            act_seq_len_optional,
            layout_optional,
            compress_block_size,
            compress_stride,
            act_seq_len_type,
        )

    return backward


class NsaCompressAttentionArguments(NamedTuple):
    """What the aclnn function of NsaCompressAttention is called with, beside Tensors."""

    atten_mask_optional: Any
    topk_mask_optional: Any
    actual_seq_q_len_optional: Any
    actual_cmp_seq_kv_len_optional: Any
    actual_sel_seq_kv_len_optional: Any
    q_offset_optional: Any
    scale_value: Any
    head_num: Any
    compress_block_size: Any
    compress_stride: Any
    select_block_size: Any
    select_block_count: Any
    causal: Any
    init_blocks: Any
    local_blocks: Any
    importance: Any


def aclnn_nsa_compress_attention(custom: Any, c: NsaCompressAttentionArguments) -> Any:
    """Make a function of the inputs of NsaCompressAttention."""

    def call(
        query,
        key,
        value,
        topk_mask,
        atten_mask,
        actual_seq_qlen,
        actual_cmp_seq_kvlen,
        actual_sel_seq_kvlen,
        q_offset,
    ):
        out = custom(
            query,
            key,
            value,
            atten_mask if c.atten_mask_optional else None,  # atten_mask_optional
            topk_mask if c.topk_mask_optional else None,  # topk_mask_optional
            c.actual_seq_q_len_optional,
            c.actual_cmp_seq_kv_len_optional,
            c.actual_sel_seq_kv_len_optional,
            c.q_offset_optional,
            c.scale_value,
            c.head_num,
            "TND",  # input_layout_optional
            0,  # sparse_mode
            c.compress_block_size,
            c.compress_stride,
            c.select_block_size,
            c.select_block_count,
            c.causal,
            c.init_blocks,
            c.local_blocks,
            c.importance,
        )
        return (out[2], out[3], out[0], out[1])

    return call


def aclnn_bprop_of_nsa_compress_attention(bprop: Any, c: NsaCompressAttentionArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompressAttention."""
    placeholder = absent()

    def backward(
        query,
        key,
        value,
        atten_mask_optional,
        topk_mask_optional,
        actual_seq_q_len_optional,
        actual_cmp_seq_kv_len_optional,
        actual_sel_seq_kv_len_optional,
        q_offset_optional,
        scale_value,
        head_num,
        input_layout_optional,
        sparse_mode,
        compress_block_size,
        compress_stride,
        select_block_size,
        select_block_count,
        causal,
        init_blocks,
        local_blocks,
        importance,
        out,
        dout,
    ):
        gradients = bprop(
            query,
            key,
            value,
            topk_mask_optional if c.topk_mask_optional else placeholder,
            atten_mask_optional if c.atten_mask_optional else placeholder,
            placeholder,
            placeholder,
            placeholder,
            placeholder,
            (out[2], out[3], out[0], out[1]),
            (dout[2], dout[3], dout[0], dout[1]),
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            gradients[4] if c.atten_mask_optional else atten_mask_optional,
            gradients[3] if c.topk_mask_optional else topk_mask_optional,
            actual_seq_q_len_optional,
            actual_cmp_seq_kv_len_optional,
            actual_sel_seq_kv_len_optional,
            q_offset_optional,
            scale_value,
            head_num,
            input_layout_optional,
            sparse_mode,
            compress_block_size,
            compress_stride,
            select_block_size,
            select_block_count,
            causal,
            init_blocks,
            local_blocks,
            importance,
        )

    return backward


class NsaCompressAttentionInferArguments(NamedTuple):
    """What the aclnn function of NsaCompressAttentionInfer is called with, beside Tensors."""

    block_table_optional: Any
    actual_seq_q_len_optional: Any
    actual_cmp_seq_kv_len: Any
    actual_sel_seq_kv_len_optional: Any
    scale_value: Any
    head_num: Any
    key_value_head_num: Any
    select_block_size: Any
    select_block_count: Any
    page_block_size: Any
    compress_block_size: Any
    compress_stride: Any
    layout: Any
    init_blocks: Any
    local_blocks: Any
    importance: Any


def aclnn_nsa_compress_attention_infer(custom: Any, c: NsaCompressAttentionInferArguments) -> Any:
    """Make a function of the inputs of NsaCompressAttentionInfer."""

    def call(
        query,
        key,
        value,
        block_table,
        actual_seq_qlen,
        actual_cmp_seq_kvlen,
        actual_sel_seq_kvlen,
    ):
        out = custom(
            query,
            key,
            value,
            block_table if c.block_table_optional else None,  # block_table_optional
            listed(actual_seq_qlen, c.actual_seq_q_len_optional),  # actual_seq_q_len_optional
            listed(actual_cmp_seq_kvlen, c.actual_cmp_seq_kv_len),  # actual_cmp_seq_kv_len
            listed(
                actual_sel_seq_kvlen, c.actual_sel_seq_kv_len_optional
            ),  # actual_sel_seq_kv_len_optional
            c.scale_value,
            c.head_num,
            c.key_value_head_num,
            c.select_block_size,
            c.select_block_count,
            c.page_block_size,
            c.compress_block_size,
            c.compress_stride,
            c.layout,
            c.init_blocks,
            c.local_blocks,
            c.importance,
        )
        return (out[0], out[1])

    return call


def aclnn_bprop_of_nsa_compress_attention_infer(
    bprop: Any, c: NsaCompressAttentionInferArguments
) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompressAttentionInfer."""
    placeholder = absent()

    def backward(
        query,
        key,
        value,
        block_table_optional,
        actual_seq_q_len_optional,
        actual_cmp_seq_kv_len,
        actual_sel_seq_kv_len_optional,
        scale_value,
        head_num,
        key_value_head_num,
        select_block_size,
        select_block_count,
        page_block_size,
        compress_block_size,
        compress_stride,
        layout,
        init_blocks,
        local_blocks,
        importance,
        out,
        dout,
    ):
        gradients = bprop(
            query,
            key,
            value,
            block_table_optional if c.block_table_optional else placeholder,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional is not None else placeholder,
            actual_cmp_seq_kv_len if c.actual_cmp_seq_kv_len is not None else placeholder,
            actual_sel_seq_kv_len_optional
            if c.actual_sel_seq_kv_len_optional is not None
            else placeholder,
            (out[0], out[1]),
            (dout[0], dout[1]),
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            gradients[3] if c.block_table_optional else block_table_optional,
            gradients[4] if c.actual_seq_q_len_optional is not None else actual_seq_q_len_optional,
            gradients[5] if c.actual_cmp_seq_kv_len is not None else actual_cmp_seq_kv_len,
            gradients[6]
            if c.actual_sel_seq_kv_len_optional is not None
            else actual_sel_seq_kv_len_optional,
            scale_value,
            head_num,
            key_value_head_num,
            select_block_size,
            select_block_count,
            page_block_size,
            compress_block_size,
            compress_stride,
            layout,
            init_blocks,
            local_blocks,
            importance,
        )

    return backward


class NsaCompressGradArguments(NamedTuple):
    """What the aclnn function of NsaCompressGrad is called with, beside Tensors."""

    act_seq_len_optional: Any
    compress_block_size: Any
    compress_stride: Any


def aclnn_nsa_compress_grad(custom: Any, c: NsaCompressGradArguments) -> Any:
    """Make a function of the inputs of NsaCompressGrad."""

    def call(
        output_grad,
        input,
        weight,
        actual_seq_len,
    ):
        out = custom(
            output_grad,
            input,
            weight,
            c.act_seq_len_optional,
            c.compress_block_size,
            c.compress_stride,
            0,  # act_seq_len_type
            "TND",  # layout_optional
        )
        return (out[0], out[1])

    return call


def aclnn_bprop_of_nsa_compress_grad(bprop: Any, c: NsaCompressGradArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompressGrad."""
    placeholder = absent()

    def backward(
        output_grad,
        input,
        weight,
        act_seq_len_optional,
        compress_block_size,
        compress_stride,
        act_seq_len_type,
        layout_optional,
        out,
        dout,
    ):
        gradients = bprop(
            output_grad,
            input,
            weight,
            placeholder,
            (out[0], out[1]),
            (dout[0], dout[1]),
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            act_seq_len_optional,
            compress_block_size,
            compress_stride,
            act_seq_len_type,
            layout_optional,
        )

    return backward


class NsaCompressWithCacheArguments(NamedTuple):
    """What the aclnn function of NsaCompressWithCache is called with, beside Tensors."""

    slot_mapping: Any
    act_seq_len: Any
    block_table_optional: Any
    compress_block_size: Any
    compress_stride: Any
    page_block_size: Any


def aclnn_nsa_compress_with_cache(custom: Any, c: NsaCompressWithCacheArguments) -> Any:
    """Make a function of the inputs of NsaCompressWithCache."""

    def call(
        input,
        weight,
        slot_mapping,
        block_table,
        actual_seq_len,
        cache,
    ):
        out = custom(
            input,
            weight,
            listed(slot_mapping, c.slot_mapping),  # slot_mapping
            cache,  # cache_ref
            listed(actual_seq_len, c.act_seq_len),  # act_seq_len
            block_table if c.block_table_optional else None,  # block_table_optional
            "TND",  # layout_optional
            c.compress_block_size,
            c.compress_stride,
            1,  # act_seq_len_type
            c.page_block_size,
        )
        return out

    return call


def aclnn_bprop_of_nsa_compress_with_cache(bprop: Any, c: NsaCompressWithCacheArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompressWithCache."""
    placeholder = absent()

    def backward(
        input,
        weight,
        slot_mapping,
        cache_ref,
        act_seq_len,
        block_table_optional,
        layout_optional,
        compress_block_size,
        compress_stride,
        act_seq_len_type,
        page_block_size,
        out,
        dout,
    ):
        gradients = bprop(
            input,
            weight,
            slot_mapping if c.slot_mapping is not None else placeholder,
            block_table_optional if c.block_table_optional else placeholder,
            act_seq_len if c.act_seq_len is not None else placeholder,
            cache_ref,
            out,
            dout,
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2] if c.slot_mapping is not None else slot_mapping,
            gradients[5],
            gradients[4] if c.act_seq_len is not None else act_seq_len,
            gradients[3] if c.block_table_optional else block_table_optional,
            layout_optional,
            compress_block_size,
            compress_stride,
            act_seq_len_type,
            page_block_size,
        )

    return backward


class NsaDecodeArguments(NamedTuple):
    """What the aclnn function of NsaDecode is called with, beside Tensors."""

    block_table_optional: Any
    cmp_block_table_optional: Any
    actual_seq_q_len_optional: Any
    actual_seq_kv_len: Any
    scale_value: Any
    head_num: Any
    compress_block_size: Any
    compress_stride: Any
    select_block_size: Any
    select_block_count: Any
    window_size: Any
    layout: Any
    cache_layout: Any
    init_blocks: Any
    local_blocks: Any
    importance: Any


def aclnn_nsa_decode(custom: Any, c: NsaDecodeArguments) -> Any:
    """Make a function of the inputs of NsaDecode."""

    def call(
        query,
        gates,
        key_cmp,
        value_cmp,
        key_slc,
        value_slc,
        key_win,
        value_win,
        block_table,
        cmp_block_table,
        actual_seq_qlen,
        actual_seq_kvlen,
    ):
        out = custom(
            query,
            gates,
            key_cmp,
            value_cmp,
            key_slc,
            value_slc,
            key_win,
            value_win,
            block_table if c.block_table_optional else None,  # block_table_optional
            cmp_block_table if c.cmp_block_table_optional else None,  # cmp_block_table_optional
            listed(actual_seq_qlen, c.actual_seq_q_len_optional),  # actual_seq_q_len_optional
            listed(actual_seq_kvlen, c.actual_seq_kv_len),  # actual_seq_kv_len
            c.scale_value,
            c.head_num,
            c.compress_block_size,
            c.compress_stride,
            c.select_block_size,
            c.select_block_count,
            c.window_size,
            c.layout,
            c.cache_layout,
            c.init_blocks,
            c.local_blocks,
            c.importance,
        )
        return out

    return call


def aclnn_bprop_of_nsa_decode(bprop: Any, c: NsaDecodeArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaDecode."""
    placeholder = absent()

    def backward(
        query,
        gates,
        key_cmp,
        value_cmp,
        key_slc,
        value_slc,
        key_win,
        value_win,
        block_table_optional,
        cmp_block_table_optional,
        actual_seq_q_len_optional,
        actual_seq_kv_len,
        scale_value,
        head_num,
        compress_block_size,
        compress_stride,
        select_block_size,
        select_block_count,
        window_size,
        layout,
        cache_layout,
        init_blocks,
        local_blocks,
        importance,
        out,
        dout,
    ):
        gradients = bprop(
            query,
            gates,
            key_cmp,
            value_cmp,
            key_slc,
            value_slc,
            key_win,
            value_win,
            block_table_optional if c.block_table_optional else placeholder,
            cmp_block_table_optional if c.cmp_block_table_optional else placeholder,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional is not None else placeholder,
            actual_seq_kv_len if c.actual_seq_kv_len is not None else placeholder,
            out,
            dout,
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            gradients[3],
            gradients[4],
            gradients[5],
            gradients[6],
            gradients[7],
            gradients[8] if c.block_table_optional else block_table_optional,
            gradients[9] if c.cmp_block_table_optional else cmp_block_table_optional,
            gradients[10] if c.actual_seq_q_len_optional is not None else actual_seq_q_len_optional,
            gradients[11] if c.actual_seq_kv_len is not None else actual_seq_kv_len,
            scale_value,
            head_num,
            compress_block_size,
            compress_stride,
            select_block_size,
            select_block_count,
            window_size,
            layout,
            cache_layout,
            init_blocks,
            local_blocks,
            importance,
        )

    return backward


class NsaSelectedAttentionArguments(NamedTuple):
    """What the aclnn function of NsaSelectedAttention is called with, beside Tensors."""

    actual_seq_q_len_optional: Any
    actual_seq_kv_len_optional: Any
    q_offset_optional: Any
    scale_value: Any
    head_num: Any
    sparse_mode: Any
    selected_block_size: Any
    selected_block_count: Any


def aclnn_nsa_selected_attention(custom: Any, c: NsaSelectedAttentionArguments) -> Any:
    """Make a function of the inputs of NsaSelectedAttention."""

    def call(
        query,
        key,
        value,
        topk_indices,
        actual_seq_qlen,
        actual_seq_kvlen,
        q_offset,
    ):
        out = custom(
            query,
            key,
            value,
            topk_indices,
            None,  # atten_mask_optional
            c.actual_seq_q_len_optional,
            c.actual_seq_kv_len_optional,
            c.q_offset_optional,
            c.scale_value,
            c.head_num,
            "TND",  # input_layout_optional
            c.sparse_mode,
            c.selected_block_size,
            c.selected_block_count,
        )
        return (out[2], out[0], out[1])

    return call


def aclnn_bprop_of_nsa_selected_attention(bprop: Any, c: NsaSelectedAttentionArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaSelectedAttention."""
    placeholder = absent()

    def backward(
        query,
        key,
        value,
        topk_indices,
        atten_mask_optional,
        actual_seq_q_len_optional,
        actual_seq_kv_len_optional,
        q_offset_optional,
        scale_value,
        head_num,
        input_layout_optional,
        sparse_mode,
        selected_block_size,
        selected_block_count,
        out,
        dout,
    ):
        gradients = bprop(
            query,
            key,
            value,
            topk_indices,
            placeholder,
            placeholder,
            placeholder,
            (out[2], out[0], out[1]),
            (dout[2], dout[0], dout[1]),
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            gradients[3],
            atten_mask_optional,
            actual_seq_q_len_optional,
            actual_seq_kv_len_optional,
            q_offset_optional,
            scale_value,
            head_num,
            input_layout_optional,
            sparse_mode,
            selected_block_size,
            selected_block_count,
        )

    return backward


class NsaSelectedAttentionGradArguments(NamedTuple):
    """What the aclnn function of NsaSelectedAttentionGrad is called with, beside Tensors."""

    actual_seq_q_len_optional: Any
    actual_seq_kv_len_optional: Any
    q_offset_optional: Any
    softmax_sum_grad_optional: Any
    scale_value: Any
    selected_block_size: Any
    selected_block_count: Any
    head_num: Any
    sparse_mode: Any


def aclnn_nsa_selected_attention_grad(custom: Any, c: NsaSelectedAttentionGradArguments) -> Any:
    """Make a function of the inputs of NsaSelectedAttentionGrad."""

    def call(
        query,
        key,
        value,
        attention_out,
        attention_out_grad,
        softmax_max,
        softmax_sum,
        topk_indices,
        actual_seq_qlen,
        actual_seq_kvlen,
        q_offset,
        softmax_sum_grad,
    ):
        out = custom(
            query,
            key,
            value,
            attention_out,
            attention_out_grad,
            softmax_max,
            softmax_sum,
            topk_indices,
            c.actual_seq_q_len_optional,
            c.actual_seq_kv_len_optional,
            None,  # atten_mask_optional
            c.q_offset_optional,
            softmax_sum_grad if c.softmax_sum_grad_optional else None,  # softmax_sum_grad_optional
            c.scale_value,
            c.selected_block_size,
            c.selected_block_count,
            c.head_num,
            "TND",  # input_layout_optional
            c.sparse_mode,
        )
        return (out[0], out[1], out[2])

    return call


def aclnn_bprop_of_nsa_selected_attention_grad(
    bprop: Any, c: NsaSelectedAttentionGradArguments
) -> Any:
    """Make the bprop of the aclnn function from that of NsaSelectedAttentionGrad."""
    placeholder = absent()

    def backward(
        query,
        key,
        value,
        attention_out,
        attention_out_grad,
        softmax_max,
        softmax_sum,
        topk_indices,
        actual_seq_q_len_optional,
        actual_seq_kv_len_optional,
        atten_mask_optional,
        q_offset_optional,
        softmax_sum_grad_optional,
        scale_value,
        selected_block_size,
        selected_block_count,
        head_num,
        input_layout_optional,
        sparse_mode,
        out,
        dout,
    ):
        gradients = bprop(
            query,
            key,
            value,
            attention_out,
            attention_out_grad,
            softmax_max,
            softmax_sum,
            topk_indices,
            placeholder,
            placeholder,
            placeholder,
            softmax_sum_grad_optional if c.softmax_sum_grad_optional else placeholder,
            (out[0], out[1], out[2]),
            (dout[0], dout[1], dout[2]),
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            gradients[3],
            gradients[4],
            gradients[5],
            gradients[6],
            gradients[7],
            actual_seq_q_len_optional,
            actual_seq_kv_len_optional,
            atten_mask_optional,
            q_offset_optional,
            gradients[11] if c.softmax_sum_grad_optional else softmax_sum_grad_optional,
            scale_value,
            selected_block_size,
            selected_block_count,
            head_num,
            input_layout_optional,
            sparse_mode,
        )

    return backward


class NsaSelectedAttentionInferArguments(NamedTuple):
    """What the aclnn function of NsaSelectedAttentionInfer is called with, beside Tensors."""

    block_table_optional: Any
    actual_seq_q_len_optional: Any
    actual_seq_kv_len: Any
    scale_value: Any
    head_num: Any
    key_value_head_num: Any
    select_block_size: Any
    select_block_count: Any
    page_block_size: Any
    layout: Any


def aclnn_nsa_selected_attention_infer(custom: Any, c: NsaSelectedAttentionInferArguments) -> Any:
    """Make a function of the inputs of NsaSelectedAttentionInfer."""

    def call(
        query,
        key,
        value,
        topk_indices,
        block_table,
        actual_seq_qlen,
        actual_seq_kvlen,
    ):
        out = custom(
            query,
            key,
            value,
            topk_indices,
            block_table if c.block_table_optional else None,  # block_table_optional
            listed(actual_seq_qlen, c.actual_seq_q_len_optional),  # actual_seq_q_len_optional
            listed(actual_seq_kvlen, c.actual_seq_kv_len),  # actual_seq_kv_len
            c.scale_value,
            c.head_num,
            c.key_value_head_num,
            c.select_block_size,
            c.select_block_count,
            c.page_block_size,
            c.layout,
        )
        return out

    return call


def aclnn_bprop_of_nsa_selected_attention_infer(
    bprop: Any, c: NsaSelectedAttentionInferArguments
) -> Any:
    """Make the bprop of the aclnn function from that of NsaSelectedAttentionInfer."""
    placeholder = absent()

    def backward(
        query,
        key,
        value,
        topk_indices,
        block_table_optional,
        actual_seq_q_len_optional,
        actual_seq_kv_len,
        scale_value,
        head_num,
        key_value_head_num,
        select_block_size,
        select_block_count,
        page_block_size,
        layout,
        out,
        dout,
    ):
        gradients = bprop(
            query,
            key,
            value,
            topk_indices,
            block_table_optional if c.block_table_optional else placeholder,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional is not None else placeholder,
            actual_seq_kv_len if c.actual_seq_kv_len is not None else placeholder,
            out,
            dout,
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            gradients[3],
            gradients[4] if c.block_table_optional else block_table_optional,
            gradients[5] if c.actual_seq_q_len_optional is not None else actual_seq_q_len_optional,
            gradients[6] if c.actual_seq_kv_len is not None else actual_seq_kv_len,
            scale_value,
            head_num,
            key_value_head_num,
            select_block_size,
            select_block_count,
            page_block_size,
            layout,
        )

    return backward


ACLNN: dict[str, Any] = {
    "FlashAttentionScore": (
        FlashAttentionScoreArguments,
        aclnn_flash_attention_score,
        aclnn_bprop_of_flash_attention_score,
    ),
    "FlashAttentionScoreGrad": (
        FlashAttentionScoreGradArguments,
        aclnn_flash_attention_score_grad,
        aclnn_bprop_of_flash_attention_score_grad,
    ),
    "NsaCacheStep": (NsaCacheStepArguments, aclnn_nsa_cache_step, aclnn_bprop_of_nsa_cache_step),
    "NsaCompress": (NsaCompressArguments, aclnn_nsa_compress, aclnn_bprop_of_nsa_compress),
    "NsaCompressAttention": (
        NsaCompressAttentionArguments,
        aclnn_nsa_compress_attention,
        aclnn_bprop_of_nsa_compress_attention,
    ),
    "NsaCompressAttentionInfer": (
        NsaCompressAttentionInferArguments,
        aclnn_nsa_compress_attention_infer,
        aclnn_bprop_of_nsa_compress_attention_infer,
    ),
    "NsaCompressGrad": (
        NsaCompressGradArguments,
        aclnn_nsa_compress_grad,
        aclnn_bprop_of_nsa_compress_grad,
    ),
    "NsaCompressWithCache": (
        NsaCompressWithCacheArguments,
        aclnn_nsa_compress_with_cache,
        aclnn_bprop_of_nsa_compress_with_cache,
    ),
    "NsaDecode": (NsaDecodeArguments, aclnn_nsa_decode, aclnn_bprop_of_nsa_decode),
    "NsaSelectedAttention": (
        NsaSelectedAttentionArguments,
        aclnn_nsa_selected_attention,
        aclnn_bprop_of_nsa_selected_attention,
    ),
    "NsaSelectedAttentionGrad": (
        NsaSelectedAttentionGradArguments,
        aclnn_nsa_selected_attention_grad,
        aclnn_bprop_of_nsa_selected_attention_grad,
    ),
    "NsaSelectedAttentionInfer": (
        NsaSelectedAttentionInferArguments,
        aclnn_nsa_selected_attention_infer,
        aclnn_bprop_of_nsa_selected_attention_infer,
    ),
}
