"""Structs of tiling data, as a kernel reads them, from definitions by macros on the host side.

CANN's build compiles the definitions, runs them, and writes a header for the kernel. Here they are
read as text, so that nothing else of the host side has to compile."""

import re

_DEFINITION = re.compile(
    r"BEGIN_TILING_DATA_DEF\s*\(\s*(?P<name>\w+)\s*\)(?P<fields>.*?)END_TILING_DATA_DEF", re.DOTALL
)
_FIELD = re.compile(
    r"TILING_DATA_FIELD_DEF(?P<kind>|_ARR|_STRUCT)\s*\(\s*(?P<arguments>[^()]*(?:\([^()]*\)[^()]*)*)\)"
)
_REGISTERED = re.compile(r"REGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
# The length of an array may be made of these.
_CONSTANT = re.compile(
    r"^[ \t]*(?:(?:static|inline|const|constexpr)\s+)+(?:auto|[\w:]*int\w*|size_t)\s+(\w+)"
    r"\s*(?:=\s*|\{)[^;{}]+\}?;|^[ \t]*#define[ \t]+(\w+)[ \t]+[(\d][^\n\\]*$",
    re.MULTILINE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def _struct(name, body):
    lines = [f"struct alignas(8) {name} {{"]
    for field in _FIELD.finditer(body):
        arguments = [part.strip() for part in field["arguments"].split(",")]
        if field["kind"] == "_ARR":
            if len(arguments) != 3:
                raise ValueError(f"{name}: TILING_DATA_FIELD_DEF_ARR takes type, length and name")
            lines.append(f"  {arguments[0]} {arguments[2]}[{arguments[1]}];")
            continue
        if len(arguments) != 2:
            raise ValueError(f"{name}: TILING_DATA_FIELD_DEF{field['kind']} takes type and name")
        kept = "alignas(8) " if field["kind"] == "_STRUCT" else ""
        lines.append(f"  {kept}{arguments[0]} {arguments[1]};")
    return "\n".join([*lines, "};"])


def _snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def structs(texts, kernel=None):
    """The header for a kernel: a struct for every definition in the texts of headers, in their
    order, the constants that lengths are made of, and the struct that GET_TILING_DATA gives.

    That is the class that REGISTER_TILING_DATA_CLASS names for the operator type whose name is the
    kernel's, or else the one that is registered last."""
    texts = [_COMMENT.sub(" ", text) for text in texts]
    lines = ["#pragma once", '#include "kernel_tiling/kernel_tiling.h"', ""]
    constants, written, registered = {}, {}, []
    for text in texts:
        bodies = {found["name"]: found["fields"] for found in _DEFINITION.finditer(text)}
        for name, body in bodies.items():
            written.setdefault(name, _struct(name, body))
        for found in _CONSTANT.finditer(text):
            constants.setdefault(found[1] or found[2], found[0].strip())
        registered += _REGISTERED.findall(text)
    if not written:
        raise ValueError("no BEGIN_TILING_DATA_DEF is in these headers")
    used = set(re.findall(r"\w+", "\n".join(written.values())))
    # A constant may be made of others.
    for _ in constants:
        used |= {word for n in used & constants.keys() for word in re.findall(r"\w+", constants[n])}
    lines += [line for name, line in constants.items() if name in used]
    lines += written.values()
    registered = [(op, name.rpartition("::")[2]) for op, name in registered]
    registered = [(op, name) for op, name in registered if name in written]
    if registered:
        of_kernel = [name for op, name in registered if _snake(op) == kernel]
        lines.append(f"using TwinDefaultTiling = {(of_kernel or [registered[-1][1]])[-1]};")
    return "\n".join(lines) + "\n"
