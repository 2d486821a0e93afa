"""Rules for every argument of every native operator, driven by the schemas."""

import random

import numpy as np
import pytest

from mindspore_nsa import _native

from .conftest import DECODING

LISTS = {
    "actual_seq_len",
    "actual_seq_qlen",
    "actual_seq_kvlen",
    "actual_cmp_seq_kvlen",
    "actual_sel_seq_kvlen",
    "prefix",
    "q_offset",
    "slot_mapping",
    "q_start_idx",
    "kv_start_idx",
    "actual_seq_lengths_query",
    "actual_seq_lengths_key",
    "actual_seq_lengths_kv",
    "actual_seq_klen",
    "compress_residual",
}

# Axes that nothing else in the call pins: (input, axis) may grow by one.
FREE = {
    "NsaCompress": {("input", 2)},
    "NsaCompressGrad": {("output_grad", 0)},
    "NsaCompressAttention": {
        ("value", 2),
        ("topk_mask", 0),
        ("topk_mask", 1),
        ("atten_mask", 0),
        ("atten_mask", 1),
    },
    "NsaSelectedAttention": {("value", 2)},
    "BlockIndexer compressed": {("key", 0)},
    "LightningIndexer": {("key", 1), ("key", 2)},
    "LightningIndexerGrad": {("key", 1)},
    "SparseFlashAttention": {("value", 3), ("sparse_indices", 3)},
    "SparseFlashAttentionGrad": {("sparse_indices", 3)},
    "SparseLightningIndexerGradKLLoss": {("sparse_indices", 3)},
    "DenseLightningIndexerSoftmaxLse": {("key_index", 1), ("key_index", 2)},
    "NsaCompressWithCache": {
        ("input", 0),
        ("block_table", 1),
        ("cache", 0),
    },
    "NsaCompressAttentionInfer": {("value", 3), ("block_table", 1)},
    "NsaSelectedAttentionInfer": {("value", 3), ("block_table", 1)},
    "NsaDecode": {("block_table", 1), ("cmp_block_table", 1)},
    "FlashAttentionScore": {("value", 3), ("drop_mask", 0)},
    "FlashAttentionScore TND": {("value", 2), ("drop_mask", 0)},
    "FlashAttentionScoreGrad": {("drop_mask", 0)},
    "FlashAttentionScoreGrad TND": {("drop_mask", 0)},
    "FlashAttentionScoreGrad compressed": {("attn_mask", 0), ("attn_mask", 1)},
}


def test_right_calls_pass(good, call_name):
    call = good(call_name)
    outputs = call.infer()
    assert len(outputs) == len(_native.schema(call.op)["outputs"])
    assert all(size >= 0 for _, shape in outputs for size in shape)


def test_op_names(good, call_name):
    assert good(call_name).op in _native.op_names()
    with pytest.raises(ValueError, match="unknown operator NsaWindow"):
        _native.infer("NsaWindow", [], {})


def test_every_rule_of_the_schema_is_described(good, call_name):
    schema = _native.schema(good(call_name).op)
    assert all(attr["type"] in ("int", "float", "str") for attr in schema["attrs"])
    assert {i["name"] for i in schema["inputs"] if i["list"]} <= LISTS
    for attr in schema["attrs"]:
        assert attr["required"] == (attr["default"] is None)


@pytest.mark.parametrize("dtype", ["complex64", "float64", "float8_e4m3fn", "int8"])
def test_wrong_dtype(good, call_name, input_name, dtype):
    good(call_name).typed(input_name, dtype).fails(TypeError, input_name, dtype)


def test_unknown_dtype_name(good, call_name, input_name):
    good(call_name).typed(input_name, "float17").fails(TypeError, input_name, "float17")
    good(call_name).typed(input_name, 42).fails(TypeError, input_name, "42 (int)")


def test_8_bit_floats_are_explained(good):
    good("FlashAttentionScore").typed("query", "float8_e5m2").fails(
        TypeError, "query", "float16", "float8_e5m2", "8-bit floats need a later chip"
    )


def test_floats_share_one_dtype(good, call_name, float_name):
    call = good(call_name)
    error = call.typed(float_name, "bfloat16")
    first = next(n for n in call.names if call.inputs[n] and call.inputs[n][0] == "float16")
    anchor = "input" if call.op.startswith("NsaCompress") and "weight" in call.names else first
    if float_name != anchor:
        error.fails(TypeError, float_name, anchor, "float16", "bfloat16")
    else:
        error.fails(TypeError, anchor, "bfloat16", "float16")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_every_float_dtype_passes_on_cpu(good, call_name, dtype):
    call = good(call_name)
    for name in call.names:
        if call.inputs[name] and call.inputs[name][0] == "float16":
            call = call.typed(name, dtype)
    before = good(call_name).infer()
    expected = [(dtype if d == "float16" else d, shape) for d, shape in before]
    assert call.infer() == expected


