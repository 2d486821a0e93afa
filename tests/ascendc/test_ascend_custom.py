"""Calls for MindSpore's Ascend backend: names, absent Tensors, no views."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa.ops import _ascend

FUNCTIONS = {f"aclnn{_native.ascend_type(op)}": op for op in _native.ascend_operators()}


@pytest.fixture
def calls(ascend, monkeypatch):
    """(Custom, arguments of its graph) of every call, whose outputs are zeros."""
    made = []

    def outputs(custom, args):
        made.append((custom, args))
        function = FUNCTIONS[custom.func.rpartition(":")[2]]
        zeros = tuple(
            Tensor(np.zeros(1, np.float32))
            for parameter in _native.ascend_signature(function)
            if parameter["role"] == "output"
        )
        return zeros if len(zeros) > 1 else zeros[0]

    graph = property(lambda custom: lambda *args: outputs(custom, args))
    monkeypatch.setattr(_ascend.AclnnCustom, "graph", graph)
    return made


def half(*shape):
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return Tensor(values.astype(np.float16))


def compress(x, w, seq):
    return mindspore_nsa.nsa_compress(x, w, 32, 16, actual_seq_len=seq)


def test_every_custom_has_the_functions_name(calls):
    """By `reg_op_name` MindSpore finds the kernel; it writes another one into what it was given."""
    for seq in ((40, 96), (16, 96), (96,)):
        compress(half(96, 4, 32), half(32, 4), seq)
    names = [custom.reg_op_name for custom, _ in calls]
    assert len({id(custom) for custom, _ in calls}) == 3
    assert names == [calls[0][0].func.rpartition(":")[2]] * 3


# Optional Tensors that are given, by the names of the aclnn function's arguments.
GIVEN = {
    "nothing": (set(), {}),
    "mask": ({"attenMask"}, {"attn_mask": Tensor(np.zeros((2048, 2048), np.bool_))}),
    "slopes and sink": (
        {"realShift", "sink"},
        {
            "real_shift": Tensor(np.zeros(4, np.float32)),
            "pse_type": 2,
            "sink": Tensor(np.zeros(4, np.float32)),
        },
    ),
}


@pytest.mark.parametrize("case", GIVEN)
def test_absent_tensors_are_null_pointers(calls, case):
    """MindSpore refuses None for an argument of type aclTensor*, and hands on that of a list."""
    given, options = GIVEN[case]
    q = half(2, 16, 64)
    mindspore_nsa.flash_attention_score(q, q, q, 4, sparse_mode=3 * bool(options), **options)
    ((custom, args),) = calls
    parameters = _native.ascend_signature("FlashAttentionScore")
    types = list(custom.custom_inputs_type)
    assert len(types) == len(parameters)
    optional = set()
    for parameter, kind, arg in zip(parameters, types, args):
        if parameter["kind"] == "tensor":
            assert (kind == "aclTensor*") == isinstance(arg, Tensor), parameter["name"]
            assert arg is not None or kind == "aclIntArray*", parameter["name"]
            if parameter["optional"] and arg is not None:
                optional.add(parameter["name"].removesuffix("Optional"))
    assert optional == given
    assert types[len(args) :] == ["aclTensor*"] * (len(types) - len(args))


def test_a_graph_gets_no_views(calls):
    """MindSpore keeps stride and offset of the first view for the Tensors of later calls."""
    x, w = half(4, 200, 32), half(64, 4)
    views = x.transpose(1, 0, 2)[8:104], w[32:]
    assert all(view._need_contiguous() for view in views)
    compress(*views, (96,))
    ((_, args),) = calls
    for arg, view in zip(args, views):
        assert not arg._need_contiguous() and arg.storage_offset() == 0
        assert np.array_equal(arg.asnumpy(), view.asnumpy())
    plain = half(96, 4, 32), half(32, 4)
    compress(*plain, (96,))
    assert all(arg is tensor for arg, tensor in zip(calls[1][1], plain))


def test_gradients_through_a_copied_view():
    """The copy is part of the program that is differentiated."""
    x = half(4, 96, 32)

    def total(x):
        view = _ascend._to_call_with(x.transpose(1, 0, 2)[16:])
        return (view * Tensor(np.arange(4, dtype=np.float16).reshape(1, 4, 1))).sum()

    gradient = ms.grad(total)(x).asnumpy()
    exact = np.zeros(x.shape) + np.arange(4).reshape(4, 1, 1)
    exact[:, :16] = 0
    assert np.array_equal(gradient, exact)
