"""An operator of its own, from definition to result: what a project adds to the twin.

Its library is made as the project's is: definition, generator, aclnn functions, kernels.
"""

import ctypes
import subprocess

import numpy as np
import pytest

import ascendc_twin

from . import acl
from .acl import INVALID, NULLPTR, RT_AICORE_EXCEPTION, SUCCESS, TILING, Device, recent_error
from .operators import HERE, compile_with_twin, generate
from .operators import library as build_library

SOURCE = HERE / "scale_add" / "op_host" / "scale_add.cpp"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("operator")
    done = generate(folder, SOURCE)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def library(built):
    more = [HERE.parent / name for name in ("inference.cc", "stale_call.cc", "described.cc")]
    loaded = ctypes.CDLL(str(build_library(built, "scale_add", SOURCE, *more)))
    loaded.infer.restype = loaded.described.restype = ctypes.c_char_p
    return loaded


def test_header(built):
    """CANN's order and names: inputs, attributes, outputs; Optional, Out; camel case."""
    text = (built / "out" / "include" / "aclnnop" / "aclnn_scale_add.h").read_text()
    start = text.index("aclnnScaleAddGetWorkspaceSize(")
    arguments = text[start : text.index(");", start)].partition("(")[2]
    assert [" ".join(line.split()) for line in arguments.split(",")] == [
        "const aclTensor* x",
        "const aclTensor* zValueOptional",
        "const aclIntArray* stepListOptional",
        "double a",
        "double b",
        "bool negate",
        "const aclFloatArray* offsetsOptional",
        "const aclIntArray* weightsOptional",
        "const aclBoolArray* usedOptional",
        "int64_t way",
        "char* modeOptional",
        "const aclTensor* yOut",
        "const aclTensor* blockCountOut",
        "uint64_t* workspaceSize",
        "aclOpExecutor** executor",
    ]


def test_units_that_a_build_expects(tmp_path, built):
    """Gives as many as it names, empty where the operator has no combination."""
    command = [built / "opbuild", tmp_path / "out", "", "3"]
    subprocess.run(list(map(str, command)), check=True)
    names = sorted(path.name for path in (tmp_path / "out").glob("*_kernel_*"))
    assert names == [f"scale_add_kernel_{i}.cc" for i in range(3)]
    assert "#" not in (tmp_path / "out" / names[2]).read_text()


def test_kernel_sources(built):
    """A unit per dtype; the struct that macro-style tiling data is for them, padded to 8 bytes."""
    names = sorted(path.name for path in (built / "out").glob("*_kernel_*"))
    assert names == ["scale_add_kernel_0.cc", "scale_add_kernel_1.cc"]
    for name, dtype in zip(names, ("half", "float")):
        text = (built / "out" / name).read_text()
        structs = text[text.index("struct ScaleAddShare {") : text.index("using TwinDefault")]
        assert (
            structs.split()
            == (
                "struct ScaleAddShare { uint8_t flag; uint8_t padding0[7]; int64_t length; };"
                " struct ScaleAddTilingData { uint16_t hasZ; uint8_t padding0[2]; float a;"
                " ScaleAddShare share; int32_t steps[3]; float b; float offset;"
                " uint8_t padding1[4]; };"
            ).split()
        )
        assert f"#define DTYPE_Z_VALUE {dtype}\n" in text


def test_description(library):
    """The functions as data: order, kinds, what may be left out, dtypes, defaults, comments."""
    described = library.described(b"ScaleAdd").decode().splitlines()
    assert described == [
        "x|x|000|1,0,|0|0|",
        "zValueOptional|z_value|001|1,0,|0|0|",
        'stepListOptional|steps, the "list"|011||0|0|',
        "a|a|150||0|0|",
        "b|b|151||0|1|",
        "negate|negate|141||0|0|",
        "offsetsOptional|offsets|121||0|0|",
        "weightsOptional|weights|111||0|0|",
        "usedOptional|used|131||0|0|",
        "way|way|160||0|0|",
        "modeOptional|mode|171||0|0|plain",
        "yOut|y|200|1,0,|0|0|",
        "blockCountOut|block_count|200|3,3,|0|0|",
    ]


