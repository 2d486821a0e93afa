"""Planning a call: everything that is decided from types, shapes and constants alone.

A public function is parsed by MindSpore as part of a graph as well as run by Python, so it holds
only what both understand. Whatever else there is to do (checks, promotion of dtypes, the choice of
a Custom) is done by a `Planner`, which sees the same descriptions of the arguments in both worlds:
the arguments themselves in PyNative mode, the abstract values of the compiler in a graph. Errors
therefore have the same type and text everywhere.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, lru_cache
from typing import Any, NoReturn

import mindspore
import numpy as np
from mindspore import Tensor
from mindspore.common.dtype import TensorType

from .. import _native
from .._config import graph_compiled, requested_target, resolve_target
from ._constexpr import Constexpr
from ._custom import (
    absent,
    device_lists,
    encode_attrs,
    list_tensor,
    planned_for_graph,
    planned_target,
    planned_tensor_lists,
    schema,
)
from ._device import device
from .generated import GIVEN, STAND_INS

DTYPE_NAMES = {
    getattr(mindspore, name): name
    for name in (
        "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 "
        "complex64 complex128"
    ).split()
}
DTYPE_NAMES[mindspore.bool_] = "bool"

# Most common dtypes first.
_DTYPES = tuple(sorted(DTYPE_NAMES, key=lambda dtype: "float" not in DTYPE_NAMES[dtype]))
_SCALARS = frozenset((int, float, str, bool, type(None)))

FLOATS = (mindspore.float16, mindspore.bfloat16, mindspore.float32)


class TensorSpec(tuple[Any, ...]):
    """Knowledge of a Tensor argument: (dtype, shape or None, content or None).

    The content is the tuple of values of a sequence list, or the verdict on a mask.
    """

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """MindSpore dtype."""
        return self[0]

    @property
    def shape(self) -> Any:
        """Tuple with -1 for unknown dimensions; None for an unknown rank."""
        return self[1]

    @property
    def content(self) -> Any:
        """Tuple of list values, or whether a mask is upper triangular; None if unknown."""
        return self[2]

    def native(self, dtype: Any = None) -> tuple[Any, ...]:
        """The description that `_native.infer` takes."""
        name = DTYPE_NAMES.get(dtype or self[0], str(self[0]).lower())
        return (name, self[1], self[2] if isinstance(self[2], tuple) else None)

    def __repr__(self) -> str:
        shape = "unknown" if self[1] is None else self[1]
        return f"Tensor(shape={shape}, dtype={DTYPE_NAMES.get(self[0], self[0])})"


TensorSpec.__name__ = "Tensor"  # so that messages name what the user passed


_MISSING = object()


class _Unknown:
    """A scalar or a sequence that the compiler does not know."""

    def __repr__(self) -> str:
        return "a value that is not known when the graph is compiled"


_Unknown.__name__ = "unknown"  # what messages show as its type
UNKNOWN = _Unknown()


def shown(got: Any) -> str:
    """A wrong argument as messages show it."""
    # An array's text has several lines.
    return f"{' '.join(ascii(got).split())[:80]} ({type(got).__name__})"


def fail_type(function: str, argument: str, expected: str, got: Any) -> NoReturn:
    """Raise the TypeError of a wrong argument, in the words of the native checks."""
    text = f"{function}: {argument} must be {expected}, got {shown(got)}"
    if got is UNKNOWN and "a Tensor" in expected:
        # (x.shape[0],) is such a value where shapes are open.
        text += "; a Tensor may hold it, as mindspore.ops.dyn_shape(x)[:1] does for (x.shape[0],)"
    raise TypeError(text)


def require_none(function: str, argument: str, got: Any) -> None:
    """Raise the ValueError of an argument that is reserved."""
    if got is not None:
        raise ValueError(f"{function}: {argument} must be None, it is reserved, got {shown(got)}")


def is_constant(value: Any) -> bool:
    """Whether this is the value of a Tensor that the compiler knows."""
    # One that it does not comes as None (2.7.1) or as an empty one (2.10).
    return value is not None and not getattr(value, "created_empty_tensor", False)


def _where() -> tuple[Any, Any]:
    """Return what says where a call runs."""
    return requested_target(), device()


class Planner(Constexpr):
    """Calls `plan` with every Tensor replaced by a `TensorSpec`, and keeps the result.

    A call gives the arguments of a function in the order of its signature, from which their names
    come; the plan gets them by name.

    Calls in PyNative mode and of graphs share one dict of results. The key of a call in PyNative
    mode is what the native library makes of its arguments, where it can; else it is the arguments
    as a plan gets them. A call that the dict has no room for takes the place of the oldest.

    Every module gives its planner a name of its own: level O1 of MindSpore's amp copies the
    functions that a network calls into one file, where equal names would be one.

    Args:
        plan: Function of hashable descriptions. The result may hold only constants and functions;
            MindSpore compiles every function in it. One that has several parts is unpacked where it
            is used, since a graph takes no function from a field by the field's name.
        function: The function whose arguments are passed.
        op: Native operator, whose sequence lists are read where their values can be.
        lists: Names of further sequence lists.
        masks: Names of masks that must be upper triangular where their content is known.
        kept: Number of results that are kept.
    """

    def __init__(
        self,
        plan: Any,
        function: Callable[..., Any],
        op: str | None = None,
        lists: Iterable[str] = (),
        masks: Iterable[str] = (),
        kept: int = 1024,
    ) -> None:
        # A compiler may take either of two primitives with one name and equal attributes.
        super().__init__(f"Plan{plan.__module__.rpartition('.')[2]}{plan.__name__}")
        self._plan = plan
        self.names = tuple(inspect.signature(function).parameters)
        lists = {*lists, *(spec["name"] for spec in _lists_of(op))}
        self.lists = frozenset(i for i, name in enumerate(self.names) if name in lists)
        on_device = frozenset() if op is None else device_lists(op)
        self._on_host = frozenset(i for i in self.lists if self.names[i] not in on_device)
        self.read = self.lists.union(map(self.names.index, masks))
        self._read_bits = sum(1 << i for i in self.read)
        self._kept = kept
        self._results: dict[Any, Any] = {}

    def forget(self) -> None:
        """Plan every call anew."""
        self._results.clear()

    def _run(self, specs: Any, in_graph: Any) -> Any:
        target = resolve_target(requested_target(), mindspore.context.get_context("device_target"))
        if in_graph:
            graph_compiled(target)
        late = target == "ascend" and any(_unknown_list(specs[i]) for i in self._on_host)
        token, graph_token = planned_target.set(target), planned_for_graph.set(in_graph)
        lists_token = planned_tensor_lists.set(late)
        try:
            values = (s.plain() if type(s) is _Sequence else s for s in specs)
            return self._plan(**dict(zip(self.names, values, strict=True)))
        finally:
            planned_target.reset(token)
            planned_for_graph.reset(graph_token)
            planned_tensor_lists.reset(lists_token)

    def _keep(self, key: Any, result: Any) -> Any:
        # A list, because other threads may add to the dict meanwhile.
        for oldest in list(self._results)[: len(self._results) + 1 - self._kept]:
            self._results.pop(oldest, None)
        self._results[key] = result
        return result

    def _planned(self, specs: Any, in_graph: Any) -> Any:
        # Types, because True == 1 == 1.0. No native key begins with a bool.
        key = (in_graph, *_where(), *map(type, specs), *specs)
        try:
            found = self._results.get(key, _MISSING)
        except TypeError:  # an argument without a hash
            return self._run(specs, in_graph)
        return self._keep(key, self._run(specs, in_graph)) if found is _MISSING else found

    def __call__(self, *args: Any) -> Any:
        key = _native.call_key(_where(), args, Tensor, _DTYPES, self._read_bits)
        if key is None:
            return self._planned(self._described(args), in_graph=False)
        try:
            return self._results[key]
        except KeyError:
            pass
        return self._keep(key, self._run(self._described(args), in_graph=False))

    def _described(self, args: Any) -> Any:
        """The arguments as a plan gets them, hashable."""
        specs = []
        for i, a in enumerate(args):
            # Whether one is a Tensor is asked of an abstract base class, which takes longer.
            if type(a) in _SCALARS:
                specs.append(a)
            elif isinstance(a, Tensor):
                content = self._content(i, a) if i in self.read else None
                specs.append(TensorSpec((a.dtype, a.shape, content)))
            elif type(a) in (tuple, list) or (i in self.lists and isinstance(a, (tuple, list))):
                specs.append(_Sequence.of(a))
            elif i in self.lists and _is_list(a):
                specs.append(_Sequence.of(a.tolist()))
            else:
                specs.append(a)
        return specs

    def __infer__(self, *args: Any) -> dict[Any, Any]:
        specs = [self._abstract(i, arg) for i, arg in enumerate(args)]
        return {"dtype": None, "shape": None, "value": self._planned(specs, in_graph=True)}

    def _abstract(self, i: Any, arg: Any) -> Any:
        value, dtype = arg["value"], arg["dtype"]
        if isinstance(dtype, TensorType):
            shape = None if list(arg["shape"]) == [-2] else tuple(arg["shape"])
            content = self._content(i, value) if i in self.read and is_constant(value) else None
            return TensorSpec((dtype.element_type(), shape, content))
        if isinstance(value, (tuple, list)):
            # A None of a dtype is an element that the compiler does not know.
            hidden = any(v is None and d is not None for v, d in zip(value, dtype))
            return UNKNOWN if hidden else _Sequence.of(value)
        if value is None and dtype is not None:
            return UNKNOWN
        return value

    def _content(self, i: Any, tensor: Any) -> Any:
        if i not in self.lists:
            return _is_upper_triangular(tensor)
        if tensor.dtype not in (mindspore.int64, mindspore.int32) or len(tensor.shape) != 1:
            return None
        return _values(tensor)


# The name under which a list on a device carries a mark of its version, its values, and the calls
# of layers that have taken them, by layer.
_VALUES = "nsa_known_values"
_reader: ContextVar[Any] = ContextVar("layer_and_call", default=None)


@contextmanager
def lists_of_call(layer: int) -> Iterator[None]:
    """While a layer is called, whose id this is: the layers of a step read a list once."""
    token = _reader.set((layer, object()))
    try:
        yield
    finally:
        _reader.reset(token)


def _values(tensor: Tensor) -> tuple[int, ...]:
    """Values of a list, which all layers of a model read from the device once.

    A layer's next call reads them again: mindspore.ops.assign and graphs write, but do not tell.
    """
    reader = _reader.get()
    if reader is None or tensor.device == "CPU" or isinstance(tensor, mindspore.Parameter):
        # A fraction of the time of asnumpy.
        return tuple(tensor.tolist())
    layer, call = reader
    # The device's name has waited for writes that were not dispatched yet.
    mark = tensor._version, tensor.data_ptr()
    known, values, calls = getattr(tensor, _VALUES, (None, (), {}))
    if known == mark and calls.setdefault(layer, call) is call:
        return values
    values = tuple(tensor.tolist())
    setattr(tensor, _VALUES, (mark, values, {layer: call}))
    return values


def _unknown_list(spec: Any) -> bool:
    """Whether this is a list whose values are known only when a graph runs."""
    return isinstance(spec, TensorSpec) and spec.content is None


def _is_list(value: Any) -> bool:
    """Whether this is an array that holds what a list of ints does."""
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu"


def _lists_of(op: str | None) -> list[Any]:
    return [] if op is None else [spec for spec in schema(op)["inputs"] if spec["list"]]


class _Sequence(tuple[Any, ...]):
    """A tuple or list as a key: its element types, because True == 1 == 1.0, and its elements.

    Whether it is a list comes third, for the text of errors.
    """

    __slots__ = ()

    @classmethod
    def of(cls, values: Any) -> Any:
        return cls((frozenset(map(type, values)), tuple(values), isinstance(values, list)))

    def plain(self) -> Any:
        """The elements, NumPy's integers as Python's: they wrap around, or become floats."""
        types, values, is_list = self
        if not all(t is int for t in types):
            values = tuple([int(v) if isinstance(v, np.integer) else v for v in values])
        return list(values) if is_list else values


@lru_cache(maxsize=2)
def _above_diagonal(shape: Any) -> Any:
    return ~np.tri(*shape, dtype=bool)


def _is_upper_triangular(mask: Any) -> Any:
    """True if the mask is 1 exactly above the diagonal."""
    values = mask.asnumpy()
    return values.ndim == 2 and np.array_equal(values != 0, _above_diagonal(values.shape))


def promoted(*specs: Any) -> tuple[Any, ...]:
    """The widest dtype of floating Tensors, and whether they differ; (None, False) for others.

    Mixed precision training hands over inputs of different dtypes. float16 and bfloat16 meet in
    float32, the smallest dtype that holds both.
    """
    dtypes = {s.dtype for s in specs if isinstance(s, TensorSpec)}
    if not dtypes.issubset(FLOATS):
        return None, False
    if len(dtypes) == 1:
        return next(iter(dtypes)), False
    return mindspore.float32, True


def tensor_input(
    function: str, argument: str, spec: Any, dtype: Any = None, optional: Any = False
) -> Any:
    """A Tensor argument for `_native.infer`, as if it had been cast to `dtype`."""
    if spec is None and optional:
        return None
    if not isinstance(spec, TensorSpec):
        fail_type(function, argument, "a Tensor or None" if optional else "a Tensor", spec)
    return spec.native(dtype)


def list_input(function: str, argument: str, spec: Any, optional: Any = False) -> Any:
    """A sequence list for `_native.infer`."""
    if spec is None and optional:
        return None
    if isinstance(spec, TensorSpec):
        return spec.native()
    if not isinstance(spec, (tuple, list)):
        expected = "a tuple or list of ints or a Tensor"
        fail_type(function, argument, expected + (" or None" if optional else ""), spec)
    return ("int64", (len(spec),), spec)


def _tensor_constant(spec: Any) -> Any:
    """Return None to pass an optional Tensor itself, else a placeholder."""
    return None if isinstance(spec, TensorSpec) else absent()


def host_values(spec: Any) -> Any:
    """A list as the plan is given it, a Tensor's values where a function takes them from the host.

    Elsewhere a Tensor stays one, because a graph runs with other values than it is planned with.
    """
    known = isinstance(spec, TensorSpec) and planned_target.get() == "ascend"
    return spec.content if known and not planned_tensor_lists.get() else spec


def list_constant(spec: Any, on_host: bool = False) -> Any:
    """Return None to pass a list itself, else a Tensor of it or a placeholder.

    On target "ascend" a function may take the values from the host: then it is a tuple, unless
    there are values that only the device knows yet.
    """
    on_host = on_host and not planned_tensor_lists.get()
    if isinstance(spec, TensorSpec):
        return spec.content if on_host else None
    if spec is None:
        return absent("int64")
    return tuple(map(int, spec)) if on_host else list_tensor(tuple(spec))


def _absent(spec: Any) -> Any:
    """Return the placeholder of an input that the public function does not know."""
    return absent("int64") if spec["list"] else absent()


def _narrow(spec: Any) -> bool:
    return isinstance(spec, TensorSpec) and spec.dtype in FLOATS[:2]


class NativeCall:
    """A call of a native operator from the arguments of a public function, by name.

    What is an input and what an attribute, which inputs are lists, optional, or share one dtype
    says the operator's schema.

    Args:
        op: Name of the operator.
        given: The arguments as a plan gets them. An attribute that is not among them takes its
            default.
        function: How messages name the function, where that is not the operator's own.
        same_float: Inputs whose dtype depends on the call and here is that of the query.
        float32: Those that are float32 here.
        cast: Whether inputs of other dtypes are cast; what is written into one would be lost.

    Attributes:
        function: How messages name it.
        attrs: Attributes by name.
        inputs: For each input what `_native.infer` takes, or None.
        casts: For each floating input the dtype that it has to be cast to, or None.
    """

    def __init__(
        self,
        op: str,
        given: dict[str, Any],
        same_float: Any = (),
        float32: Any = (),
        function: str | None = None,
        cast: Any = True,
    ) -> None:
        self.op = op
        self.function = function or schema(op)["function"]
        self.attrs = {
            a["name"]: given[a["name"]] for a in schema(op)["attrs"] if a["name"] in given
        }
        self.inputs: dict[str, Any] = {}
        self.casts: dict[str, Any] = {}
        specs = schema(op)["inputs"]
        shared = [s["name"] for s in specs if s["elements"] in ("float", "same float")]
        shared += same_float
        dtype, mixed = promoted(*(given[name] for name in shared if given[name] is not None))
        for spec in specs:
            name, optional = spec["name"], spec["optional"]
            argument = given[name]
            if spec["list"]:
                self.inputs[name] = list_input(self.function, name, argument, optional)
                continue
            if not cast:
                self.casts[name] = None
            elif name in shared:
                self.casts[name] = dtype if mixed else None
            elif spec["elements"] == "float32" or name in float32:
                # Mixed precision casts what must be float32, too.
                self.casts[name] = mindspore.float32 if _narrow(argument) else None
            self.inputs[name] = tensor_input(
                self.function, name, argument, self.casts.get(name), optional
            )
        self._given = given

    def infer(self) -> Any:
        """Every check of the call; the outputs as (dtype name, shape)."""
        return infer(self.op, list(self.inputs.values()), self.attrs, self.function)

    def _needed_cast(self, name: str) -> Any:
        """The dtype that an input is cast to, None where it has that or is not given."""
        cast = self.casts.get(name)
        if cast is None or self._given[name] is None or self._given[name].dtype == cast:
            return None
        return cast

    @property
    def given(self) -> tuple[Any, ...]:
        """Names of the inputs that are not absent."""
        return tuple(name for name, x in self.inputs.items() if x is not None)

    @cached_property
    def constants(self) -> dict[Any, Any]:
        """Return what replaces lists and optional Tensors; None: the argument is passed."""
        on_host = planned_target.get() == "ascend"
        return {
            spec["name"]: list_constant(
                self._given[spec["name"]],
                on_host and spec["name"] not in device_lists(self.op),
            )
            if spec["list"]
            else _tensor_constant(self._given[spec["name"]])
            for spec in schema(self.op)["inputs"]
            if spec["list"] or spec["optional"]
        }

    @property
    def lists(self) -> dict[Any, Any]:
        """Values of the sequence lists that are no Tensors, by name."""
        specs = {spec["name"]: self._given[spec["name"]] for spec in _lists_of(self.op)}
        return {
            name: spec
            for name, spec in specs.items()
            if isinstance(spec, tuple | list) and not isinstance(spec, TensorSpec)
        }

    def text(self) -> Any:
        """The attributes for a Custom."""
        return encode_attrs(self.op, self.attrs, self.given)

    def stand_ins(self, op: str | None = None) -> Any:
        """Return `c` for the call of this operator or of `op`; see generated/."""
        op = op or self.op
        kind, values = STAND_INS[op], {}
        for spec in schema(op)["inputs"]:
            name = spec["name"]
            values[f"{name}_dtype"] = self._needed_cast(name)
            known = name in self.inputs
            values[name] = self.constants.get(name) if known else _absent(spec)
        return kind(**{field: values[field] for field in kind._fields})

    def bprop_given(self, **more: Any) -> Any:
        """Return what the operator's bprop is told of its inputs; see generated/."""
        tensors = {name: constant is None for name, constant in self.constants.items()}
        return GIVEN[self.op](**tensors, **more)


def infer(op: str, inputs: Any, attrs: Any, function: str = "") -> Any:
    """Every check of a call; the outputs as (dtype name, shape). Errors name the function."""
    target = planned_target.get()
    if target != "cpu":
        _native.ascend_signature(op, target, function)  # or the error that there is none
    return _native.infer(op, inputs, attrs, target, function)
