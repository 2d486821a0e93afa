"""Functions that call an operator by the names of its inputs."""

from .declared import NEVER_CAST
from .source import class_of, filled, function_of, inputs_of, replaceable


def may_be_cast(op, spec):
    """Whether a call may have to cast an input."""
    kinds = ("float", "same float", "float32", "by rules")
    return op not in NEVER_CAST and spec["elements"] in kinds


def stand_ins(op):
    """Fields of what a plan passes to the call of an operator."""
    fields = []
    for spec in inputs_of(op):
        if may_be_cast(op, spec):
            fields.append((f"{spec['name']}_dtype", "Any"))
        if replaceable(spec):
            fields.append((spec["name"], "Any"))
    return fields


def operand(op, spec):
    """Expression that a call passes for an input."""
    name = text = spec["name"]
    if may_be_cast(op, spec):
        text = f"in_dtype({text}, {name}_dtype)"
    if replaceable(spec):
        text = f"passed({text}, {name}_stand_in)"
    return text


def unpacked(op):
    """The line that gives the fields of a plan names: in a bprop `c` is a tuple without them."""
    own = {spec["name"] for spec in inputs_of(op)}
    names = [f"{field}_stand_in" if field in own else field for field, _ in stand_ins(op)]
    if not names:
        return ""
    if len(names) == 1:
        return f"    ({names[0]},) = c\n"
    return filled("(", names, ") = c", 4)


def call(op):
    """Sources of the function that calls an operator by its inputs' names, and of its class."""
    names = [spec["name"] for spec in inputs_of(op)]
    assert "operator" not in names and "c" not in names
    parameters = ["operator: Any", f"c: {op}StandIns"]
    parameters += [
        f"{spec['name']}: {'Any' if replaceable(spec) else 'Tensor'}" for spec in inputs_of(op)
    ]
    function = (
        filled(f"def call_{function_of(op)}(", parameters, ") -> Any:")
        + f'    """Call {op}."""\n{unpacked(op)}'
        + filled("return operator(", [operand(op, spec) for spec in inputs_of(op)], ")", 4)
    )
    text = f"Dtypes and stand-ins for a call of {op}."
    return [class_of(f"{op}StandIns", text, stand_ins(op)), function]
