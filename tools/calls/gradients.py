"""Functions that make the bprop of an operator."""

from .declared import GRADIENTS, ZEROS
from .source import class_of, filled, function_of, inputs_of, named, replaceable, untyped


def given_fields(op):
    """Plan fields that an operator's bprop reads."""
    gradient = GRADIENTS.get(op)
    fields = [spec["name"] for spec in inputs_of(op) if replaceable(spec)]
    if gradient is not None:
        fields += gradient.flagged
        fields += [f"{gradient.separate}_grad"] if gradient.separate else []
    return fields


def sourced(op):
    """(expression, name of the gradient's input) of each input of an operator's gradient."""
    gradient = GRADIENTS[op]
    own = {spec["name"] for spec in inputs_of(op)}
    known = {spec["name"] for spec in inputs_of(gradient.op)}
    strangers = {*gradient.sources, *gradient.flagged} - known
    if strangers:
        raise ValueError(f"{gradient.op} has no input {sorted(strangers)}")
    for spec in inputs_of(gradient.op):
        name = spec["name"]
        absent = "no_list" if spec["list"] else "nothing"
        if name in gradient.flagged:
            yield f"{gradient.flagged[name]} if given.{name} else {absent}", name
        elif name in gradient.sources:
            yield gradient.sources[name], name
        elif name in own:
            yield name, name
        elif spec["optional"]:
            yield absent, name
        else:
            raise ValueError(f"{gradient.op} needs {name}, which {op} has not")


def returned(op, known):
    """Source of the gradients of all inputs."""
    texts, gradient = [], GRADIENTS.get(op)
    for spec in inputs_of(op):
        name = spec["name"]
        if not replaceable(spec):
            texts.append(known.get(name, f"zeros_like({name})"))
        elif gradient is not None and name == gradient.separate:
            absent = f"zero_gradient({name}, given.{name})"
            texts.append(f"{known[name]} if given.{name}_grad else {absent}")
        elif name in known:
            texts.append(f"{known[name]} if given.{name} else {name}")
        else:
            texts.append(f"zero_gradient({name}, given.{name})")
    return filled("return (", texts, ")", 8)


def head_of_bprop(op):
    """Source of the first lines of a bprop, which has the inputs as parameters."""
    names = [spec["name"] for spec in inputs_of(op)]
    return filled("def bprop(", untyped((*names, "out", "dout")), ") -> Any:", 4)


def bprop(op):
    """Source of the function that makes the bprop of an operator."""
    gradient = GRADIENTS[op]
    known = {name: f"gradients[{i}]" for i, name in enumerate(gradient.results) if name}
    parameters = ["gradient: Any", f"given: {op}Given"]
    made = ""
    if gradient.op is None:
        body = "        gradients = gradient(out, dout)\n"
        text = f"Make the bprop of {op}."
    else:
        operands = [named(value, name) for value, name in sourced(op)]
        text = f"Make the bprop of {op} from {gradient.op}."
        absent = {word for expression, _ in operands for word in expression.split()}
        made = "    nothing = absent()\n" if "nothing" in absent else ""
        made += '    no_list = absent("int64")\n' if "no_list" in absent else ""
        body = filled("gradients = gradient(", operands, ")", 8)
    if gradient.separate:
        name = gradient.separate
        place = gradient.results.index(name)
        parameters.append(f"{name}_gradient: Any")
        text += (
            f"\n\n    `{name}_gradient` is None, or another one, for {name} alone, which does not\n"
            f"    run where that gradient is not used.\n    "
        )
        body += (
            f"        if {name}_gradient is None:\n"
            f"            {name}_grad = gradients[{place}]\n        else:\n"
        )
        body += filled(f"{name}_grad = {name}_gradient(", operands, f")[{place}]", 12)
        known[name] = f"{name}_grad"
    return (
        filled(f"def bprop_of_{function_of(op)}(", parameters, ") -> Any:")
        + f'    """{text}"""\n{made}\n{head_of_bprop(op)}{body}{returned(op, known)}\n'
        + "    return bprop"
    )


def zero_bprop(op):
    """Source of the function that makes a bprop of zeros."""
    return (
        f"def zero_bprop_of_{function_of(op)}(given: {op}Given) -> Any:\n"
        f'    """Make the bprop of {op} where nothing has a gradient."""\n\n'
        f"{head_of_bprop(op)}{returned(op, {})}\n    return bprop"
    )


def bprops(op):
    """Sources of the bprops of an operator, and of the class of what they are given."""
    fields = [(name, "bool") for name in given_fields(op)]
    parts = [class_of(f"{op}Given", f"Inputs that the bprop of {op} is given.", fields)]
    parts += [bprop(op)] if op in GRADIENTS else []
    return parts + ([zero_bprop(op)] if op in ZEROS else [])


def refusal(count):
    """Source of the function that makes a bprop of errors for so many inputs."""
    names = [f"x{i}" for i in range(count)]
    return (
        f"def _refusal_of_{count}(text: str) -> Any:\n"
        + filled("def bprop(", untyped((*names, "out", "dout")), ") -> Any:", 4)
        + filled("return refuse_each(text, (", names, "," * (count == 1) + "))", 8)
        + "\n    return bprop"
    )
