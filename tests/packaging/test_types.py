"""Functions of the operators and layers say their types, and a checker finds no error in them."""

import ast
import importlib.util
import subprocess
import sys

import pytest

from .conftest import ROOT

PACKAGE = ROOT / "mindspore_nsa"
FILES = sorted(path for room in ("ops", "nn") for path in (PACKAGE / room).rglob("*.py"))


def functions():
    """(file:line, function, whether it is a method) of all functions, those within others too."""
    for path in FILES:
        tree = ast.parse(path.read_text())
        methods = {
            id(node)
            for kind in ast.walk(tree)
            if isinstance(kind, ast.ClassDef)
            for node in kind.body
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node, id(node) in methods


def untyped(function, is_method):
    """Names of the parameters without a type, and "return"."""
    given = function.args
    parameters = [*given.posonlyargs, *given.args]
    static = any(getattr(name, "id", None) == "staticmethod" for name in function.decorator_list)
    parameters = parameters[1:] if is_method and not static else parameters
    rest = filter(None, (given.vararg, given.kwarg))
    names = [x.arg for x in (*parameters, *given.kwonlyargs, *rest) if x.annotation is None]
    return names + (["return"] if function.returns is None else [])


def test_all_functions_have_types():
    found = list(functions())
    assert len(found) > 600
    wrong = {place: names for place, node, m in found if (names := untyped(node, m))}
    assert wrong == {}


def test_a_function_without_types_is_found():
    function = ast.parse("def f(a: int, b, *, c=1, **d): ...").body[0]
    assert untyped(function, False) == ["b", "c", "d", "return"]
    assert untyped(function, True) == ["b", "c", "d", "return"]


def test_public_functions_say_more_than_any():
    """A public function names the types of its arguments that are no Tensors."""
    tree = ast.parse((PACKAGE / "ops" / "__init__.py").read_text())
    (public,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    )
    for place, node, is_method in functions():
        if node.name not in public or is_method or "generated" in place:
            continue
        types = [x.annotation for x in (*node.args.args, *node.args.kwonlyargs)] + [node.returns]
        assert "Any" not in map(ast.unparse, types), place


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_a_checker_finds_no_error(tmp_path):
    command = [sys.executable, "-m", "mypy", "--cache-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
