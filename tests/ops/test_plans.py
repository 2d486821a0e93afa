"""A public function's arguments stand in it once more; a planner gets them in that order."""

import ast
import importlib
import inspect

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa import _native
from mindspore_nsa.ops._custom import absent
from mindspore_nsa.ops._plan import Planner
from mindspore_nsa.ops.generated.nsa_selected_attention import call_nsa_selected_attention

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
# Called by a Cell with a bprop of its own, not by the function.
OF_A_CELL = "_plan_nsa_selected_attention_gradient"
# Called by the layers, too.
HELPERS = {
    "nsa_compress_attention": "compress_attention",
    "nsa_selected_attention": "selected_attention",
}


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


@pytest.mark.parametrize("module, name, planner", list(planners()))
def test_called_in_the_order_of_the_signature(module, name, planner):
    assert set(calls(ast.parse(inspect.getsource(module)), name)) == {planner.names}


@pytest.mark.parametrize("public, helper", HELPERS.items())
def test_a_helper_gets_each_argument_by_its_name(public, helper):
    """By place or by keyword; only `statistics` is the function's own."""
    module = importlib.import_module(f"mindspore_nsa.ops.{public}")
    names = list(inspect.signature(getattr(module, helper)).parameters)
    tree = ast.parse(inspect.getsource(getattr(module, public)))
    (call,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == helper
    )
    given = dict(zip(names, map(ast.unparse, call.args)))
    given |= {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    assert given.pop("statistics") == "True"
    assert given == {name: name for name in names[:-1]}
    assert names[:-1] == list(inspect.signature(getattr(module, public)).parameters)


def test_what_it_reads_are_arguments():
    """Lists by the operator's schema, and masks; a mask that is no argument is an error at once."""
    module = importlib.import_module("mindspore_nsa.ops.nsa_selected_attention")
    planner = module._plan_nsa_selected_attention
    lists = {
        spec["name"] for spec in _native.schema("NsaSelectedAttention")["inputs"] if spec["list"]
    }
    assert {planner.names[i] for i in planner.lists} == lists
    assert {planner.names[i] for i in planner.read} == lists | {"atten_mask"}
    with pytest.raises(ValueError):
        Planner(print, module.selected_attention, masks=("no_such_mask",))


def listed(values, other=None):
    """A function whose calls are planned below."""


def test_a_call_is_planned_once():
    """In PyNative mode and of a graph, known by its key or by what a plan gets."""
    planned = []
    planner = Planner(lambda values, other: planned.append(values), listed, lists=("values",))
    tensor = Tensor([1, 2], ms.int64)
    for _ in range(3):
        assert planner((1, 2), None) is None and planner(tensor, None) is None
        assert planner((1, 2), 1.0) is None and planner((1, 2), np.int64(1)) is None
    assert planned == [(1, 2), (ms.int64, (2,), (1, 2)), (1, 2), (1, 2)]
    abstract = [{"value": value, "dtype": None, "shape": None} for value in (7, None)]
    for _ in range(3):
        assert planner.__infer__(*abstract)["value"] is None
    assert planned[4:] == [7]
    planner(7, None)
    assert planned[4:] == [7, 7]
    planner.forget()
    planner(7, None)
    assert planned[4:] == [7, 7, 7]


def test_the_oldest_call_is_forgotten():
    planned = []
    planner = Planner(lambda values, other: planned.append(values), listed, kept=2)
    for value in (1, 2, 1, 3, 2, 3, 1):
        planner(value, None)
    assert planned == [1, 2, 3, 1]
    assert len(planner._results) == 2


@pytest.mark.parametrize("argument", [3, {}], ids=["hashable", "no hash"])
def test_an_error_of_a_plan_comes_at_once(argument):
    """A TypeError of its own is no sign of an argument that cannot be hashed."""
    planned = []

    def plan(values, other):
        planned.append(values)
        raise TypeError("values must be something else")

    planner = Planner(plan, listed)
    for count in (1, 2):
        with pytest.raises(TypeError, match="something else"):
            planner(argument, None)
        assert len(planned) == count


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


def test_what_a_call_gets_in_place_of_arguments():
    """The dtype to cast to and a constant where the plan has one; None for the argument itself."""
    module = importlib.import_module("mindspore_nsa.ops.nsa_selected_attention")
    planner = module._plan_nsa_selected_attention
    given = {"atten_mask": None, "causal": False, "statistics": True}
    given |= arguments("nsa_selected_attention")
    given["key"] = given["key"].astype(ms.float16)
    given["actual_seq_qlen"] = Tensor(given["actual_seq_qlen"], ms.int64)
    given["q_offset"] = None
    operator, c, stops = planner(*(given[name] for name in planner.names))
    assert (c.query_dtype, c.key_dtype, c.value_dtype) == (None, ms.float32, None)
    assert c.actual_seq_qlen is None and c.q_offset is absent("int64") and not stops
    assert tuple(c.actual_seq_kvlen.tolist()) == tuple(given["actual_seq_kvlen"])
    handed = []
    tensors = {name: given[name] for name in ("query", "key", "value", "topk_indices")}
    lists = {name: given[name] for name in ("actual_seq_qlen", "actual_seq_kvlen", "q_offset")}
    call_nsa_selected_attention(lambda *x: handed.extend(x), c, **tensors, **lists)
    assert handed[0] is given["query"] and handed[1].dtype == ms.float32
    assert handed[4] is given["actual_seq_qlen"] and handed[5:] == [c.actual_seq_kvlen, c.q_offset]