def test_wrong_rank(good, call_name, ranked_name):
    call = good(call_name)
    shape = call.inputs[ranked_name][1]
    for wrong in ((), (1, *shape), (2, 3, 5, 7, 11)):
        call.shaped(ranked_name, wrong).fails(ValueError, ranked_name, wrong)


@pytest.mark.parametrize(
    "name, layout",
    [("FlashAttentionScore", "input_layout"), ("NsaSelectedAttentionInfer", "layout")],
)
def test_wrong_rank_of_a_layout(good, name, layout):
    """The layout is named: it says which rank was asked for, and is as often what is wrong."""
    call = good(name)
    of_layout = f"with {layout} '{call.attrs[layout]}', got rank 2"
    call.shaped("query", (8, 64)).fails(ValueError, "query", of_layout)


def test_every_axis(good, call_name, input_name):
    call = good(call_name)
    dtype, shape = call.inputs[input_name][:2]
    for axis in range(len(shape)):
        wrong = list(shape)
        wrong[axis] += 1
        spoiled = call.but(**{input_name: (dtype, tuple(wrong), *call.inputs[input_name][2:])})
        if (input_name, axis) in FREE.get(call_name, ()):
            spoiled.infer()
            continue
        with pytest.raises(ValueError) as error:
            spoiled.infer()
        assert any(n in str(error.value) for n in [*call.names, "head_num", "head_groups"])


def test_missing_input(good, call_name, input_name):
    call = good(call_name)
    optional = {i["name"]: i["optional"] for i in _native.schema(call.op)["inputs"]}[input_name]
    if not optional:
        call.but(**{input_name: None}).fails(TypeError, input_name, "Tensor", "None")
        return
    needed = {"prefix", "drop_mask", "actual_seq_qlen", "actual_seq_kvlen"}
    if "TND" in call_name or "compressed" in call_name:
        needed.add("attn_mask")
    spoiled = call.but(**{input_name: None})
    if call.op.startswith(("Sparse", "Dense")) and input_name.endswith("_rope"):
        spoiled.fails(ValueError, input_name, "None")
    elif call.op.startswith("Flash") and input_name in needed:
        spoiled.fails(ValueError, input_name, "None")
    elif call.op in DECODING:  # whose caches are in pages, and rows have counts of their own
        spoiled.fails(ValueError, input_name)
    else:
        spoiled.infer()


def test_malformed_input(good, call_name, input_name):
    call = good(call_name)
    call.but(**{input_name: 3.5}).fails(TypeError, input_name, "3.5 (float)")
    call.but(**{input_name: ("float16",)}).fails(TypeError, input_name)
    call.shaped(input_name, (2, "x")).fails(TypeError, input_name, "'x' (str)")
    call.shaped(input_name, 7).fails(TypeError, input_name, "7 (int)")


def test_number_of_inputs(good, call_name):
    call = good(call_name)
    inputs = list(call.inputs.values())
    for wrong in (inputs[:-1], [*inputs, None]):
        with pytest.raises(TypeError, match=f"expected {len(inputs)} inputs, got {len(wrong)}"):
            _native.infer(call.op, wrong, call.attrs)


def test_wrong_attribute_type(good, call_name, attr_name):
    call = good(call_name)
    spec = {a["name"]: a for a in _native.schema(call.op)["attrs"]}[attr_name]
    wrong = [None, (1, 2), object(), b"x", 1j]
    wrong += {"int": ["1", 1.5], "float": ["1.0"], "str": [1, 2.5]}[spec["type"]]
    if not spec["flag"]:
        wrong.append(True)
    for value in wrong:
        call.but(**{attr_name: value}).fails(TypeError, attr_name, type(value).__name__)
    if spec["type"] == "int":
        call.but(**{attr_name: 2**64}).fails(ValueError, attr_name, 2**64)
    if spec["flag"]:
        call.but(**{attr_name: 2}).fails(ValueError, attr_name, 2)
        call.but(**{attr_name: 1.0}).fails(TypeError, attr_name, "a bool", "1 (float)")


