"""The files that restate the operators' declarations are those that `make generate` writes."""

import dataclasses
import importlib
import inspect
import pickle
import runpy

import pytest

from mindspore_nsa import _native
from mindspore_nsa.ops import generated
from tools.bindings import kernels
from tools.bindings.source import Operator
from tools.calls import gradients

from .conftest import ROOT

PACKAGE = ROOT / "mindspore_nsa"


@pytest.fixture(scope="module")
def sources():
    """Output of `make generate`, by the names of the files."""
    return runpy.run_path(str(ROOT / "tools" / "generate_calls.py"))["files"]()


def test_they_are_fresh(sources):
    found = {*PACKAGE.glob("ops/generated/*.py"), *PACKAGE.glob("*.pyi")}
    assert {str(path.relative_to(PACKAGE)) for path in found} == sources.keys()
    for path in found:
        text = sources[str(path.relative_to(PACKAGE))]
        assert path.read_text() == text, f"{path.name}: run `make generate`"


def test_bindings_are_fresh():
    """And none is left that is no longer written."""
    sources = runpy.run_path(str(ROOT / "tools" / "generate_bindings.py"))["files"]()
    folder = ROOT / "binding" / "generated"
    assert {path.name for path in folder.iterdir()} == sources.keys()
    for name, text in sources.items():
        assert (folder / name).read_text() == text, f"{name}: run `make generate`"


@pytest.mark.parametrize(
    "op, changes, member",
    [
        ("NsaCompress", {"names": {}}, "NsaCompressParams::seq_len"),
        ("NsaMixBranches", {"names": {}}, "NsaMixBranchesParams::branches"),
        ("NsaRound", {"names": {"dtype": "dtype"}}, "NsaRoundParams::n"),
        ("NsaProjectionInputGrad", {"names": {"dx": "x_grad", "K": "x[1]"}}, "Params::dy_type"),
        ("NsaDecode", {"by_hand": ()}, "NsaDecodeParams::q_len"),
    ],
)
def test_a_member_of_a_kernels_parameters_comes_from_somewhere(monkeypatch, op, changes, member):
    changed = dataclasses.replace(kernels.KERNELS[op], **changes)
    monkeypatch.setitem(kernels.KERNELS, op, changed)
    with pytest.raises(ValueError, match=f"^{op}: nothing has the name of cpu::.*{member}"):
        Operator(op).fills()


def test_every_operator_has_a_kernel():
    assert kernels.KERNELS.keys() == set(_native.op_names())


def test_a_reader_of_an_operator_opens_one_file(sources):
    """It has the call, the gradient and CANN's function, and is no longer than others may be."""
    for op, kinds in generated.ACLNN.items():
        files = {kind.__module__ for kind in kinds}
        files |= {t[op].__module__ for t in (generated.STAND_INS, generated.GIVEN) if op in t}
        assert len(files) == 1, op
    assert max(text.count("\n") for text in sources.values()) <= 400


def functions():
    for path in PACKAGE.glob("ops/generated/[!_]*.py"):
        module = importlib.import_module(f"mindspore_nsa.ops.generated.{path.stem}")
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                yield pytest.param(value, id=name)


@pytest.mark.parametrize("function", list(functions()))
def test_tools_find_a_function(function):
    """Its source stands where its code says, so that a debugger and coverage show it."""
    assert pickle.loads(pickle.dumps(function)) is function
    lines, first = inspect.getsourcelines(function)
    assert first == function.__code__.co_firstlineno
    assert lines[0].startswith(f"def {function.__name__}(")


def test_nothing_is_made_from_text():
    """Neither here nor elsewhere in the package."""
    for path in (ROOT / "mindspore_nsa").rglob("*.py"):
        text = path.read_text()
        assert "exec(" not in text and "eval(" not in text.replace(".eval(", ""), path


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"sources": {}}, "NsaSelectedAttentionGrad needs attention_out, which NsaSelectedAtt"),
        ({"flagged": {"out": "out[0]"}}, r"NsaSelectedAttentionGrad has no input \['out'\]"),
    ],
)
def test_an_input_of_a_gradient_comes_from_somewhere(monkeypatch, changes, text):
    op = "NsaSelectedAttention"
    changed = dataclasses.replace(gradients.GRADIENTS[op], **changes)
    monkeypatch.setitem(gradients.GRADIENTS, op, changed)
    with pytest.raises(ValueError, match=text):
        gradients.bprop(op)
