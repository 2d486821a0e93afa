"""Calls of NsaCompress and NsaCompressGrad.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._custom import absent
from .._operands import host_list, in_dtype, passed, zero_gradient


class NsaCompressStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaCompress."""

    input_dtype: Any
    weight_dtype: Any
    actual_seq_len: Any


def call_nsa_compress(
    operator: Any, c: NsaCompressStandIns, input: Tensor, weight: Tensor, actual_seq_len: Any,
) -> Any:
    """Call NsaCompress."""
    (input_dtype, weight_dtype, actual_seq_len_stand_in) = c
    return operator(
        in_dtype(input, input_dtype), in_dtype(weight, weight_dtype),
        passed(actual_seq_len, actual_seq_len_stand_in),
    )


class NsaCompressGiven(NamedTuple):
    """Inputs that the bprop of NsaCompress is given."""

    actual_seq_len: bool


def bprop_of_nsa_compress(gradient: Any, given: NsaCompressGiven) -> Any:
    """Make the bprop of NsaCompress from NsaCompressGrad."""

    def bprop(input: Any, weight: Any, actual_seq_len: Any, out: Any, dout: Any) -> Any:
        gradients = gradient(
            dout,  # output_grad
            input, weight, actual_seq_len,
        )
        return (gradients[0], gradients[1], zero_gradient(actual_seq_len, given.actual_seq_len))

    return bprop


class NsaCompressArguments(NamedTuple):
    """Arguments of the aclnn function of NsaCompress that the host knows."""

    act_seq_len_optional: Any
    compress_block_size: Any
    compress_stride: Any


def aclnn_nsa_compress(custom: Any, c: NsaCompressArguments) -> Any:
    """Make a function of the inputs of NsaCompress."""

    def call(input: Any, weight: Any, actual_seq_len: Any) -> Any:
        out = custom(
            input, weight, host_list(actual_seq_len, c.act_seq_len_optional),
            "TND",  # layout_optional
            c.compress_block_size, c.compress_stride,
            0,  # act_seq_len_type
        )
        return out

    return call


def aclnn_bprop_of_nsa_compress(bprop: Any, c: NsaCompressArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompress."""
    placeholder = absent()

    def backward(
        input: Any, weight: Any, act_seq_len_optional: Any, layout_optional: Any,
        compress_block_size: Any, compress_stride: Any, act_seq_len_type: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            input, weight, act_seq_len_optional if c.act_seq_len_optional else placeholder, out,
            dout,
        )
        return (
            gradients[0], gradients[1],
            gradients[2] if c.act_seq_len_optional else act_seq_len_optional, layout_optional,
            compress_block_size, compress_stride, act_seq_len_type,
        )

    return backward


class NsaCompressGradArguments(NamedTuple):
    """Arguments of the aclnn function of NsaCompressGrad that the host knows."""

    act_seq_len_optional: Any
    compress_block_size: Any
    compress_stride: Any


def aclnn_nsa_compress_grad(custom: Any, c: NsaCompressGradArguments) -> Any:
    """Make a function of the inputs of NsaCompressGrad."""

    def call(output_grad: Any, input: Any, weight: Any, actual_seq_len: Any) -> Any:
        out = custom(
            output_grad, input, weight, host_list(actual_seq_len, c.act_seq_len_optional),
            c.compress_block_size, c.compress_stride,
            0,  # act_seq_len_type
            "TND",  # layout_optional
        )
        return (out[0], out[1])

    return call


def aclnn_bprop_of_nsa_compress_grad(bprop: Any, c: NsaCompressGradArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompressGrad."""
    placeholder = absent()

    def backward(
        output_grad: Any, input: Any, weight: Any, act_seq_len_optional: Any,
        compress_block_size: Any, compress_stride: Any, act_seq_len_type: Any, layout_optional: Any,
        out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            output_grad, input, weight,
            act_seq_len_optional if c.act_seq_len_optional else placeholder, (out[0], out[1]),
            (dout[0], dout[1]),
        )
        return (
            gradients[0], gradients[1], gradients[2],
            gradients[3] if c.act_seq_len_optional else act_seq_len_optional, compress_block_size,
            compress_stride, act_seq_len_type, layout_optional,
        )

    return backward


STAND_INS: dict[str, Any] = {
    "NsaCompress": NsaCompressStandIns,
}
GIVEN: dict[str, Any] = {
    "NsaCompress": NsaCompressGiven,
}
ACLNN: dict[str, tuple[Any, Any, Any]] = {
    "NsaCompress": (NsaCompressArguments, aclnn_nsa_compress, aclnn_bprop_of_nsa_compress),
    "NsaCompressGrad": (
        NsaCompressGradArguments, aclnn_nsa_compress_grad, aclnn_bprop_of_nsa_compress_grad,
    ),
}
