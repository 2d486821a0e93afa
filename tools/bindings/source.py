"""Sources of the functions that fill the parameters of the CPU kernels."""

from tools.bindings.headers import bases, declarations, members, operators, structs, tensors
from tools.bindings.kernels import KERNELS


class Operator:
    """An operator with its declaration, and the expressions of what a call has."""

    def __init__(self, op):
        self.op = op
        self.kernel = KERNELS[op]
        self.function = operators()[op]
        self.params = f"cpu::{self.kernel.params}"
        self.of_inputs, self.of_attrs, self.of_outputs = declarations()[op]
        self.inputs, self.outputs = tensors(self.of_inputs), tensors(self.of_outputs)
        self.attrs = {member.name: member.type for member in members(self.of_attrs)}

    def headers(self):
        """The headers that declare it and its kernel."""
        names = self.of_inputs, self.of_attrs, self.of_outputs, self.kernel.params
        return {structs()[name].header for name in names}

    def dimension(self, place):
        """The size "tensor[1]"; of an optional tensor it is 0 where that is absent."""
        name, _, axis = place.rstrip("]").partition("[")
        if name in self.outputs:
            return f"call.outputs[out.{name}].shape[{axis}]"
        from_end = axis.removeprefix("-") if axis.startswith("-") else None
        found = (
            f"call.dim_from_end(in.{name}, {from_end})"
            if from_end
            else (f"call.dim(in.{name}, {axis})")
        )
        return f"call.has(in.{name}) ? {found} : 0" if self.inputs[name].optional else found

    def size(self, name):
        """A size by its name, from the first tensor that has it at one place in each shape."""
        tensors_ = [*self.inputs.values(), *self.outputs.values()]
        for tensor in sorted(tensors_, key=lambda tensor: tensor.optional):
            if not tensor.shapes or any(name not in shape for shape in tensor.shapes):
                continue
            places = {shape.index(name) for shape in tensor.shapes}
            if len(tensor.shapes) > 1:
                places = {shape.index(name) - len(shape) for shape in tensor.shapes}
            if len(places) == 1:
                return self.dimension(f"{tensor.name}[{places.pop()}]")
        return None

    def pointer(self, kind, name):
        """A pointer to an input, an output, or an output of the forward that is read."""
        element = kind.removeprefix("const ").rstrip("*")
        if name in self.outputs:
            return (
                f"call.out(out.{name})"
                if element == "void"
                else (f"call.out_as<{element}>(out.{name})")
            )
        if self.inputs[name].list:
            return f"call.list(in.{name})"
        if not kind.startswith("const "):
            return (
                f"call.in(in.{name}).data"
                if element == "void"
                else (f"static_cast<{kind}>(call.in(in.{name}).data)")
            )
        return f"call.data(in.{name})" if element == "void" else f"call.as<{element}>(in.{name})"

    def element_type(self, name):
        """The dtype of a tensor, or that an attribute names."""
        if name in self.attrs:
            return f"elem_type(dtype_of(attrs.{name}))"
        if name in self.outputs:
            return f"elem_type(call.outputs[out.{name}].dtype)"
        return f"elem_type(call.in(in.{name}).dtype)" if name in self.inputs else None

    def number(self, name):
        """A number: a size, an attribute, the length of a list, or the elements of a tensor."""
        if "[" in name:
            return self.dimension(name)
        if name in self.attrs:
            return f"attrs.{name}"
        if name not in self.inputs:
            return self.size(name)
        if self.inputs[name].list:
            return f"call.list_length(in.{name})"
        return f"elements(call, in.{name})"

    def value(self, member):
        """The source of a member; None where nothing has its name."""
        name = self.kernel.names.get(member.name, member.name)
        if name.startswith("="):
            return name[1:]
        if member.pointer:
            return self.pointer(member.type, name) if self.tensor(name) else None
        if member.type == "ElemType":
            # The dtype that is computed in, if no name says another.
            floats = [each.name for each in self.inputs.values() if each.dtype == "kFloat"]
            default = (
                [None, *floats][-1] if member.name == "dtype" else member.name.removesuffix("_type")
            )
            return self.element_type(self.kernel.names.get(member.name, default))
        if name == member.type:
            return "attrs"
        if name in self.inputs and self.inputs[name].dtype == "kInt64":
            return f"static_cast<{member.type}>(*call.as<int64_t>(in.{name}))"
        return self.number(name)

    def tensor(self, name):
        """Whether an input or an output has this name."""
        return name in self.inputs or name in self.outputs

    def fills(self):
        """Statements that fill the members which are not filled by hand."""
        lines = []
        of_params = [name for name in bases(self.kernel.params) if name.endswith("Attrs")]
        # Attributes that the operator does not have keep their defaults.
        copied = {member.name for member in members(of_params[-1])} if of_params else set()
        shared = [name for name in of_params if name in bases(self.of_attrs)]
        if shared:
            lines.append(f"static_cast<{shared[-1]}&>(p) = attrs;")
        for member in members(self.kernel.params):
            names = self.kernel.names.get(member.name)
            if member.name in self.kernel.by_hand or (member.name in copied and names is None):
                continue
            if isinstance(names, tuple):
                lines += [
                    f"p.{member.name}[{i}] = {self.pointer(member.type, name)};"
                    for i, name in enumerate(names)
                ]
                continue
            value = self.value(member)
            if value is None:
                raise ValueError(f"{self.op}: nothing has the name of {self.params}::{member.name}")
            lines.append(f"p.{member.name} = {value};")
        return lines

    def factor(self, factor):
        """A factor of the work, see Kernel."""
        if isinstance(factor, int):
            return str(factor)
        if factor.startswith("="):
            return factor[1:]
        return self.number(factor)

    def float32(self):
        """Inputs that stay float32 under mixed precision."""
        names = self.kernel.float32
        if names is None:
            names = [each.name for each in self.inputs.values() if each.dtype == "kFloat32"]
        return names

    def function_of(self, signature, lines, attrs=None):
        """Source of a function, with those of the names `in`, `out` and `attrs` that it uses."""
        body = "\n".join(lines)
        head = []
        if "in." in body:
            head.append(f"constexpr const {self.of_inputs}& in = k{self.of_inputs};")
        if "out." in body:
            head.append(f"constexpr const {self.of_outputs}& out = k{self.of_outputs};")
        if "attrs" in body:
            attrs = attrs or f"call.attrs<{self.of_attrs}>()"
            head.append(f"const auto& attrs = {attrs};")
        return f"{signature} {{\n" + "\n".join(head + lines) + "\n}\n"