def test_declared_range(good, call_name, attr_name):
    call = good(call_name)
    spec = {a["name"]: a for a in _native.schema(call.op)["attrs"]}[attr_name]
    if spec["min"] is not None:
        call.but(**{attr_name: spec["min"] - 1}).fails(ValueError, attr_name, spec["min"] - 1)
        # A larger number than any size may have.
        call.but(**{attr_name: 2**62}).fails(ValueError, attr_name, 2**62)
    if spec["max"] is not None:
        call.but(**{attr_name: spec["max"] + 1}).fails(ValueError, attr_name, spec["max"] + 1)


def test_numpy_scalars(good, call_name, attr_name):
    call = good(call_name)
    spec = {a["name"]: a for a in _native.schema(call.op)["attrs"]}[attr_name]
    value = call.attrs.get(attr_name, spec["default"])
    kinds = {
        bool: [np.bool_],
        int: [np.int64, np.int32],
        float: [np.float64, np.float32],
        str: [np.str_],
    }
    for kind in kinds[type(value)]:
        if kind is np.int32 and abs(value) >= 2**31:
            continue
        assert call.but(**{attr_name: kind(value)}).infer() == call.infer()
    wrong = call.but(**{attr_name: np.zeros((1,), np.int64)})
    wrong.fails(TypeError, attr_name, "numpy.ndarray")


def test_missing_attribute(good, call_name, required_attr):
    good(call_name).without(required_attr).fails(TypeError, "missing attribute", required_attr)


def test_unknown_attribute(good, call_name, attr_name):
    good(call_name).but(**{attr_name + "s": 1}).fails(
        TypeError, "unknown attribute", attr_name + "s", attr_name
    )


def test_default_attributes_are_the_schema_s(good, call_name, optional_attr):
    call = good(call_name)
    spec = {a["name"]: a for a in _native.schema(call.op)["attrs"]}[optional_attr]
    explicit = call.but(**{optional_attr: spec["default"]})
    implicit = explicit.without(optional_attr)

    def outcome(c):
        try:
            return c.infer()
        except ValueError as error:
            return str(error)

    assert outcome(implicit) == outcome(explicit)


def test_target_name(good, call_name):
    with pytest.raises(ValueError, match="'cpu', 'ascend' or 'ascend_twin', got 'gpu'"):
        good(call_name).infer("gpu")


def agree(partial, full):
    """Every size that is inferred from partial knowledge is the true one."""
    assert len(partial) == len(full)
    for (dtype, shape), (full_dtype, full_shape) in zip(partial, full):
        assert dtype in (full_dtype, "unknown")
        if shape == (-2,):
            continue
        assert len(shape) == len(full_shape)
        assert all(size in (-1, true) for size, true in zip(shape, full_shape)), (shape, full_shape)


def test_nothing_known(good, call_name):
    call = good(call_name)
    full = call.infer()
    for name, value in call.inputs.items():
        call.inputs[name] = value and (None, None)
    agree(call.infer(), full)


def test_types_without_shapes(good, call_name):
    """Type inference: dtypes are known, ranks are not."""
    call = good(call_name)
    full = call.infer()
    for name, value in call.inputs.items():
        call.inputs[name] = value and (value[0], None)
    assert [dtype for dtype, _ in call.infer()] == [dtype for dtype, _ in full]


def test_shapes_without_types(good, call_name):
    """Shape inference: shapes are known, dtypes and list values are not."""
    call = good(call_name)
    full = call.infer()
    for name, value in call.inputs.items():
        call.inputs[name] = value and (None, value[1])
    assert call.shapes() == [shape for _, shape in full]


def test_partial_knowledge(good, call_name):
    full = good(call_name).infer()
    rng = random.Random(call_name)
    for _ in range(200):
        call = good(call_name)
        for name, value in call.inputs.items():
            if value is None:
                continue
            dtype, shape, values = (*value, None)[:3]
            if rng.random() < 0.3:
                shape = None
            else:
                shape = tuple(-1 if rng.random() < 0.4 else size for size in shape)
            keep = rng.random() < 0.5
            call.inputs[name] = (rng.choice([dtype, None]), shape, values if keep else None)
        agree(call.infer(), full)


def test_unknown_axis_keeps_the_other_checks(good, call_name, input_name):
    """One unknown size makes no right call fail."""
    call = good(call_name)
    full = call.infer()
    dtype, shape = call.inputs[input_name][:2]
    for axis in range(len(shape)):
        partial = (*shape[:axis], -1, *shape[axis + 1 :])
        agree(
            call.but(**{input_name: (dtype, partial, *call.inputs[input_name][2:])}).infer(), full
        )
