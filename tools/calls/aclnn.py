"""Functions that call the aclnn function of an operator in CANN's package."""

import re
from dataclasses import dataclass

from mindspore_nsa import _native

from .source import class_of, filled, function_of, inputs_of, named, untyped


def snake(name):
    """actualSeqQLenOptional as actual_seq_q_len_optional."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])|(?<=[A-Z])([A-Z])(?=[a-z])", r"_\g<0>", name).lower()


@dataclass
class Argument:
    """An argument of an aclnn function.

    Attributes:
        name: In Python.
        value: What is passed for it.
        field: What a plan has to know for that, or None.
        place: The operator's input that it is, or None.
        condition: Whether that is given; None: always.
    """

    name: str
    value: str
    field: str | None = None
    place: int | None = None
    condition: str | None = None


def argument(op, parameter):
    """How an argument is passed."""
    name = snake(parameter["name"])
    if parameter["source"] is None:
        default = None if parameter["kind"] == "tensor" else parameter["default"]
        return Argument(name, f'"{default}"' if isinstance(default, str) else repr(default))
    if parameter["source"] == "attr":
        return Argument(name, f"c.{name}", name)
    spec = inputs_of(op)[parameter["index"]]
    value, place = spec["name"], parameter["index"]
    if spec["list"] and parameter["kind"] == "tensor":
        # None where it is absent, else the dtype that the function reads.
        return Argument(name, f"listed({value}, c.{name})", name, place, f"c.{name} is not None")
    if spec["list"]:
        return Argument(name, f"host_list({value}, c.{name})", name, place, f"c.{name}")
    if spec["optional"]:
        return Argument(name, f"{value} if c.{name} else None", name, place, f"c.{name}")
    return Argument(name, value, None, place)


def reordered(op, name):
    """Source of the operator's outputs from those of its aclnn function."""
    outputs = [p for p in _native.ascend_signature(op) if p["role"] == "output"]
    found = [p["index"] if p["source"] else -1 for p in outputs]
    places = [found.index(i) for i in range(len(_native.schema(op)["outputs"]))]
    if len(places) == 1:
        return name
    return f"({', '.join(f'{name}[{place}]' for place in places)})"


def aclnn(op):
    """Sources of the class and the two functions of an operator."""
    parameters = [p for p in _native.ascend_signature(op) if p["role"] != "output"]
    arguments = [argument(op, parameter) for parameter in parameters]
    inputs, function = inputs_of(op), function_of(op)
    fields = [(x.field, "Any") for x in arguments if x.field]
    forward = (
        filled(f"def aclnn_{function}(", ["custom: Any", f"c: {op}Arguments"], ") -> Any:")
        + f'    """Make a function of the inputs of {op}."""\n\n'
        + filled("def call(", untyped(spec["name"] for spec in inputs), ") -> Any:", 4)
        + filled("out = custom(", [named(x.value, x.name) for x in arguments], ")", 8)
        + f"        return {reordered(op, 'out')}\n\n    return call"
    )
    by_place = {x.place: x for x in arguments if x.place is not None}
    passed = []
    for i, _ in enumerate(inputs):
        x = by_place.get(i)
        if x is None:
            passed.append("placeholder")
        else:
            passed.append(f"{x.name} if {x.condition} else placeholder" if x.condition else x.name)
    passed += [reordered(op, name) for name in ("out", "dout")]
    back = []
    for x in arguments:
        value = x.name if x.place is None else f"gradients[{x.place}]"
        back.append(f"{value} if {x.condition} else {x.name}" if x.condition else value)
    placeholder = "    placeholder = absent()\n" if "placeholder" in " ".join(passed) else ""
    names = (*(x.name for x in arguments), "out", "dout")
    backward = (
        filled(f"def aclnn_bprop_of_{function}(", ["bprop: Any", f"c: {op}Arguments"], ") -> Any:")
        + f'    """Make the bprop of the aclnn function from that of {op}."""\n{placeholder}\n'
        + filled("def backward(", untyped(names), ") -> Any:", 4)
        + filled("gradients = bprop(", passed, ")", 8)
        + filled("return (", back, ")", 8)
        + "\n    return backward"
    )
    text = f"Arguments of the aclnn function of {op} that the host knows."
    return [class_of(f"{op}Arguments", text, fields), forward, backward]
