"""Write the Python functions that restate the schemas of the native operators.

An operator's inputs, their order, and which of them are optional or lists is declared once, in
`infer/`. The functions that pass Tensors by these names are written from there into committed files
of mindspore_nsa/ops, because a graph has to see a name for each Tensor: of a tuple that grows by
addition MindSpore may lose elements.

`make generate` writes the files, `--check` only compares them.
"""

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from mindspore_nsa import _native

FOLDER = Path(__file__).resolve().parents[1] / "mindspore_nsa" / "ops"
HEAD = (
    '"""{title}\n\n'
    'Written by tools/generate_calls.py: change it there, then run `make generate`.\n"""\n'
)

# Operators that a public function, or a Cell, calls with its arguments.
CALLED = (
    "NsaCompress",
    "NsaCompressAttention",
    "NsaSelectedAttention",
    "NsaSelectedAttentionGrad",
    "FlashAttentionScore",
    "NsaCompressWithCache",
    "NsaCompressAttentionInfer",
    "NsaSelectedAttentionInfer",
    "NsaCacheStep",
    "NsaDecode",
    "BlockIndexer",
    "LightningIndexer",
    "SparseFlashAttention",
    "SparseLightningIndexerGradKLLoss",
    "DenseLightningIndexerSoftmaxLse",
    "DenseLightningIndexerGradKLLoss",
)
# They write into their inputs, and what is written into a cast copy is lost.
NEVER_CAST = ("NsaCacheStep", "NsaCompressWithCache")
# Their results are not differentiated; each has an error of its own.
REFUSED = (
    "NsaCompressGrad",
    "NsaSelectedAttentionGrad",
    "FlashAttentionScoreGrad",
    "LightningIndexerGrad",
    "SparseFlashAttentionGrad",
    "NsaSplitHeadsGrad",
    "NsaMixBranchesGrad",
    "NsaProjectionInputGrad",
    "NsaProjectionWeightGrad",
    "NsaCompressWithCache",
    "NsaCompressAttentionInfer",
    "NsaSelectedAttentionInfer",
    "NsaCacheStep",
    "NsaDecode",
    "SparseFlashAttention",
    "SparseLightningIndexerGradKLLoss",
    "DenseLightningIndexerSoftmaxLse",
    "DenseLightningIndexerGradKLLoss",
)


@dataclass
class Gradient:
    """Where the gradients of an operator's inputs come from.

    Attributes:
        op: The operator that gives them; None: a function of `out` and `dout`.
        results: For each of its outputs the input that it is the gradient of, or None.
        sources: Expressions of `out` and `dout`, or other inputs, by the inputs of `op`.
        flagged: Sources that a plan may leave out.
        separate: The input whose gradient another call of `op` may give, and which need not have
            one.
    """

    op: str | None = None
    results: tuple = ()
    sources: dict = field(default_factory=dict)
    flagged: dict = field(default_factory=dict)
    separate: str | None = None


GRADIENTS = {
    "NsaCompress": Gradient(
        "NsaCompressGrad", results=("input", "weight"), sources={"output_grad": "dout"}
    ),
    "NsaCompressAttention": Gradient(
        "FlashAttentionScoreGrad",
        results=("query", "key", "value"),
        sources={
            "dy": "dout[0]",
            "attn_mask": "atten_mask",
            "softmax_max": "out[2]",
            "softmax_sum": "out[3]",
            "attention_in": "out[0]",
            "actual_seq_kvlen": "actual_cmp_seq_kvlen",
        },
        flagged={"softmax_sum_grad": "dout[3]"},
    ),
    "NsaSelectedAttention": Gradient(
        "NsaSelectedAttentionGrad",
        results=("query", "key", "value"),
        sources={
            "attention_out": "out[0]",
            "attention_out_grad": "dout[0]",
            "softmax_max": "out[1]",
            "softmax_sum": "out[2]",
        },
        flagged={"softmax_sum_grad": "dout[2]"},
    ),
    "FlashAttentionScore": Gradient(
        "FlashAttentionScoreGrad",
        results=("query", "key", "value", "real_shift", "sink"),
        sources={
            "dy": "dout[0]",
            "softmax_max": "out[1]",
            "softmax_sum": "out[2]",
            "attention_in": "out[0]",
        },
        flagged={"softmax_sum_grad": "dout[2]"},
        separate="real_shift",
    ),
    "LightningIndexer": Gradient(
        "LightningIndexerGrad",
        results=("query", "key", "weights"),
        sources={"sparse_values_grad": "dout[1]", "sparse_indices": "out[0]"},
    ),
    "SparseFlashAttention": Gradient(
        "SparseFlashAttentionGrad",
        results=("query", "key", "value", "query_rope", "key_rope", "sinks"),
        sources={"attention_out": "out[0]", "attention_out_grad": "dout[0]"},
        flagged={"softmax_sum_grad": "dout[2]"},
    ),
    "SparseLightningIndexerGradKLLoss": Gradient(results=("query_index", "key_index", "weights")),
    "DenseLightningIndexerGradKLLoss": Gradient(results=("query_index", "key_index", "weights")),
}
# Integer results, of which all gradients are zeros.
ZEROS = ("BlockIndexer", "LightningIndexer")