def fill(operator):
    """Source of the function that fills the parameters."""
    signature = f"void fill_{operator.function}(const CheckedCall& call, {operator.params}& p)"
    return operator.function_of(signature, operator.fills())


def run(operator):
    """Source of the function that calls the kernel."""
    name = operator.kernel.function or operator.function
    lines = [f"{operator.params} p{{}};", f"fill_{operator.function}(call, p);", f"cpu::{name}(p);"]
    return operator.function_of(f"void run_{operator.function}(const CheckedCall& call)", lines)


def work(operator):
    """Source of the function that says how much work a call is."""
    terms = []
    for factors in operator.kernel.work:
        sources = [operator.factor(factor) for factor in factors]
        terms.append(sources[0] if len(sources) == 1 else f"product({{{', '.join(sources)}}})")
    return operator.function_of(
        f"int64_t work_of_{operator.function}(const CheckedCall& call)",
        [f"return {' + '.join(terms)};"],
    )


def float32(operator):
    """Source of the function that names the inputs that stay float32."""
    bits = [
        f"input_bit(in.{name})"
        if isinstance(name, str)
        else f"({name[1]} ? input_bit(in.{name[0]}) : 0)"
        for name in operator.float32()
    ]
    body = f"return {' | '.join(bits)};"
    parameter = "bound" if "attrs" in body else ""
    return operator.function_of(
        f"uint32_t float32_inputs_of_{operator.function}(const BoundAttrs& {parameter})",
        [body],
        f"bound.as<{operator.of_attrs}>()",
    )


def entry(operator):
    """Source of the CpuKernelEntry."""
    kernel, function = operator.kernel, operator.function
    members_ = [f"run_{function}", f"work_of_{function}"]
    if operator.float32():
        members_.append(f"float32_inputs_of_{function}")
    elif kernel.check:
        members_.append("nullptr")
    if kernel.check:
        members_.append(f"check_{function}")
    return f"const CpuKernelEntry {function}_entry{{{', '.join(members_)}}};\n"


def by_hand(operator):
    """Declarations of the functions that binding/bind_*.cc has, or calls."""
    kernel, function = operator.kernel, operator.function
    lines = []
    if kernel.run:
        lines.append(f"void fill_{function}(const CheckedCall& call, {operator.params}& p);")
        lines.append(f"void run_{function}(const CheckedCall& call);")
    if kernel.work is None:
        lines.append(f"int64_t work_of_{function}(const CheckedCall& call);")
    if kernel.check:
        lines.append(f"void check_{function}(const CheckedCall& call);")
    return lines


def family(names):
    """The file of an operator and its gradient."""
    each = [Operator(name) for name in names]
    headers = sorted(set().union(*(operator.headers() for operator in each)))
    hidden, shown = [], []
    for operator in each:
        kernel = operator.kernel
        (shown if kernel.run else hidden).append(fill(operator))
        if not kernel.run:
            hidden.append(run(operator))
        if kernel.work is not None:
            hidden.append(work(operator))
        if operator.float32():
            hidden.append(float32(operator))
    parts = ["namespace {\n", *hidden, "}  // namespace\n"] if hidden else []
    parts += [*shown, "".join(map(entry, each))]
    body = "\n".join(parts)
    includes = "#include <algorithm>\n\n" if "std::m" in body else ""
    hand = ["binding/generated/by_hand.h"] if any(map(by_hand, each)) else []
    for name in (*hand, "binding/op_call.h", *headers):
        includes += f'#include "{name}"\n'
    return includes, body
