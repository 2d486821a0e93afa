"""Declarations of the operators and parameters of their CPU kernels, read from the headers.

The headers are read as text, because the sources that are written from them are part of the native
module: it could not be built after an input has changed its name.
"""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_STRUCT = re.compile(r"^struct (\w+)(?: : (\w+))? \{ *(?://[^\n]*)?\n(.*?)^\};", re.M | re.S)
_TENSOR = re.compile(r"^  size_t (\w+) =\s*(required|optional|add|like)\((.*?)\);", re.M | re.S)
_CONSTANT = re.compile(r"^inline constexpr const char\* (\w+) =(.*?);", re.M | re.S)
_MEMBER = re.compile(r"^  ((?:const )?\w+(?: |\*\s*))(.*)$")
_OPERATOR = re.compile(r"OP\((\w+), (\w+), \d+\)")


@dataclass
class Declared:
    """An input or an output: its name, its dtype, whether it may be absent, and its shapes."""

    name: str
    optional: bool
    dtype: str
    shapes: list

    @property
    def list(self):
        """Whether it is a list."""
        return self.dtype in ("kList", "kRowList")


@dataclass
class Member:
    """A member of a struct: its type, as "const float*" or "int64_t", and its name."""

    type: str
    name: str

    @property
    def pointer(self):
        """Whether it points to elements."""
        return self.type.endswith("*")


@dataclass
class Struct:
    """A struct: where it stands, the one it is derived from, and its source."""

    header: str
    base: str | None
    body: str


@functools.cache
def structs():
    """All structs of the declarations and of the kernels' parameters, by their names."""
    paths = [*ROOT.glob("infer/*.h"), *ROOT.glob("cpu/*/*.h")]
    return {
        name: Struct(str(path.relative_to(ROOT)), base, body)
        for path in paths
        for name, base, body in _STRUCT.findall(path.read_text())
    }


def bases(name):
    """A struct and those that it is derived from, the farthest first."""
    base = structs()[name].base if name in structs() else None
    return [*(bases(base) if base else ()), name]


@functools.cache
def operators():
    """The function of each operator."""
    return dict(_OPERATOR.findall((ROOT / "infer" / "operators.h").read_text()))


@functools.cache
def _constants():
    texts = [path.read_text() for path in sorted(ROOT.glob("infer/*.h"))]
    return {name: _text(value) for text in texts for name, value in _CONSTANT.findall(text)}


def _text(source):
    """The value of literals that follow each other, or of a constant."""
    literals = re.findall(r'"((?:[^"\\]|\\.)*)"', source)
    return "".join(literals) if literals else _constants().get(source.strip(), "")


def _axes(shape):
    """Names and expressions of a shape as infer/shape.h has it, without marks."""
    shape = re.sub(r"\bwith(out)? .*", "", shape.partition(":")[2] or shape)
    return [re.sub(r"\s*(\?|= \w+|> 0)", "", axis).strip(" `") for axis in shape.split(",")]


@functools.cache
def tensors(struct):
    """The inputs or outputs that a struct declares, by their names."""
    found = {}
    for name, kind, arguments in _TENSOR.findall(structs()[struct].body):
        values = re.sub(r"//[^\n]*", "", arguments).split(",", 2)
        dtype = values[1].split("::")[1].strip() if len(values) > 1 else "kByRules"
        shape = _text(values[2]) if len(values) > 2 and kind != "like" else ""
        shapes = [_axes(form) for form in shape.split("|")] if shape else []
        found[name] = Declared(name, kind == "optional", dtype, shapes)
    return found


@functools.cache
def members(struct):
    """The members of a struct, those of its bases first."""
    found = []
    for each in bases(struct):
        if each not in structs():
            continue
        for line in structs()[each].body.split("\n"):
            statement = line.partition("//")[0].rstrip()
            match = _MEMBER.match(statement)
            if not match or not statement.endswith(";") or "(" in statement:
                continue
            kind = match[1].strip().replace(" *", "*")
            for name in match[2].rstrip(";").split(","):
                found.append(Member(kind, re.sub(r"( = .*|\[.*\])", "", name).strip(" *")))
    return found


_RULES = re.compile(r"OpId::k(\w+),\s*(\w+),\s*attr_specs<(\w+)>\(\),\s*(\w+)\}")
_ALIAS = re.compile(r"^constexpr const \w+& (\w+) =\s*(\w+);", re.M)


@functools.cache
def declarations():
    """The structs of inputs, attributes and outputs of each operator, by its rules."""
    found = {}
    for path in ROOT.glob("infer/*.cc"):
        source = path.read_text()
        alias = dict(_ALIAS.findall(source))
        for op, inputs, attrs, outputs in _RULES.findall(source):
            of_inputs, of_outputs = (alias.get(name, name)[1:] for name in (inputs, outputs))
            found[op] = of_inputs, attrs, of_outputs
    return found
