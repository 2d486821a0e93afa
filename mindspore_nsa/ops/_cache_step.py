"""One step of a layer with a cache: its new tokens are written, then attend."""

from functools import lru_cache
from typing import Any

from mindspore import Tensor
from mindspore.ops import zeros

from ._custom import planned_target
from ._in_place import InPlace
from ._plan import NativeCall, Planner, TensorSpec
from ._types import IntList
from .generated.nsa_cache_step import call_nsa_cache_step

_OP = "NsaCacheStep"
_FUNCTION = "nsa_cache_step"


def _plan_call(**given: Any) -> tuple[Any, ...]:
    placeholder = None
    if planned_target.get() == "cpu":
        # It has sines of its own.
        given["angles"] = given["fine_angles"] = None
    elif given["others"] is None:
        # A Tensor that is written cannot be absent there.
        dtype = given["selected"].dtype
        placeholder = _placeholder(dtype)
        given["others"] = TensorSpec((dtype, placeholder.shape, None))
    call = NativeCall(_OP, given, cast=False)
    call.infer()
    if placeholder is not None:
        call.constants["others"] = placeholder
    return call.text(), call.stand_ins()


@lru_cache
def _placeholder(dtype: Any) -> Any:
    return zeros((1, 1, 1, 1), dtype)


_in_place_nsa_cache_step = InPlace(
    _OP, "the layer without a cache", ("selected", "state", "others"), compares=False
)


def nsa_cache_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    selected: Tensor,
    state: Any,
    actual_seq_len: IntList,
    gates: Tensor | None = None,
    weight_k: Tensor | None = None,
    weight_v: Tensor | None = None,
    position_k: Tensor | None = None,
    position_v: Tensor | None = None,
    others: Any = None,
    angles: Tensor | None = None,
    fine_angles: Tensor | None = None,
    *,
    scale_value: float,
    theta: float,
    rope_factor: float,
    rope_low: float,
    rope_high: float,
    window_size: int,
    shared_kv: bool = False,
    rollback: int = 0,
    compress_block_size: int = 1,
    compress_stride: int = 1,
    select_block_size: int = 1,
    select_block_count: int = 1,
    init_blocks: int = 0,
    local_blocks: int = 0,
    importance: str = "cann",
    layer: int = 0,
) -> Any:
    """Attention [T, N1, Dv] of new tokens, which go into the caches; infer/nsa_cache_step.h."""
    text, c = _plan_nsa_cache_step(
        query, key, value, selected, state, actual_seq_len, gates, weight_k, weight_v, position_k,
        position_v, others, angles, fine_angles, scale_value, theta, rope_factor, rope_low,
        rope_high, window_size, shared_kv, rollback, compress_block_size, compress_stride,
        select_block_size, select_block_count, init_blocks, local_blocks, importance, layer
    )  # fmt: skip
    written = (selected, state) if others is None else (selected, state, others)
    operator, mark = _in_place_nsa_cache_step(text, *written)
    if mark is not None:
        mark(*written)
    return call_nsa_cache_step(
        operator,
        c,
        query=query,
        key=key,
        value=value,
        selected=selected,
        state=state,
        actual_seq_len=actual_seq_len,
        gates=gates,
        weight_k=weight_k,
        weight_v=weight_v,
        position_k=position_k,
        position_v=position_v,
        others=others,
        angles=angles,
        fine_angles=fine_angles,
    )


_plan_nsa_cache_step = Planner(_plan_call, nsa_cache_step, op=_OP)