def inputs_of(op):
    """The declared inputs of an operator."""
    return _native.schema(op)["inputs"]


def function_of(op):
    """An operator's name in Python."""
    return _native.schema(op)["function"]


def replaceable(spec):
    """Whether a constant may stand in for an input."""
    return spec["optional"] or spec["list"]


def class_of(name, text, fields):
    """Source of a NamedTuple."""
    lines = [f"class {name}(NamedTuple):", f'    """{text}"""', ""]
    return "\n".join(lines + [f"    {field}: {kind}" for field, kind in fields])


def mapping(name, kind, pairs):
    """Source of a dict by operators' names."""
    items = "".join(f'    "{key}": {value},\n' for key, value in pairs)
    return f"{name}: dict[str, {kind}] = {{\n{items}}}"


# ------- calls


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
    """What the operator gets for an input."""
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
    return f"    {', '.join(names)}{',' * (len(names) == 1)} = c\n" if names else ""


def call(op):
    """Source of the function that calls an operator by its inputs' names."""
    names = [spec["name"] for spec in inputs_of(op)]
    parameters = "".join(
        f"    {spec['name']}: {'Any' if replaceable(spec) else 'Tensor'},\n"
        for spec in inputs_of(op)
    )
    operands = "".join(f"        {operand(op, spec)},\n" for spec in inputs_of(op))
    assert "operator" not in names and "c" not in names
    return (
        f"def call_{function_of(op)}(\n    operator: Any,\n    c: {op}StandIns,\n{parameters}"
        f') -> Any:\n    """Call {op}."""\n{unpacked(op)}    return operator(\n{operands}    )'
    )


def calls():
    """The source of _calls.py."""
    parts = [
        HEAD.format(
            title="Calls of the native operators by the names of their inputs.\n\n"
            "`c` has what a plan knows of a call: the dtype that an input is cast to, and what\n"
            "is passed for a list or an optional input; None: the argument as it is. A graph of a\n"
            "bprop takes `c` for a tuple without names, so it is unpacked."
        ),
        "from typing import Any, NamedTuple\n",
        "from mindspore import Tensor\n",
        "from ._operands import in_dtype, passed\n",
    ]
    for op in CALLED:
        text = f"Dtypes and stand-ins for a call of {op}."
        parts += [class_of(f"{op}StandIns", text, stand_ins(op)), call(op)]
    parts.append(
        mapping("STAND_INS", "Any", ((op, f"{op}StandIns") for op in CALLED if stand_ins(op)))
    )
    return "\n\n".join(parts) + "\n"


# ------- gradients


def given_fields(op):
    """What a plan says to an operator's bprop."""
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


def applied(function, operands, indent):
    """The source of a call with an operand on each line, and its name where it is another."""
    lines = "".join(
        f"{indent}    {text},{'' if text == name else '  # ' + name}\n" for text, name in operands
    )
    return f"{function}(\n{lines}{indent})"


