"""The arithmetic of the layers between their operators, as native operators on a CPU.

A function gives None where the target has no kernel of this, and the layer computes the same with
MindSpore's operators. They are no operators of their own: a layer makes their arguments fit.
"""

from functools import lru_cache
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops

from .. import _native
from ._custom import CACHE_SIZE, absent, encode_attrs, native_custom, planned_target
from ._gradient import gradient_operator
from ._operands import zero_gradient
from ._plan import DTYPE_NAMES, NativeCall, Planner

_SPLIT, _MIX, _ROUND = "nsa_split_heads", "nsa_mix_branches", "nsa_round"
_LINEAR, _PROJECTION = "nsa_linear", "nsa_projection"
# Instruction sets whose own products of many rows are used, by the dtype of operands. Of floats
# they take as long as MindSpore's at their best, keep operands in their dtype for the gradients,
# and give the same bits for any number of threads; MindSpore's took twice as long after a pause on
# two processors, one of which waited in a loop.
_VECTORS = ("avx2", "avx512", "avx512_bf16", "avx512_amx")
_MULTIPLIES = {mindspore.bfloat16: _VECTORS, mindspore.float32: _VECTORS}
# Rows that a linear map reads the weights for without rounding them beforehand. Of 1024 times 8192
# weights it took less time than rounding and MindSpore's product up to 48 rows, more from 64 on.
FEW_ROWS = 32
_WEIGHTS = ("weight", "weight_1", "weight_2")
_GRADIENTS = tuple(
    f"{part}_{branch}_grad"
    for part in ("query", "key", "value")
    for branch in ("cmp", "slc", "win")
)


def _call(op: str, given: dict[str, Any], dtype: Any = None) -> Any:
    """The checked call of an operator, or None where the target is not the CPU."""
    if planned_target.get() != "cpu":
        return None
    if dtype is not None:
        given = {**given, "dtype": DTYPE_NAMES[dtype]}
    call = NativeCall(op, given)
    call.infer()
    return call


@lru_cache(maxsize=CACHE_SIZE)
def _split_operator(attrs: Any, gradient_attrs: str, branches: Any) -> Any:
    gradient = gradient_operator("NsaSplitHeadsGrad", gradient_attrs, _SPLIT).custom
    nothing = absent()

    def bprop(
        query: Any, key_value: Any, cos: Any, sin: Any, out: Any, dout: Any
    ) -> tuple[Any, ...]:
        # With one branch the other gradients are those of placeholders.
        if branches == 3:
            parts = gradient(
                dout[0], dout[1], dout[2], dout[3], dout[4], dout[5], dout[6], dout[7], dout[8],
                cos, sin,
            )  # fmt: skip
        else:
            parts = gradient(
                dout[0], nothing, nothing, dout[3], nothing, nothing, dout[6], nothing, nothing,
                cos, sin,
            )  # fmt: skip
        return parts[0], parts[1], zero_gradient(cos, True), zero_gradient(sin, True)

    return native_custom("NsaSplitHeads", attrs, bprop)


def _plan_split(dtype: Any, **given: Any) -> Any:
    call = _call("NsaSplitHeads", given, dtype)
    if call is None:
        return None
    branches = given["branches"]
    names = [name for i, name in enumerate(_GRADIENTS) if i % 3 < branches]
    sizes = {name: value for name, value in call.attrs.items() if name != "dtype"}
    return _split_operator(call.text(), encode_attrs("NsaSplitHeadsGrad", sizes, names), branches)


def nsa_split_heads(
    query: Tensor,
    key_value: Tensor,
    cos: Tensor,
    sin: Tensor,
    dtype: Any,
    branches: Any,
    head_num: int,
    kv_head_num: int,
    head_dim: int,
    value_head_dim: int,
) -> Any:
    """Three times the queries, then keys and values of three branches, rotated, in `dtype`.

    infer/nsa_split_heads.h says which are used. The compressed branch's keys are not rotated.
    """
    operator = _plan_split_heads(
        query,
        key_value,
        cos,
        sin,
        dtype,
        branches,
        head_num,
        kv_head_num,
        head_dim,
        value_head_dim,
    )
    if operator is None:
        return None
    return operator(query, key_value, cos, sin)