class Call:
    """A call of ScaleAdd whose arguments can be changed by name."""

    def __init__(self, device, library, dtype, length=192):
        self.device, self.library, self.dtype = device, library, dtype
        self.x = np.random.default_rng(0).integers(-64, 65, length).astype(dtype) / 16
        self.z = np.random.default_rng(1).integers(-64, 65, length).astype(dtype) / 16
        self.y, self.count = device.malloc(self.x.nbytes), device.malloc(4)
        self.sizes = ctypes.c_uint64(), acl.handle()

    def tensor(self, array):
        return self.device.tensor(self.device.put(array), array.shape, array.dtype)

    def first(self, **changes):
        arguments = {
            "x": self.tensor(self.x),
            "z": self.tensor(self.z),
            "steps": self.device.int_array([1, 2]),
            "a": ctypes.c_double(1.5),
            "b": ctypes.c_double(1.0),
            "negate": ctypes.c_bool(False),
            "offsets": None,
            "weights": None,
            "used": None,
            "way": ctypes.c_int64(1),
            "mode": None,
            "y": self.device.tensor(self.y, self.x.shape, self.x.dtype),
            "count": self.device.tensor(self.count, (1,), "int32"),
        }
        assert set(changes) <= set(arguments)
        size, executor = self.sizes
        return self.library.aclnnScaleAddGetWorkspaceSize(
            *{**arguments, **changes}.values(), ctypes.byref(size), ctypes.byref(executor)
        )

    def run(self, **changes):
        assert self.first(**changes) == SUCCESS, recent_error()
        size, executor = self.sizes
        workspace = self.device.malloc(size.value)
        status = self.library.aclnnScaleAdd(workspace, size, executor, self.device.stream)
        return status or self.device.synchronize()

    def result(self):
        return self.device.get(self.y, self.x.shape, self.dtype)


@pytest.fixture(params=[np.float16, np.float32], ids=["float16", "float32"])
def call(request, library):
    with Device() as device:
        yield Call(device, library, request.param)


DEFAULT_OFFSET = 0.25 * 1 + 0.5 * -3


@pytest.mark.parametrize("way", [1, 4], ids=["direct", "through the workspace"])
@pytest.mark.parametrize("vector_cores", [1, 3, 7, 48])
def test_result(call, vector_cores, way):
    """Each dtype its own kernel; defaults of attributes; a list of the host; an initial value."""
    with acl.cores(vector_cores):
        assert call.run(way=ctypes.c_int64(way)) == SUCCESS, recent_error()
    assert np.array_equal(call.result(), call.x * np.float32(1.5) + call.z + 3 + DEFAULT_OFFSET)
    assert call.device.get(call.count, 1, np.int32)[0] == 5


def test_call_by_description(call, monkeypatch):
    """A caller that learns the order of the arguments when it runs."""

    def first():
        arguments = (
            call.tensor(call.x),
            *(
                call.device.tensor(memory, shape, dtype)
                for memory, shape, dtype in (
                    (call.y, call.x.shape, call.x.dtype),
                    (call.count, (1,), "int32"),
                )
            ),
        )
        function = ctypes.cast(call.library.aclnnScaleAddGetWorkspaceSize, ctypes.c_void_p)
        return call.library.call_described(function, *arguments, *map(ctypes.byref, call.sizes))

    monkeypatch.setattr(call, "first", first)
    assert call.run() == SUCCESS, recent_error()
    assert np.array_equal(call.result(), call.x * np.float32(1.5) + DEFAULT_OFFSET)


def test_workspace(call):
    """The library's part and the operator's own, which is there only where it is needed."""
    assert call.first() == SUCCESS
    direct = call.sizes[0].value
    assert call.first(way=ctypes.c_int64(4)) == SUCCESS
    assert (direct, call.sizes[0].value) == (16 << 20, (16 << 20) + call.x.nbytes)


def test_what_is_not_there_is_destroyed(capfd):
    """MindSpore destroys the handles of absent arguments; CANN, too, says nothing to that."""
    for kind in ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList"):
        assert getattr(acl.lib, f"aclDestroy{kind}")(None) == SUCCESS
    assert capfd.readouterr() == ("", "")
    with Device() as device:
        tensor = device.tensor(None, (2,), "float32")
        device._tensors.remove(tensor)
        assert acl.lib.aclDestroyTensor(tensor) == SUCCESS
        assert acl.lib.aclDestroyTensor(tensor) == INVALID
        assert recent_error() == "aclDestroyTensor: the object does not exist"