def listing(texts):
    """Source of the elements of a call or a tuple in a nested function."""
    return "".join(f"            {text},\n" for text in texts)


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
    return "        return (\n" + listing(texts) + "        )\n"


def head_of_bprop(op):
    """Source of the first lines of a bprop, which has the inputs as parameters."""
    names = [spec["name"] for spec in inputs_of(op)]
    return f"    def bprop({', '.join((*names, 'out', 'dout'))},):\n"


def bprop(op):
    """Source of the function that makes the bprop of an operator."""
    gradient = GRADIENTS[op]
    known = {name: f"gradients[{i}]" for i, name in enumerate(gradient.results) if name}
    parameters = f"gradient: Any, given: {op}Given"
    made = body = ""
    if gradient.op is None:
        body = "        gradients = gradient(out, dout)\n"
        text = f"Make the bprop of {op}."
    else:
        operands = list(sourced(op))
        text = f"Make the bprop of {op} from {gradient.op}."
        absent = {word for expression, _ in operands for word in expression.split()}
        made = "    nothing = absent()\n" if "nothing" in absent else ""
        made += '    no_list = absent("int64")\n' if "no_list" in absent else ""
        body = f"        gradients = {applied('gradient', operands, ' ' * 8)}\n"
    if gradient.separate:
        name = gradient.separate
        place = gradient.results.index(name)
        parameters += f", {name}_gradient: Any"
        text += (
            f"\n\n    `{name}_gradient` is None, or another one, for {name} alone, which does not\n"
            f"    run where that gradient is not used.\n    "
        )
        body += (
            f"        if {name}_gradient is None:\n"
            f"            {name}_grad = gradients[{place}]\n"
            f"        else:\n            {name}_grad = "
            f"{applied(f'{name}_gradient', operands, ' ' * 12)}[{place}]\n"
        )
        known[name] = f"{name}_grad"
    return (
        f'def bprop_of_{function_of(op)}({parameters}) -> Any:\n    """{text}"""\n{made}\n'
        f"{head_of_bprop(op)}{body}{returned(op, known)}\n    return bprop"
    )


def zero_bprop(op):
    """Source of the function that makes a bprop of zeros."""
    return (
        f"def zero_bprop_of_{function_of(op)}(given: {op}Given) -> Any:\n"
        f'    """Make the bprop of {op} where nothing has a gradient."""\n\n'
        f"{head_of_bprop(op)}{returned(op, {})}\n    return bprop"
    )


def bprops():
    """The source of _bprops.py."""
    parts = [
        HEAD.format(
            title="Gradients of the native operators.\n\n"
            "`gradient` is the operator that computes them, or a function of `out` and `dout`.\n"
            "`given` says which lists and optional inputs are arguments of the call. An input\n"
            "without a gradient has zeros. One that is a constant of the plan stands for its own\n"
            "gradient, which goes nowhere."
        ),
        "from typing import Any, NamedTuple\n",
        "from mindspore.ops import zeros_like\n",
        "from ._custom import absent\nfrom ._operands import zero_gradient\n",
    ]
    both = [op for op in CALLED if op in GRADIENTS or op in ZEROS]
    for op in both:
        fields = [(name, "bool") for name in given_fields(op)]
        parts.append(class_of(f"{op}Given", f"What the bprop of {op} is given.", fields))
        parts += [bprop(op)] if op in GRADIENTS else []
        parts += [zero_bprop(op)] if op in ZEROS else []
    parts.append(mapping("GIVEN", "Any", ((op, f"{op}Given") for op in both)))
    return "\n\n".join(parts) + "\n"


def refusal(op):
    """Source of the function that makes a bprop of errors."""
    names = [spec["name"] for spec in inputs_of(op)]
    return (
        f"def refuse_gradient_of_{function_of(op)}(text: str) -> Any:\n"
        f'    """Make the bprop of {op} that raises an error."""\n\n'
        f"{head_of_bprop(op)}        return refuse_each(text, ({', '.join(names)},))\n\n"
        f"    return bprop"
    )


