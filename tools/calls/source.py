"""Schemas, and pieces of source."""

import re

from mindspore_nsa import _native

WIDTH = 100


def inputs_of(op):
    """The declared inputs of an operator."""
    return _native.schema(op)["inputs"]


def function_of(op):
    """An operator's name in Python."""
    return _native.schema(op)["function"]


def replaceable(spec):
    """Whether a constant may stand in for an input."""
    return spec["optional"] or spec["list"]


def family_of(op):
    """The operator in whose file another stands: a gradient stands beside its operator."""
    return op.removesuffix("Grad")


def class_of(name, text, fields):
    """Source of a NamedTuple."""
    lines = [f"class {name}(NamedTuple):", f'    """{text}"""', ""]
    return "\n".join(lines + [f"    {field}: {kind}" for field, kind in fields])


def filled(opening, items, closing, indent=0):
    """Source of elements in brackets, on as few lines as they need.

    Args:
        opening: What stands before the elements, with its bracket.
        items: Texts, or pairs of a text and a comment, which ends its line.
        closing: What stands after the elements.
        indent: Spaces before it all.
    """
    pad = " " * indent
    pairs = [item if isinstance(item, tuple) else (item, "") for item in items]
    if not any(comment for _, comment in pairs):
        line = f"{pad}{opening}{', '.join(text for text, _ in pairs)}{closing}"
        if len(line) <= WIDTH:
            return line + "\n"
    lines = [""]
    for text, comment in pairs:
        alone = comment or len(text) + indent + 5 > WIDTH
        if lines[-1] and (alone or len(lines[-1]) + len(text) + 2 > WIDTH):
            lines.append("")
        if alone:
            # Only a choice is that long without a comment.
            head, otherwise, tail = text.partition(" else ")
            broken = otherwise and not comment
            lines[-1] = f"{pad}    {head}" if broken else f"{pad}    {text},"
            lines += [f"{pad}    else {tail},"] if broken else []
            lines[-1] += f"  # {comment}" if comment else ""
            lines.append("")
        else:
            lines[-1] += f" {text}," if lines[-1] else f"{pad}    {text},"
    lines = [line for line in lines if line]
    return "\n".join([f"{pad}{opening}", *lines, f"{pad}{closing}"]) + "\n"


def named(value, name):
    """A value, with the name of what it is passed for unless it says that itself."""
    return (value, "" if re.search(rf"\b{name}\b", value) else name)


def untyped(names):
    """Parameters of a function that MindSpore calls."""
    return [f"{name}: Any" for name in names]