class Lists:
    """Lists of the three kinds that attributes have."""

    KINDS = {"Float": ctypes.c_float, "Int": ctypes.c_int64, "Bool": ctypes.c_bool}

    def __enter__(self):
        self._made = []
        return self

    def make(self, kind, values):
        array = (self.KINDS[kind] * max(len(values), 1))(*values)
        made = getattr(acl.lib, f"aclCreate{kind}Array")(array, ctypes.c_uint64(len(values)))
        self._made.append((kind, ctypes.c_void_p(made)))
        return self._made[-1][1]

    def __exit__(self, *error):
        for kind, made in self._made:
            assert getattr(acl.lib, f"aclDestroy{kind}Array")(made) == SUCCESS


@pytest.mark.parametrize(
    "offsets, weights, used",
    [([], [], []), ([-4.0], [2], [True]), ([1.0, 0.5, 64.0, 2.0], [3, -2, 1, 1], [1, 1, 0, 1])],
    ids=["empty", "one", "four"],
)
def test_list_attributes(call, offsets, weights, used):
    with Lists() as lists:
        status = call.run(
            **{"z": None, "steps": None, "negate": ctypes.c_bool(True), "mode": b"plain"},
            offsets=lists.make("Float", offsets),
            weights=lists.make("Int", weights),
            used=lists.make("Bool", used),
        )
    assert status == SUCCESS
    offset = np.float32(np.sum(np.float32(offsets) * weights * used))
    assert np.array_equal(call.result(), call.x * np.float32(-1.5) + offset)


def test_lists_that_do_not_fit(call, capfd):
    with Lists() as lists:
        assert call.first(used=lists.make("Bool", [True])) == INVALID
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("ScaleAdd: offsets, weights and used must be of the same length")


def test_errors_of_tiling(call, capfd):
    """A function that says why is not repeated; one that does not is spoken for."""

    def reason(status, **changes):
        assert call.first(**changes) == status
        (line,) = capfd.readouterr().err.splitlines()
        assert line == f"[ERROR] {recent_error()}"
        return line

    assert "x must not be null" in reason(NULLPTR, x=None)
    text = reason(TILING, way=ctypes.c_int64(13))
    assert "tiling function of ScaleAdd has returned 4294967295" in text
    assert "has returned 50331649" in reason(INVALID, mode=b"fancy")
    wrong = call.tensor(call.z.astype(np.int32))
    assert "zValueOptional must be of dtype" in reason(INVALID, z=wrong)
    big = call.tensor(np.zeros(65536, call.dtype))
    assert "ScaleAdd: x is too long: 65536 elements" in reason(TILING, x=big)


def test_functions_of_another_definition(library, capfd):
    """An attribute of another type than the definition says is not read as that type."""
    assert library.stale_call() == INVALID
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("way must be an int as in the definition of ScaleAdd, got a float")


def test_errors_of_the_kernel(call, capfd):
    """They come when the stream is waited for, and name kernel and line."""
    assert call.run(way=ctypes.c_int64(3)) == RT_AICORE_EXCEPTION
    error = recent_error()
    assert "kernel scale_add, " in error and "scale_add.cpp:" in error
    assert error in capfd.readouterr().err
    assert call.run(way=ctypes.c_int64(2)) == SUCCESS
    assert np.isnan(call.result()).all(), "what the kernel leaves out is not a number"


def test_gaps_without_a_policy(call, capfd):
    """z does not say AutoContiguous, as CANN wants it; x does."""

    def spread(array):
        wide = np.repeat(array, 2)
        memory = call.device.put(wide)
        return call.device.tensor(memory, array.shape, wide.dtype, (2,), 0, wide.shape)

    assert call.first(z=spread(call.z)) == INVALID
    assert "does not say AutoContiguous" in capfd.readouterr().err
    assert call.run(x=spread(call.x)) == SUCCESS
    assert np.array_equal(call.result(), call.x * np.float32(1.5) + call.z + 3 + DEFAULT_OFFSET)


# Numbers of dtypes: 0 float32, 1 float16, 3 int32, 27 bfloat16.
ATTRIBUTES = "float 1.5\nfloat 1\nbool 0\nfloats\nints\nbools\nint 1\nstring plain"
FAILED = 0xFFFFFFFF


