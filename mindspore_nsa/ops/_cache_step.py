"""One step of a layer with a cache: its new tokens are written, then attend."""

from functools import lru_cache

from ._custom import CACHE_SIZE, native_custom
from ._gradient import no_gradient_text, refuse_each
from ._plan import NativeCall, Planner, passed

_FUNCTION = "nsa_cache_step"


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs):
    text = no_gradient_text(_FUNCTION, "the layer without a cache")

    def bprop(
        query,
        key,
        value,
        key_slc,
        value_slc,
        lengths,
        written,
        actual_seq_len,
        gates,
        weight_k,
        weight_v,
        position_k,
        position_v,
        key_cmp,
        value_cmp,
        key_win,
        value_win,
        key_raw,
        value_raw,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (query, key, value, key_slc, value_slc, lengths, written, actual_seq_len, gates,
             weight_k, weight_v, position_k, position_v, key_cmp, value_cmp, key_win, value_win,
             key_raw, value_raw),
        )  # fmt: skip

    operator = native_custom("NsaCacheStep", attrs, bprop)
    # Writes the caches and lengths: no compiler may drop, merge or reorder such calls.
    operator.add_prim_attr("side_effect_mem", True)
    return operator


def _plan_call(**given):
    call = NativeCall("NsaCacheStep", given)
    call.infer()
    return _operator(call.text()), call.constants


_plan_nsa_cache_step = Planner(_plan_call, _FUNCTION, op="NsaCacheStep")


def nsa_cache_step(
    query,
    key,
    value,
    key_slc,
    value_slc,
    lengths,
    written,
    actual_seq_len,
    scale_value,
    theta,
    window_size,
    gates=None,
    weight_k=None,
    weight_v=None,
    position_k=None,
    position_v=None,
    key_cmp=None,
    value_cmp=None,
    key_win=None,
    value_win=None,
    key_raw=None,
    value_raw=None,
    compress_block_size=1,
    compress_stride=1,
    select_block_size=1,
    select_block_count=1,
    init_blocks=0,
    local_blocks=0,
    importance="overlap",
):
    """Attention [T, N1, Dv] of new tokens, which go into the caches; infer/nsa_cache_step.h."""
    operator, constants = _plan_nsa_cache_step(
        query,
        key,
        value,
        key_slc,
        value_slc,
        lengths,
        written,
        actual_seq_len,
        scale_value,
        theta,
        window_size,
        gates,
        weight_k,
        weight_v,
        position_k,
        position_v,
        key_cmp,
        value_cmp,
        key_win,
        value_win,
        key_raw,
        value_raw,
        compress_block_size,
        compress_stride,
        select_block_size,
        select_block_count,
        init_blocks,
        local_blocks,
        importance,
    )
    return operator(
        query,
        key,
        value,
        key_slc,
        value_slc,
        lengths,
        written,
        passed(actual_seq_len, constants["actual_seq_len"]),
        passed(gates, constants["gates"]),
        passed(weight_k, constants["weight_k"]),
        passed(weight_v, constants["weight_v"]),
        passed(position_k, constants["position_k"]),
        passed(position_v, constants["position_v"]),
        passed(key_cmp, constants["key_cmp"]),
        passed(value_cmp, constants["value_cmp"]),
        passed(key_win, constants["key_win"]),
        passed(value_win, constants["value_win"]),
        passed(key_raw, constants["key_raw"]),
        passed(value_raw, constants["value_raw"]),
    )