_plan_split_heads = Planner(_plan_split, nsa_split_heads)


@lru_cache(maxsize=CACHE_SIZE)
def _mix_operator(attrs: Any, gradient_attrs: str) -> Any:
    gradient = gradient_operator("NsaMixBranchesGrad", gradient_attrs, _MIX).custom

    def bprop(logits: Any, compressed: Any, selected: Any, window: Any, out: Any, dout: Any) -> Any:
        return gradient(dout, logits, compressed, selected, window)

    return native_custom("NsaMixBranches", attrs, bprop)


def _plan_mix(dtype: Any, residual: Any, **given: Any) -> Any:
    attrs = {"residual": residual}
    call = _call("NsaMixBranches", {**given, **attrs}, dtype)
    if call is None:
        return None
    return _mix_operator(call.text(), encode_attrs("NsaMixBranchesGrad", attrs))


def nsa_mix_branches(
    logits: Tensor,
    compressed: Tensor,
    selected: Tensor,
    window: Tensor,
    dtype: Any = mindspore.float32,
    residual: bool = False,
) -> Any:
    """The branches [T, N1, Dv], weighted by the sigmoid of logits [T, 3 N1] and added.

    With `residual` by twice the sigmoid, less 1 for all branches but the selected one.

    Added in float32 and rounded to the dtype of the branches, in which or in float32 they are
    given: `dtype`.
    """
    operator = _plan_mix_branches(logits, compressed, selected, window, dtype, residual)
    if operator is None:
        return None
    return operator(logits, compressed, selected, window)


_plan_mix_branches = Planner(_plan_mix, nsa_mix_branches)