@pytest.mark.parametrize(
    "inputs, attributes, outputs",
    [
        ("input 1 4 48\nabsent\nabsent", ATTRIBUTES, ["1 4 48", "3 1"]),
        ("input 0 7\ninput 0 7\nvalues 1 2", ATTRIBUTES, ["0 7", "3 1"]),
        # A dimension that is not known yet, and a number of them.
        ("input 0 -1 48\nabsent\nabsent", ATTRIBUTES, ["0 -1 48", "3 1"]),
        ("input 0 -2\nabsent\nabsent", ATTRIBUTES, ["0 -2", "3 1"]),
        ("input 0\nabsent\nabsent", ATTRIBUTES, ["0", "3 1"]),
        ("input 0 7\ninput 0 8\nabsent", ATTRIBUTES, [f"failed {FAILED}"]),
    ],
)
def test_inference(library, inputs, attributes, outputs):
    text = library.infer(b"ScaleAdd", f"{inputs}\n{attributes}".encode())
    assert text.decode().splitlines() == outputs


DEFINITION = """
#include "register/op_def_registry.h"
namespace ops {{
class Broken : public OpDef {{
 public:
  explicit Broken(const char* name) : OpDef(name) {{
    Input("x").DataType({{ge::DT_FLOAT, ge::DT_FLOAT16}});
    Output("y").DataType({{ge::DT_FLOAT, ge::DT_FLOAT16}});
    AICore().AddConfig("ascend910b");
    {line}
  }}
}};
OP_ADD(Broken);
}}
"""

BROKEN = {
    'Input("z").DataType({ge::DT_FLOAT});': "z has 1 dtypes or formats, the first parameter has 2",
    'Input("z");': "z has no DataType",
    'Input("z").Follow("w");': "z follows w, which is not there",
    'Attr("a").AttrType(OPTIONAL).Int();': "optional attribute a has no default",
    'Attr("a");': "attribute a has no type",
    'Output("x").DataType({ge::DT_FLOAT, ge::DT_FLOAT});': "an input and an output that differ",
    'Input("x").ParamType(DYNAMIC);': "x: the twin has REQUIRED and OPTIONAL parameters only",
    'Input("x").AutoContiguous().IgnoreContiguous();': "both AutoContiguous and IgnoreContiguous",
    'Output("y").ValueDepend(OPTIONAL);': "output y has ValueDepend",
    'Input("x").DataType({ge::DT_STRING, ge::DT_INT4});': "x: the twin has no dtype 13",
}


def test_broken_definitions(tmp_path):
    """The generator names operator, parameter and mistake. All of them in one program."""
    text = ["#include <cstdio>", '#include "twin/host/registry.h"']
    body = []
    for i, line in enumerate(BROKEN):
        text.append(DEFINITION.format(line=line).replace("Broken", f"Broken{i}"))
        body.append(
            f'try {{ twin::FindOperator("Broken{i}"); std::puts("accepted"); }} '
            "catch (const std::exception& error) { std::puts(error.what()); }"
        )
    text.append("int main() { " + "\n".join(body) + " }")
    source = tmp_path / "broken.cc"
    source.write_text("\n".join(text))
    compile_with_twin(source, "-o", tmp_path / "broken", *ascendc_twin.libs())
    done = subprocess.run([tmp_path / "broken"], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(BROKEN)
    for i, (line, expected) in enumerate(zip(lines, BROKEN.values())):
        assert line.startswith(f"definition of Broken{i}: ") and expected in line


def test_generator_reports(tmp_path, built):
    """A broken definition, more dtypes than the build has units for, and a wrong command."""
    source = tmp_path / "one.cc"
    source.write_text(DEFINITION.format(line='Attr("a");'))
    done = generate(tmp_path, source)
    assert done.returncode == 1
    assert done.stderr == "opbuild: definition of Broken: attribute a has no type\n"

    def again(*arguments):
        command = list(map(str, (built / "opbuild", *arguments)))
        return subprocess.run(command, capture_output=True, text=True)

    few = again(tmp_path / "few", "", 1)
    assert few.returncode == 1
    assert "definition of ScaleAdd: it has 2 combinations of dtypes, the build is for" in few.stderr
    for arguments in ((), ("folder", "", "many"), ("folder", "", 1, 2)):
        usage = again(*arguments)
        assert usage.returncode == 2 and "FOLDER [KERNEL_PREFIX" in usage.stderr
