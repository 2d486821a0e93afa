"""Write the Python functions that restate the schemas of the native operators.

An operator's inputs, their order, and which of them are optional or lists is declared once, in
`infer/`. The functions that pass Tensors by these names are written from there into committed files
of mindspore_nsa/ops/generated, because a graph has to see a name for each Tensor: of a tuple that
grows by addition MindSpore may lose elements. A file holds an operator and its gradient: how each
is called, on the CPU and by CANN's function, and its bprop. The stub of the native module comes
from there, too.

`make generate` writes the files, `--check` only compares them.
"""

import argparse
import re
import sys
from pathlib import Path

from mindspore_nsa import _native
from tools.calls.aclnn import aclnn
from tools.calls.calls import call
from tools.calls.declared import CALLED, GRADIENTS, ZEROS
from tools.calls.gradients import bprops, refusal
from tools.calls.native_stub import native_stub
from tools.calls.source import family_of, filled, function_of, inputs_of

PACKAGE_FOLDER = Path(__file__).resolve().parents[1] / "mindspore_nsa"
FOLDER = "ops/generated"

PACKAGE = """Calls and gradients of the native operators by the names of their inputs.

A file has an operator and its gradient.

call_...: Calls the operator. `c` has what a plan knows of a call: the dtype that an input is cast
    to, and what is passed for a list or an optional input; None: the argument as it is. A graph of
    a bprop takes `c` for a tuple without names, so it is unpacked.
bprop_of_...: Makes the operator's bprop. `gradient` is the operator that computes the gradients, or
    a function of `out` and `dout`; `given` says which lists and optional inputs are arguments of
    the call. An input without a gradient has zeros. One that is a constant of the plan stands for
    its own gradient, which goes nowhere.
aclnn_..., aclnn_bprop_of_...: The function of CANN's package with the operator's inputs. `c` has
    the values that the host knows, whether an optional Tensor is given, the form of a list (see
    `host_list`), and the dtype of one that the device reads; None: it is absent. A bprop returns
    anything for an argument that is no Tensor."""
REFUSALS = """Gradients that do not exist: bprops that raise where one is used.

REFUSALS has one for each number of inputs, because MindSpore counts the parameters of a bprop."""


def operators():
    """All operators of which something is generated."""
    return sorted({*CALLED, *_native.ascend_operators()})


def file(title, imports, parts):
    """The source of a file. It has its own line breaks, so that lists of names fill their lines."""
    head = (
        f'"""{title}\n\n'
        'Written by tools/generate_calls.py: change it there, then run `make generate`.\n"""\n\n'
        "# fmt: off\n"
    )
    body = "\n\n\n".join(part.rstrip("\n") for part in parts)
    gap = "\n\n\n" if body.startswith(("class ", "def ")) else "\n\n"
    return head + "\n\n".join(imports) + gap + body + "\n"


def imports(source):
    """Sources of the imports that a source needs."""

    def used(*names):
        return [name for name in names if re.search(rf"\b{name}\b", source)]

    lines = ["from typing import Any, NamedTuple"]
    outside = [f"from mindspore import {name}" for name in used("Tensor")]
    ours = [f"from .._by_device import {name}" for name in used("zeros_like")]
    ours += [f"from .._custom import {name}" for name in used("absent")]
    operands = used("host_list", "in_dtype", "listed", "passed", "zero_gradient")
    ours += [f"from .._operands import {', '.join(operands)}"] if operands else []
    return ["\n".join(group) for group in (lines, outside, ours) if group]


def table(name, kind, pairs):
    """Source of a dict by operators' names."""
    lines = "".join(f'\n    "{op}": {value},' for op, value in pairs)
    return f"{name}: dict[str, {kind}] = {{{lines}" + ("\n}" if lines else "}")


def family(op):
    """The source of the file of an operator and its gradient."""
    members = [member for member in operators() if family_of(member) == op]
    parts, stand_ins, given, functions = [], [], [], []
    for member in members:
        if member in CALLED:
            parts += call(member)
            stand_ins.append((member, f"{member}StandIns"))
        if member in GRADIENTS or member in ZEROS:
            parts += bprops(member)
            given.append((member, f"{member}Given"))
        if member in _native.ascend_operators():
            parts += aclnn(member)
            name = function_of(member)
            triple = f"{member}Arguments", f"aclnn_{name}", f"aclnn_bprop_of_{name}"
            # The key and its colon stand before the bracket.
            before = len(member) + 4
            functions.append((member, filled(" " * before + "(", triple, ")", 4).strip()))
    tables = [
        table("STAND_INS", "Any", stand_ins),
        table("GIVEN", "Any", given),
        table("ACLNN", "tuple[Any, Any, Any]", functions),
    ]
    parts.append("\n".join(tables))
    return file(f"Calls of {' and '.join(members)}.", imports("\n".join(parts)), parts)


def refusals():
    """The source of refusals.py."""
    counts = range(1, 1 + max(len(inputs_of(op)) for op in operators()))
    table = [f"{count}: _refusal_of_{count}" for count in counts]
    return file(
        REFUSALS,
        [
            "from typing import Any",
            "from .._refuse import refuse_each",
        ],
        [*map(refusal, counts), filled("REFUSALS: dict[int, Any] = {", table, "}")],
    )


def package():
    """The source of __init__.py, which finds by an operator's name what was written for it."""
    names = sorted({function_of(family_of(op)) for op in operators()})
    tables = [
        f"{name} = {{op: made for file in _FILES for op, made in file.{name}.items()}}"
        for name in ("STAND_INS", "GIVEN", "ACLNN")
    ]
    lines = "".join(f"    {name},\n" for name in names)
    return file(
        PACKAGE,
        [
            f"from . import (\n{lines})\nfrom .refusals import REFUSALS as REFUSALS",
        ],
        [filled("_FILES = (", names, ")") + "\n".join(tables)],
    )


def files():
    """Sources by the paths of their files in the package."""
    found = {"__init__": package(), "refusals": refusals()}
    for op in sorted({family_of(op) for op in operators()}):
        found[function_of(op)] = family(op)
    sources = {f"{FOLDER}/{name}.py": source for name, source in found.items()}
    return {**sources, "_native.pyi": native_stub()}


def main():
    """Write the files, or name those that are not as they would be written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    sources = files()
    (PACKAGE_FOLDER / FOLDER).mkdir(exist_ok=True)
    written = {f"{FOLDER}/{path.name}" for path in (PACKAGE_FOLDER / FOLDER).glob("*.py")}
    stale = sorted(written.difference(sources))
    for name in stale * (not check):
        (PACKAGE_FOLDER / name).unlink()
    for name, source in sources.items():
        path = PACKAGE_FOLDER / name
        if path.exists() and path.read_text() == source:
            continue
        stale.append(name)
        if not check:
            path.write_text(source)
    if stale:
        print(f"{'not fresh, run make generate' if check else 'written'}: {', '.join(stale)}")
    return bool(check and stale)


if __name__ == "__main__":
    sys.exit(main())
