"""The wheel holds what it needs, and nothing of it depends on the machine that built it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from platform import machine

import pytest

from mindspore_nsa import _native
from tests.twin.host import examples

from .conftest import BUILD, ROOT, alone


def in_snake_case(name):
    """Of a type in capitals."""
    return re.sub(r"\B([A-Z])", r"_\1", name).lower()


SOURCE = {str(p.relative_to(ROOT)) for p in ROOT.glob("mindspore_nsa/**/*.py")}


def spellings():
    """Header by another of its names: the one that it includes."""
    text = (ROOT / "cmake" / "spellings.cmake").read_text()
    text = text.replace("${basic}", re.search(r"set\(basic (.*)\)", text).group(1))
    lists = re.findall(r"^nsa_spellings\((\S+) PREFIXES (.*) NAMES\s([^)]*)\)", text, re.MULTILINE)
    return {
        f"mindspore_nsa/twin/include/{prefix.removeprefix('-')}{name}.h": header
        for header, prefixes, names in lists
        for prefix in prefixes.split()
        for name in names.split()
    }


SPELLINGS = spellings()

# The library of the Ascend twin, its stand-ins for CANN's libraries, and every header that a
# program or a kernel may need.
STAND_INS = ("mindspore_nsa_ascendcl", "opapi") if machine() == "x86_64" else ()
TWIN = {
    "mindspore_nsa/twin/libmindspore_nsa_twin.so",
    *(f"mindspore_nsa/twin/cann/lib{name}.so" for name in STAND_INS),
    *(f"mindspore_nsa/twin/include/{p.relative_to(ROOT)}" for p in ROOT.glob("twin/**/*.h")),
    *(
        f"mindspore_nsa/twin/include/aclnnop/aclnn_{snake}.h"
        for snake in map(in_snake_case, map(_native.ascend_type, _native.ascend_operators()))
    ),
    *SPELLINGS,
}

OPERATORS = (
    "BlockIndexer",
    "DenseLightningIndexerGradKLLoss",
    "DenseLightningIndexerSoftmaxLse",
    "FlashAttentionScore",
    "FlashAttentionScoreGrad",
    "LightningIndexer",
    "LightningIndexerGrad",
    "NsaCacheStep",
    "NsaCompress",
    "NsaCompressAttention",
    "NsaCompressAttentionInfer",
    "NsaCompressGrad",
    "NsaCompressWithCache",
    "NsaDecode",
    "NsaDropoutMask",
    "NsaLinear",
    "NsaMixBranches",
    "NsaMixBranchesGrad",
    "NsaProjection",
    "NsaProjectionInputGrad",
    "NsaProjectionWeightGrad",
    "NsaRound",
    "NsaSelectedAttention",
    "NsaSelectedAttentionGrad",
    "SparseFlashAttention",
    "SparseFlashAttentionGrad",
    "SparseLightningIndexerGradKLLoss",
    "NsaSelectedAttentionInfer",
    "NsaSplitHeads",
    "NsaSplitHeadsGrad",
)

TRAIN = """
import numpy as np
import mindspore as ms
import mindspore_nsa

x = ms.Tensor(np.arange(12, dtype=np.float32).reshape(6, 1, 2))
w = ms.Tensor(np.array([[0.5], [0.25]], np.float32))

def total(x, w):
    return mindspore_nsa.nsa_compress(x, w, 2, 2, actual_seq_len=(6,)).sum()

