"""The stub of the native module, from what pybind11 writes into the docstrings."""

import re
import textwrap

from mindspore_nsa import _native

from .source import filled

# pybind11 names the classes of Python alone; a version of it says what else an int may be made of.
_TYPES = (
    (r"typing\.SupportsInt( \| typing\.SupportsIndex)?", "int"),
    (r"collections\.abc\.Sequence", "Sequence"),
    (r"\b(List|Tuple|Dict)\b", lambda found: found[0].lower()),
    (r"\b(Sequence|list)\b(?!\[)", r"\1[Any]"),
    (r"\btuple\b(?!\[)", "tuple[Any, ...]"),
    (r"\bdict\b(?!\[)", "dict[str, Any]"),
    (r": type\b", ": type[Any]"),
    (r"\bobject\b", "Any"),
    (r"'", '"'),
)


def stub_of(name):
    """Source of the stub of a function."""
    signature, _, text = getattr(_native, name).__doc__.partition("\n")
    for pattern, kind in _TYPES:
        signature = re.sub(pattern, kind, signature)
    head, _, rest = signature.partition("(")
    parameters, _, result = rest.rpartition(") -> ")
    names = re.split(r", (?=\w+: )", parameters) if parameters else []
    text = textwrap.fill(" ".join(text.split()), 90)
    lines = textwrap.indent(f'"""{text}"""' if text else "...", "    ")
    return filled(f"def {head}(", names, f") -> {result}:") + lines


def native_stub():
    """The source of _native.pyi."""
    names = sorted(name for name in vars(_native) if not name.startswith("_"))
    return (
        "# Written by tools/generate_calls.py from binding/: run `make generate`.\n"
        "# fmt: off\n"
        "from collections.abc import Sequence\nfrom typing import Any\n\n"
        + "\n\n".join(map(stub_of, names))
        + "\n"
    )