@lru_cache(maxsize=CACHE_SIZE)
def _round_operator(attrs: Any) -> Any:
    def bprop(x: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        return (dout,)

    return native_custom("NsaRound", attrs, bprop)


def _plan_rounding(x: Any, dtype: Any) -> Any:
    if x.dtype != mindspore.float32 or dtype == mindspore.float32:
        return None
    call = _call("NsaRound", {"x": x}, dtype)
    return None if call is None else _round_operator(call.text())


def nsa_round(x: Tensor, dtype: Any) -> Any:
    """A float32 Tensor with its values rounded to a dtype; the gradient passes through."""
    operator = _plan_round(x, dtype)
    if operator is None:
        return None
    return operator(x)


_plan_round = Planner(_plan_rounding, nsa_round)


@lru_cache(maxsize=CACHE_SIZE)
def _linear_operator(attrs: Any, dtype: Any) -> Any:
    def bprop(x: Any, weight: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        values = ops.cast(ops.cast(weight, dtype), mindspore.float32)
        slope = ops.matmul(ops.transpose(dout, (1, 0)), x)
        return ops.matmul(dout, values), ops.cast(slope, weight.dtype)

    return native_custom("NsaLinear", attrs, bprop)


def _plan_few_rows(x: Any, weight: Any, dtype: Any) -> Any:
    rows = x.shape[0] if x.shape else -1
    if x.dtype != mindspore.float32 or not 1 <= rows <= FEW_ROWS:
        return None
    call = _call("NsaLinear", {"x": x, "weight": weight}, dtype)
    return None if call is None else _linear_operator(call.text(), dtype)


def nsa_linear(x: Tensor, weight: Tensor, dtype: Any) -> Any:
    """x [T, K] times the transpose of weight [N, K], rounded to a dtype; summed in float32.

    None also where `x` has many rows, or a number that is not known.
    """
    operator = _plan_linear(x, weight, dtype)
    if operator is None:
        return None
    return operator(x, weight)


_plan_linear = Planner(_plan_few_rows, nsa_linear)


def _multiplies(dtype: Any) -> Any:
    return _native.isa() in _MULTIPLIES.get(dtype, ()) and planned_target.get() == "cpu"


def _projects(x: Tensor, dtype: Any) -> Any:
    known = -1 not in x.shape
    return known and int(np.prod(x.shape[:-1])) > FEW_ROWS and _multiplies(dtype)


def projects(x: Tensor, dtype: Any) -> Any:
    """Whether the products of x [..., K] have operands of a dtype, and may be given such.

    MindSpore's own operators for tensors of unknown shapes do not take bfloat16.
    """
    return _plan_projects(x, dtype)


_plan_projects = Planner(_projects, projects)


@lru_cache(maxsize=CACHE_SIZE)
def _projection_operator(attrs: Any, gradient_attrs: str, count: int) -> Any:
    of_x, of_weights = "NsaProjectionInputGrad", "NsaProjectionWeightGrad"
    input_gradient = gradient_operator(of_x, gradient_attrs, _PROJECTION).custom
    weight_gradient = gradient_operator(of_weights, gradient_attrs, _PROJECTION).custom
    nothing = absent()

    def bprop(
        x: Any, weight: Any, weight_1: Any, weight_2: Any, out: Any, dout: Any
    ) -> tuple[Any, ...]:
        # The other gradients are those of placeholders.
        dy_1 = dout[1] if count > 1 else nothing
        dy_2 = dout[2] if count > 2 else nothing
        dx = input_gradient(dout[0], dy_1, dy_2, weight, weight_1, weight_2, x)
        slopes = weight_gradient(dout[0], dy_1, dy_2, weight, weight_1, weight_2, x)
        return dx, slopes[0], slopes[1], slopes[2]

    return native_custom("NsaProjection", attrs, bprop)


def _plan_product(dtype: Any, result: Any, **given: Any) -> tuple[Any, ...] | None:
    shape = given["x"].shape
    rows = -1 if -1 in shape else int(np.prod(shape)) // given["weight"].shape[1]
    if not _multiplies(dtype) or 0 <= rows <= FEW_ROWS:
        return None
    operands = DTYPE_NAMES[dtype]
    call = _call("NsaProjection", {**given, "operands": operands}, result)
    if call is None:
        return None
    count = sum(given[name] is not None for name in _WEIGHTS)
    gradients = tuple(f"{name}_grad" for name in ("y", "y_1", "y_2")[:count])
    attrs = {"operands": operands}
    gradient_attrs = encode_attrs("NsaProjectionInputGrad", attrs, (*gradients, *_WEIGHTS[:count]))
    return _projection_operator(call.text(), gradient_attrs, count), call.casts["weight"]


def nsa_projection(
    x: Tensor,
    weight: Tensor,
    weight_1: Tensor,
    weight_2: Tensor,
    dtype: Any,
    result: Any,
    batch: int = 0,
) -> Any:
    """x [T, K] times the transposes of up to three weights [N, K], a tuple of three.

    Operands and the gradients of the products are rounded to `dtype`, the sums are float32, rounded
    to `result`. Weights come in order, None for those that are not there, for which the tuple holds
    placeholders. x may have more dimensions, as infer/nsa_projection.h says, and with a `batch` the
    products are [batch, T / batch, N]. None where there is no such product, or few rows.
    """
    planned = _plan_projection(x, weight, weight_1, weight_2, dtype, result, batch)
    if planned is None:
        return None
    operator, widest = planned
    if widest is not None:
        weight, weight_1 = ops.cast(weight, widest), ops.cast(weight_1, widest)
        weight_2 = None if weight_2 is None else ops.cast(weight_2, widest)
    return operator(
        x,
        weight,
        absent() if weight_1 is None else weight_1,
        absent() if weight_2 is None else weight_2,
    )


_plan_projection = Planner(_plan_product, nsa_projection)