value, (dx, dw) = ms.value_and_grad(total, (0, 1))(x, w)
assert value.asnumpy() == 0.5 * (0 + 1 + 4 + 5 + 8 + 9) + 0.25 * (2 + 3 + 6 + 7 + 10 + 11)
assert (dx.asnumpy().reshape(3, 2, 2) == [[0.5, 0.5], [0.25, 0.25]]).all()
assert (dw.asnumpy() == [[27], [39]]).all()
print(mindspore_nsa.__file__)
"""


def run_python(code, folder, cwd):
    """Standard output of Python code that imports the package from `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def symbols(path, *options):
    """(letter, name) of every symbol that nm lists."""
    done = subprocess.run(["nm", *options, str(path)], capture_output=True, text=True, check=True)
    return [tuple(line.split()[-2:]) for line in done.stdout.splitlines() if line.strip()]


def test_contents(wheel):
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    package = {name for name in names if not re.match(r"mindspore_nsa-[^/]*\.dist-info/", name)}
    (native,) = (name for name in package if re.match(r"mindspore_nsa/_native\..*\.so$", name))
    assert package - {native} == SOURCE | TWIN
    assert any(name.endswith("licenses/LICENSE") for name in names)
    metadata = next(name for name in names if name.endswith("/METADATA"))
    text = archive.read(metadata).decode()
    assert "Requires-Dist: mindspore<2.11,>=2.7.1\n" in text
    assert "Requires-Dist: numpy<2\n" in text
    assert "Requires-Python: <3.13,>=3.10\n" in text
    assert len(SPELLINGS) > 100
    for name, header in SPELLINGS.items():
        assert archive.read(name).decode() == f'#include "{header}"\n'


def test_source_distribution(tmp_path):
    """It holds every source that the build reads."""
    command = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", str(tmp_path)]
    with alone():
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    sources = {
        str(path.relative_to(ROOT))
        for folder in ("ascendc", "binding", "cmake", "cpu", "infer", "twin")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix != ".pyc"
    }
    assert len(sources) > 40
    assert names >= sources | SOURCE | {"CMakeLists.txt", "LICENSE", "pyproject.toml", "setup.py"}


def test_trains_without_the_source_tree(installed, tmp_path):
    assert run_python(TRAIN, installed, tmp_path).strip().startswith(str(installed))


def test_native_module_needs_no_mindspore(installed, tmp_path):
    code = (
        "import sys; from mindspore_nsa import _native; import mindspore_nsa.reference\n"
        "print(_native.isa(), 'mindspore' in sys.modules)"
    )
    assert run_python(code, installed, tmp_path).split()[1] == "False"


def compile_and_run(installed, folder, *sources):
    """Output of a program that is built in `folder` by the command of the documentation."""
    command = 'g++ -std=c++17 example.cpp $("$PYTHON" -m mindspore_nsa.twin --cflags --libs)'
    for source in sources:
        shutil.copy(source, folder)
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "-c", f"{command} && ./a.out"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


def test_program_without_the_source_tree(installed, tmp_path):
    """One of the examples, from a folder of its own."""
    folder = ROOT / "ascendc" / "examples"
    (tmp_path / "example.cpp").write_text((folder / "aclnn_nsa_compress.cpp").read_text())
    examples.check_nsa_compress(
        compile_and_run(installed, tmp_path, folder / "acl_program.h"),
    )
    done = subprocess.run(["ldd", "a.out"], cwd=tmp_path, capture_output=True, text=True)
    library = installed / "mindspore_nsa" / "twin" / "libmindspore_nsa_twin.so"
    assert f"=> {library}" in done.stdout


@examples.documented
def test_documented_program_without_the_source_tree(installed, tmp_path):
    """CANN's example of aclnnNsaCompressGrad, unmodified."""
    (tmp_path / "example.cpp").write_text(examples.documented_example())
    examples.check_documented_example(compile_and_run(installed, tmp_path))


def compile_commands():
    """(source, arguments) of every unit of the wheel."""
    text = (BUILD / "compile_commands.json").read_text()
    return [(entry["file"], entry["command"].split()) for entry in json.loads(text)]


def test_no_flag_of_the_building_machine(wheel):
    commands = compile_commands()
    assert len(commands) > 20
    for source, arguments in commands:
        machine = [a for a in arguments if a.startswith("-m")]
        assert not [a for a in machine if "native" in a or a.startswith("-march")], source
        assert "-ffast-math" not in arguments and "-ffp-contract=off" in arguments, source
        in_isa_unit = re.search(r"/cpu/dispatch/isa_(avx\w+)\.cc$", source)
        assert bool(machine) == bool(in_isa_unit), f"{source}: {machine}"


def test_isa_units_share_no_function(wheel):
    """A weak function compiled for AVX-512 could be linked in for every processor."""
    objects = list(BUILD.glob("CMakeFiles/nsa_cpu.dir/cpu/dispatch/isa_*.o"))
    assert len(objects) >= 2
    for path in objects:
        listed = symbols(path)
        shared = [(letter, name) for letter, name in listed if letter in "WwVvu"]
        assert not shared, f"{path.name}: {shared}"
        defined = [name for letter, name in listed if letter in "TDBRSC"]
        assert len(defined) == 1, f"{path.name}: only the kernel table is visible, got {defined}"


def test_exported_symbols(installed):
    (native,) = installed.glob("mindspore_nsa/_native*.so")
    exported = {name for _, name in symbols(native, "-D", "--defined-only")}
    expected = {"PyInit__native"}
    for name in OPERATORS:
        expected |= {name, f"{name}InferShape", f"{name}InferType"}
        # Inference on the target ascend, where MindSpore calls the aclnn function itself.
        if name in _native.ascend_operators():
            function = f"aclnn{_native.ascend_type(name)}"
            expected |= {f"{function}InferShape", f"{function}InferType"}
            expected.add(f"{function}GetWorkSpaceSize")
    for name in (
        "NsaWithoutGradient",
        "NsaRefuseGradient",
        "NsaMarkWritten",
        "NsaCopyRows",
        "NsaCheckEnds",
    ):
        expected |= {name, f"{name}InferShape", f"{name}InferType"}
    assert exported == expected


def test_exported_symbols_of_the_twin(installed):
    """The acl and aclnn functions, and C++ names of the twin's and CANN's namespaces.

    One C++ function is global in CANN too: GetSysWorkSpacePtr of the kernels.
    """
    library = installed / "mindspore_nsa" / "twin" / "libmindspore_nsa_twin.so"
    exported = {name for _, name in symbols(library, "-D", "--defined-only")}
    assert {"aclInit", "aclnnNsaCompress", "aclnnMsnsaCompressGradGetWorkspaceSize"} <= exported
    mangled = {name for name in exported if name.startswith("_Z")}
    assert not [name for name in exported - mangled if not re.match("acl|Acl|Twin", name)]
    ours = re.compile("7AscendC|2ge|4gert|3ops|8optiling|16platform_ascendc|4twin")
    outside = {name for name in mangled if not ours.search(name)}
    assert outside == {"_Z18GetSysWorkSpacePtrv"}


@pytest.mark.parametrize("name", ["_native*.so", "twin/*.so"])
def test_libraries(installed, name):
    """Nothing but the compiler's run-time libraries and the C library."""
    (native,) = installed.glob(f"mindspore_nsa/{name}")
    done = subprocess.run(["readelf", "-d", native], capture_output=True, text=True, check=True)
    needed = set(re.findall(r"\(NEEDED\).*\[(\w[^.]*)\.so", done.stdout))
    assert needed <= {"libgomp", "libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64"}
    assert "RUNPATH" not in done.stdout and "RPATH" not in done.stdout
