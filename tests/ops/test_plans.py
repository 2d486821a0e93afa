"""A public function's arguments stand in it once more; a planner gets them in that order."""

import ast
import importlib
import inspect

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa import _native
from mindspore_nsa.ops._by_name import bprop_by_name
from mindspore_nsa.ops._custom import Operator
from mindspore_nsa.ops._plan import Planner

from .operators import arguments

MODULES = (
    "nn.packing",
    "ops._cache_step",
    "ops._layer",
    "ops._sequence",
    "ops.block_indexer",
    "ops.dense_lightning_indexer_grad_kl_loss",
    "ops.dense_lightning_indexer_softmax_lse",
    "ops.dropout_mask",
    "ops.flash_attention_score",
    "ops.lightning_indexer",
    "ops.lightning_indexer_kl_loss",
    "ops.nsa_compress",
    "ops.nsa_compress_attention",
    "ops.nsa_compress_attention_infer",
    "ops.nsa_compress_with_cache",
    "ops.nsa_decode",
    "ops.nsa_selected_attention",
    "ops.nsa_selected_attention_infer",
    "ops.sparse_flash_attention",
    "ops.sparse_lightning_indexer_grad_kl_loss",
)
# What a Cell with a bprop of its own calls, not the function.
OF_A_CELL = "_plan_nsa_selected_attention_gradient"
# MindSpore's own operator takes some of the arguments, by their names.
ONE_MORE = {"lightning_indexer", "sparse_flash_attention"}


def planners():
    """(module, name of a planner, its function)"""
    for module in MODULES:
        module = importlib.import_module(f"mindspore_nsa.{module}")
        for name, planner in vars(module).items():
            if isinstance(planner, Planner) and name != OF_A_CELL:
                yield pytest.param(module, name, planner, id=name)


def calls(tree, name):
    """The arguments of each call of a name, as text."""
    return [
        tuple(ast.unparse(argument) for argument in node.args)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name
    ]


def handed_on(module, planner, name):
    """What the planner's function gives it: its own arguments, a tuple, or those of a helper."""
    tree = ast.parse(inspect.getsource(getattr(module, planner._function)))
    direct = calls(tree, name)
    if direct and direct != [("*arguments",)]:
        return direct
    tuples = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "arguments"
    ]
    if direct:
        return [tuple(map(ast.unparse, given.elts)) for given in tuples]
    helpers = [
        node.name
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.FunctionDef) and calls(node, name) == [("*arguments",)]
    ]
    return [given for helper in helpers for given in calls(tree, helper)]


@pytest.mark.parametrize("module, name, planner", list(planners()))
def test_called_in_the_order_of_the_signature(module, name, planner):
    planner._resolve()
    (given,) = handed_on(module, planner, name)
    names = tuple(inspect.signature(getattr(module, planner._function)).parameters)
    assert given[: len(names)] == names
    assert planner._names == (*names, *planner._more)
    assert len(given) == len(planner._names)


@pytest.mark.parametrize("module, name, planner", list(planners()))
def test_what_it_reads_are_arguments(module, name, planner):
    planner._resolve()
    assert planner._mask_names <= set(planner._names)
    assert {planner._names[i] for i in planner._lists} <= planner._list_names
    assert len(planner._read) == len(planner._lists) + len(planner._mask_names)
    if planner._list_names:
        assert planner._lists


def key(*arguments, read=0):
    return _native.call_key(None, arguments, Tensor, (ms.float32, ms.float16), read)


def test_calls_that_are_planned_alike_have_one_key():
    """Python takes 0, False and 0.0 for equal, and so tuples of them."""
    tensors = [Tensor(np.zeros(n), dtype) for n in (2, 3) for dtype in (ms.float32, ms.float16)]
    given = (None, 0, 1, False, 0.0, -1.5, "0", (), (0,), [], [0], (0, 0), *tensors)
    assert len({key(x) for x in given}) == len(given)
    assert len({key(x, y) for x in given for y in given}) == len(given) ** 2
    assert key(tensors[0] + 1, [0]) == key(tensors[0], [0])
    assert _native.call_key("cpu", (0,), Tensor, (), 0) != key(0)


def test_what_counts_beyond_a_key_has_none():
    """These are described by Python: contents, and types that compare as others do."""
    tensor = Tensor(np.zeros(2), ms.float32)
    others = (object(), np.int64(0), np.zeros(1, np.int64), (0, False), (0.0,), [tensor], int)
    assert [key(x) for x in others] == [None] * len(others)
    assert key(Tensor([0], ms.int64)) is None  # no dtype of these
    assert key(0, tensor, read=0b10) is None and key(0, tensor, read=0b01) is not None


def test_what_is_written_for_a_call():
    """Casts and constants where the plan has them, in the order of the operator's inputs."""
    module = importlib.import_module("mindspore_nsa.ops.nsa_selected_attention")
    planner = module._plan_nsa_selected_attention
    planner._resolve()
    given = {"atten_mask": None, "causal": False, "statistics": True}
    given |= arguments("nsa_selected_attention")
    given["key"] = given["key"].astype(ms.float16)
    given["q_offset"] = None
    call = planner(*(given[name] for name in planner._names))
    assert (
        "".join(call.source[0]).split()
        == (
            f"def call({', '.join(planner._names)}): return operator(query, cast(key, dtype_key), "
            "value, topk_indices, constant_actual_seq_qlen, constant_actual_seq_kvlen, "
            "constant_q_offset)"
        ).split()
    )


@pytest.mark.parametrize(
    "sources, text",
    [
        ({"attention_out": "out[0]"}, r"NsaSelectedAttentionGrad .* needs \['attention_out_grad'"),
        ({"out": "out[0]"}, r"NsaSelectedAttentionGrad has no input \['out'\]"),
    ],
)
def test_an_input_of_a_gradient_comes_from_somewhere(sources, text):
    gradient = "NsaSelectedAttentionGrad", Operator(None)
    with pytest.raises(ValueError, match=text):
        bprop_by_name("NsaSelectedAttention", (), gradient, sources)


def innermost(node):
    """The name that stands in nested calls, such as cast(query, dtype)."""
    while isinstance(node, (ast.Call, ast.Starred)):
        inner = node.args[:1] if isinstance(node, ast.Call) else [node.value]
        node = inner[0] if inner else None
    return getattr(node, "id", None)


def argument_lists(tree):
    """(line, names) of every signature, tuple and call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [x.arg for x in (*node.args.args, *node.args.kwonlyargs)]
        elif isinstance(node, ast.Tuple):
            names = map(innermost, node.elts)
        elif isinstance(node, ast.Call):
            names = (*map(innermost, node.args), *(keyword.arg for keyword in node.keywords))
        else:
            continue
        yield node.lineno, set(names)


def public_operators():
    """(public function, inputs of its operator), where there are several."""
    for spec in map(_native.schema, _native.op_names()):
        inputs = {x["name"] for x in spec["inputs"]}
        if f"ops.{spec['function']}" in MODULES and len(inputs) >= 4:
            yield pytest.param(spec["function"], inputs, id=spec["name"])


@pytest.mark.parametrize("function, inputs", list(public_operators()))
def test_an_argument_list_stands_once(function, inputs):
    """Beside the signature: what else needs one takes it from the schema, see ops/_by_name.py."""
    source = inspect.getsource(importlib.import_module(f"mindspore_nsa.ops.{function}"))
    found = [line for line, names in argument_lists(ast.parse(source)) if len(inputs & names) >= 4]
    assert len(found) == 2 + (function in ONE_MORE), found
