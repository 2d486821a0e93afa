"""The Python files that restate the operators' schemas are those that `make generate` writes."""

import dataclasses
import importlib.util
import inspect
import pickle

import pytest

from mindspore_nsa.ops import _aclnn, _bprops, _calls, _refusals

from .conftest import ROOT

MODULES = (_aclnn, _bprops, _calls, _refusals)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "tools" / "generate_calls.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_are_fresh(script):
    assert {f"{m.__name__.rpartition('.')[2]}.py" for m in MODULES} == set(script.FILES)
    for name, write in script.FILES.items():
        found = (ROOT / "mindspore_nsa" / "ops" / name).read_text()
        assert found == script.formatted(name, write()), f"{name}: run `make generate`"


def functions():
    for module in MODULES:
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
def test_an_input_of_a_gradient_comes_from_somewhere(script, monkeypatch, changes, text):
    op = "NsaSelectedAttention"
    changed = dataclasses.replace(script.GRADIENTS[op], **changes)
    monkeypatch.setitem(script.GRADIENTS, op, changed)
    with pytest.raises(ValueError, match=text):
        script.bprop(op)
