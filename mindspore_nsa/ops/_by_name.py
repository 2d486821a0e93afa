"""Functions that hand arguments on by name; their source is written when a call is planned.

Which input of an operator is an argument of the public function, has to be cast, or is a constant
of the plan, and where the inputs of its gradient come from, follows from the schemas and the plan.
Written out, nothing of it is asked for again when the call is made, and a graph, which compiles
the source, sees a name for each Tensor: of a tuple that grows by addition it may lose elements,
because MindSpore puts zeros for those that it takes for unused.

For nsa_selected_attention with lists that are tuples `call_by_name` writes, and MindSpore reads as
`call.source`:

    def call(query, key, value, topk_indices, scale_value, head_num, ..., statistics):
        return operator(query, key, value, topk_indices, constant_actual_seq_qlen,
                        constant_actual_seq_kvlen, constant_q_offset)
"""

from mindspore import ops

from ._bprop import generated
from ._custom import absent, call_operator, schema


def call_by_name(call, operator, op=None, sources=None, parameters=(), around=None):
    """A function of the public function's arguments that gives the outputs of an operator.

    Its attribute `operator` is what it calls.

    Args:
        call (NativeCall): The planned call.
        operator (Operator): Made for it; None: it is the function's first argument.
        op: Name of the operator where it is not that of the call.
        sources: Where inputs come from that are none of the call's: expressions by name.
        parameters: Names of what these read; the function takes it before the arguments.
        around: Functions by the name of an input, which passes through them.
    """
    free, inputs, sources, around = {"cast": ops.cast}, [], sources or {}, around or {}
    specs = schema(op or call.op)["inputs"]
    _check_names(op or call.op, specs, sources, call.inputs)
    for spec in specs:
        name = spec["name"]
        text = sources.get(name) or _passed(call, name, free, spec)
        if name in around:
            free[f"around_{name}"] = around[name]
            text = f"around_{name}({text})"
        inputs.append(text)
    if operator is None:
        parameters = ("operator", *parameters)
    written = generated(
        f"def call({', '.join((*parameters, *call.arguments))}):\n"
        f"    return {_called('operator', operator, inputs, free)}\n",
        **free,
    )
    written.operator = operator
    return written


def _check_names(op, specs, sources, known):
    """Every source is that of an input, and what has to be there comes from somewhere."""
    unknown = set(sources).difference(spec["name"] for spec in specs)
    needed = {spec["name"] for spec in specs if not spec["optional"]}
    missing = needed.difference(sources, known)
    if unknown or missing:
        raise ValueError(f"{op} has no input {sorted(unknown)}, or needs {sorted(missing)}")


def _passed(call, name, free, spec):
    """The expression for an input: the argument, also cast, or a constant, which `free` gets."""
    constant = call.constants.get(name) if name in call.inputs else _absent(spec)
    if constant is not None:
        free[f"constant_{name}"] = constant
        return f"constant_{name}"
    dtype = call.casts.get(name)
    if dtype is None or call.dtype(name) == dtype:
        return name
    free[f"dtype_{name}"] = dtype
    return f"cast({name}, dtype_{name})"


def _absent(spec):
    return absent("int64") if spec["list"] else absent()


def _called(name, operator, inputs, free):
    """The expression that calls an operator, which `free` gets; None: it is of that name."""
    if operator is None:
        free["call_operator"] = call_operator
        return f"call_operator({name}, ({', '.join(inputs)},))"
    free[name] = operator.custom
    if operator.in_order is None:
        return f"{name}({', '.join(inputs)})"
    free[f"{name}_in_order"] = operator.in_order
    return f"{name}_in_order({name}, ({', '.join(inputs)},))"


def bprop_by_name(op, tensors, gradient=None, sources=None, results=(), separate=None, around=None):
    """The bprop of an operator whose gradient is another operator.

    An input of the gradient is that of the same name, what `sources` says, or absent. An input
    whose gradient is no result of it has zeros; of one that is a constant of the plan the gradient
    goes nowhere, so that any Tensor of its shape will do, and making one costs as much in PyNative
    mode as a small operator.

    Args:
        op: Name of the operator.
        tensors: Names of its lists and optional inputs that are arguments of the public function.
        gradient: Name of the operator that is its gradient, which has several outputs, and its
            `Operator`; or a function of `out` and `dout`; None: all have zeros.
        sources: Expressions of `out` and `dout`, or names of other inputs, by the gradient's names.
        results: For each output of the gradient the input that it is the gradient of, or None.
        separate: For an input the (Operator, place) that gives its gradient in another call.
        around: Functions by the name of an input, whose gradient passes through them; their second
            argument is `dout`.
    """
    free, inputs, lines = {"zeros_like": ops.zeros_like}, [], []
    specs = {spec["name"]: spec for spec in schema(op)["inputs"]}
    if callable(gradient):
        free["gradient"] = gradient
        lines.append("gradients = gradient(out, dout)")
    elif gradient is not None:
        name, operator = gradient
        _check_names(name, schema(name)["inputs"], sources, specs)
        for spec in schema(name)["inputs"]:
            text = sources.get(spec["name"]) or (spec["name"] if spec["name"] in specs else None)
            if text is None:
                text = f"absent_{spec['name']}"
                free[text] = _absent(spec)
            inputs.append(text)
        lines.append(f"gradients = {_called('gradient', operator, inputs, free)}")
    known = {name: f"gradients[{i}]" for i, name in enumerate(results) if name is not None}
    for name, (operator, place) in (separate or {}).items():
        known[name] = f"{_called(f'gradient_of_{name}', operator, inputs, free)}[{place}]"
    for name, function in (around or {}).items():
        free[f"around_{name}"] = function
        known[name] = f"around_{name}({known[name]}, dout)"
    returned = []
    for name, spec in specs.items():
        if (spec["list"] or spec["optional"]) and name not in tensors:
            returned.append(name)
        else:
            returned.append(known.get(name, f"zeros_like({name})"))
    lines.append(f"return ({', '.join(returned)},)")
    body = "".join(f"    {line}\n" for line in lines)
    return generated(f"def bprop({', '.join(specs)}, out, dout):\n{body}", **free)