def refusals():
    """The source of _refusals.py."""
    parts = [
        HEAD.format(title="Gradients that do not exist: bprops that raise where one is used."),
        "from typing import Any\n",
        "from ._refuse import refuse_each\n",
        *map(refusal, REFUSED),
        mapping(
            "REFUSALS", "Any", ((op, f"refuse_gradient_of_{function_of(op)}") for op in REFUSED)
        ),
    ]
    return "\n\n".join(parts) + "\n"


# ------- aclnn functions


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
        return Argument(name, repr(default))
    if parameter["source"] == "attr" or parameter["kind"] != "tensor":
        return Argument(name, f"c.{name}", name)
    spec = inputs_of(op)[parameter["index"]]
    value, place = spec["name"], parameter["index"]
    if spec["list"]:
        # None where it is absent, else the dtype that the function reads.
        return Argument(name, f"listed({value}, c.{name})", name, place, f"c.{name} is not None")
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
    names = ", ".join(spec["name"] for spec in inputs)
    passed = "".join(
        f"            {x.value},{'' if x.value in (x.name, 'c.' + x.name) else '  # ' + x.name}\n"
        for x in arguments
    )
    fields = [(x.field, "Any") for x in arguments if x.field]
    forward = (
        f"def aclnn_{function}(custom: Any, c: {op}Arguments) -> Any:\n"
        f'    """Make a function of the inputs of {op}."""\n\n'
        f"    def call({names},):\n        out = custom(\n{passed}        )\n"
        f"        return {reordered(op, 'out')}\n\n    return call"
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
    backward = (
        f"def aclnn_bprop_of_{function}(bprop: Any, c: {op}Arguments) -> Any:\n"
        f'    """Make the bprop of the aclnn function from that of {op}."""\n'
        f"{placeholder}\n"
        f"    def backward({', '.join(x.name for x in arguments)}, out, dout,):\n"
        f"        gradients = bprop(\n{listing(passed)}        )\n"
        f"        return (\n{listing(back)}        )\n\n"
        "    return backward"
    )
    text = f"What the aclnn function of {op} is called with, beside Tensors."
    return [class_of(f"{op}Arguments", text, fields), forward, backward]


def aclnn_functions():
    """The source of _aclnn.py."""
    parts = [
        HEAD.format(
            title="Calls of the aclnn functions of CANN's package with an operator's inputs.\n\n"
            "`c` has the values that the host knows, whether an optional Tensor is given, and\n"
            "the dtype of a list that is a Tensor; None: it is absent. For an argument that is no\n"
            "Tensor a bprop returns anything."
        ),
        "from typing import Any, NamedTuple\n",
        "from ._custom import absent\nfrom ._operands import listed\n",
    ]
    ops = _native.ascend_operators()
    for op in ops:
        parts += aclnn(op)
    triples = (
        f"({op}Arguments, aclnn_{function_of(op)}, aclnn_bprop_of_{function_of(op)})" for op in ops
    )
    parts.append(mapping("ACLNN", "Any", zip(ops, triples)))
    return "\n\n".join(parts) + "\n"


FILES = {
    "_calls.py": calls,
    "_bprops.py": bprops,
    "_refusals.py": refusals,
    "_aclnn.py": aclnn_functions,
}


def formatted(name, source):
    """The source as `make format` leaves it."""
    ruff = [sys.executable, "-m", "ruff"]
    stdin = f"--stdin-filename={FOLDER / name}"
    for command in (["check", "--select=I", "--fix"], ["format"]):
        done = subprocess.run(
            [*ruff, *command, "-q", "--no-cache", stdin, "-"],
            input=source,
            capture_output=True,
            text=True,
            cwd=FOLDER,
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stdout[-500:]}{done.stderr}")
        source = done.stdout
    return source


def main():
    """Write the files, or name those that are not as they would be written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    stale = []
    for name, write in FILES.items():
        source, path = formatted(name, write()), FOLDER / name
        if path.exists() and path.read_text() == source:
            continue
        stale.append(str(path.relative_to(FOLDER.parents[1])))
        if not check:
            path.write_text(source)
    if stale:
        print(f"{'not fresh, run make generate' if check else 'written'}: {', '.join(stale)}")
    return bool(check and stale)


if __name__ == "__main__":
    sys.exit(main())
