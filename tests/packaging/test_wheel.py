"""The wheel holds what it needs, and nothing of it depends on the machine that built it."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from platform import machine

import pytest

from mindspore_nsa import __version__, _native
from tests.ascendc import examples

from .conftest import BUILD, ROOT, alone, install


def in_snake_case(name):
    """Turns a type's name in capitals into snake case."""
    return re.sub(r"\B([A-Z])", r"_\1", name).lower()


COMMIT = "mindspore_nsa/_commit.txt"
SOURCE = {
    *(str(p.relative_to(ROOT)) for p in ROOT.glob("mindspore_nsa/**/*.py")),
    "mindspore_nsa/_native.pyi",
    "mindspore_nsa/py.typed",
}


def spellings():
    """Header by another of its names: the one that it includes."""
    text = (ROOT / "twin" / "spellings.cmake").read_text()
    text = text.replace("${basic}", re.search(r"set\(basic (.*)\)", text).group(1))
    lists = re.findall(r"^nsa_spellings\((\S+) PREFIXES (.*) NAMES\s([^)]*)\)", text, re.MULTILINE)
    return {
        f"ascendc_twin/include/{prefix.removeprefix('-')}{name}.h": header
        for header, prefixes, names in lists
        for prefix in prefixes.split()
        for name in names.split()
    }


SPELLINGS = spellings()

# The Ascend operators compiled against the twin, and the headers of their functions.
HEADERS = {
    f"aclnn_{in_snake_case(_native.ascend_type(name))}.h" for name in _native.ascend_operators()
}
CANN_HEADERS = {path.name for path in (ROOT / "ascendc" / "op_api" / "include").rglob("*.h")}
ON_TWIN = {
    "mindspore_nsa/twin/libmindspore_nsa_twin.so",
    *(f"mindspore_nsa/twin/include/aclnnop/{name}" for name in HEADERS | CANN_HEADERS),
    "mindspore_nsa/twin/cann/op_api/lib/libcust_opapi.so",
    *(f"mindspore_nsa/twin/cann/op_api/include/{name}" for name in HEADERS),
}

# The twin's package: its modules, its library, the stand-ins for CANN's libraries, every header
# that a program or a kernel may need, and the source of the generator.
STAND_INS = ("ascendc_twin_ascendcl", "opapi", "hccl") if machine() == "x86_64" else ()
ROOMS = "adv cann clock cube device host include vector".split()
TWIN = {
    *(str(p.relative_to(ROOT / "twin")) for p in ROOT.glob("twin/ascendc_twin/*.py")),
    "ascendc_twin/libascendc_twin.so",
    *(f"ascendc_twin/cann/lib{name}.so" for name in STAND_INS),
    *(
        f"ascendc_twin/include/{path.relative_to(ROOT)}"
        for room in ROOMS
        for path in (ROOT / "twin" / room).rglob("*.h")
    ),
    "ascendc_twin/include/twin/host/opbuild_main.cc",
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


def files_of(wheel):
    """(files of a wheel without its metadata, the metadata's files)."""
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name for name in names if not re.match(r"\w+-[^/]*\.dist-info/", name)}
    return package, names - package


def metadata_of(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    return archive.read(name).decode()


def test_contents(wheel):
    """CPU kernels and the Ascend operators, and nothing of the twin."""
    package, names = files_of(wheel)
    (native,) = (name for name in package if re.match(r"mindspore_nsa/_native\..*\.so$", name))
    assert package - {native} == SOURCE | ON_TWIN | {COMMIT}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    text = metadata_of(wheel)
    assert "Requires-Dist: mindspore<3,>=2.7.1\n" in text
    assert "Requires-Dist: numpy<2\n" in text
    assert "Requires-Python: <3.13,>=3.10\n" in text
    # No index has the twin's package: whoever took its name there would run code on the machines of
    # those who asked for it.
    assert not re.search(r"^Requires-Dist: ascendc", text, re.MULTILINE)


def test_it_says_its_commit(wheel):
    said = zipfile.ZipFile(wheel).read(COMMIT).decode().strip()
    options = ("--always", "--dirty", "--exclude=*", "--abbrev=12")
    command = ["git", "-C", ROOT, "describe", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert said == (done.stdout.strip() or "unknown")


def test_no_path_of_the_building_machine(wheel):
    """In the module; the line tables of the twin's operators are taken from them by make wheel."""
    archive = zipfile.ZipFile(wheel)
    (native,) = (name for name in archive.namelist() if re.search(r"/_native\..*so$", name))
    content = archive.read(native)
    for folder in (ROOT, sys.prefix, sysconfig.get_path("include")):
        assert str(folder).encode() not in content


@pytest.mark.soak
def test_two_builds_of_a_commit_are_equal(tmp_path):
    """Compiled anew in two clones, whose folders have names of different lengths."""
    # A compiler's cache would hand the second build what the first one compiled.
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    built = []
    for name in ("one", "another_folder"):
        clone = tmp_path / name
        source = f"file://{ROOT}"
        subprocess.run(["git", "clone", "--quiet", "--depth=1", source, clone], check=True)
        command = [sys.executable, "tools/build_wheels.py", "--python", sys.executable]
        subprocess.run([*command, "--machine", machine()], cwd=clone, env=environment, check=True)
        built.append({path.name: path.read_bytes() for path in (clone / "dist").iterdir()})
    assert len(built[0]) == 2 and built[0] == built[1]


def test_contents_of_the_twin(twin_wheel):
    """Every Python's, and nothing of an operator."""
    assert re.fullmatch(
        rf"ascendc_twin-{re.escape(__version__)}-py3-none-linux_{machine()}\.whl", twin_wheel.name
    )
    package, names = files_of(twin_wheel)
    assert package == TWIN
    assert any(name.endswith("licenses/LICENSE") for name in names)
    needed = re.findall(r"^Requires-Dist: (.*)$", metadata_of(twin_wheel), re.MULTILINE)
    assert all("extra ==" in one for one in needed)
    assert len(SPELLINGS) > 100
    archive = zipfile.ZipFile(twin_wheel)
    for name, header in SPELLINGS.items():
        assert archive.read(name).decode() == f'#include "{header}"\n'


def test_without_the_twin(wheel, tmp_path):
    """Operators run on the CPU; what needs the twin says so, with the command that installs it."""
    folder = install(tmp_path / "site", wheel)
    # The environment of the tests has it.
    (folder / "sitecustomize.py").write_text(
        "import sys\n\n\n"
        "class Missing:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'ascendc_twin':\n"
        "            raise ModuleNotFoundError(f'No module named {name}', name=name)\n\n\n"
        "sys.meta_path.insert(0, Missing)\n"
    )
    assert run_python(TRAIN, folder, tmp_path).strip().startswith(str(folder))
    code = (
        "import mindspore as ms, mindspore_nsa, numpy as np\n"
        "mindspore_nsa.show_config()\n"
        "mindspore_nsa.set_target('ascend_twin')\n"
        "x, w = (ms.Tensor(np.ones(shape, np.float16)) for shape in ((32, 1, 16), (16, 1)))\n"
        "for use in (\n"
        "    lambda: mindspore_nsa.nsa_compress(x, w, 16, 16, actual_seq_len=(32,)),\n"
        "    lambda: mindspore_nsa.twin.cflags(),\n"
        "    lambda: mindspore_nsa.twin.machine,\n"
        "):\n"
        "    try:\n"
        "        use()\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
    )
    printed = run_python(code, folder, tmp_path)
    said = (
        "target 'ascend_twin' and mindspore_nsa.twin need the package ascendc-twin "
        f"{__version__}, which is not installed: pip install ./twin"
    )
    assert printed.count(said) == 4
    done = subprocess.run(
        [sys.executable, "-m", "mindspore_nsa.twin", "--libs"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr.startswith(said) and not done.stdout


def test_another_version_of_the_twin(installed, tmp_path):
    """Neither runs a kernel with it nor compiles against it."""
    other = tmp_path / "other"
    # Compiled files of the same second would hide the change.
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(installed / "ascendc_twin", other / "ascendc_twin", ignore=ignored)
    version = other / "ascendc_twin" / "_version.py"
    version.write_text(version.read_text().replace(__version__, "0.0.7"))
    code = (
        f"import sys; sys.path.insert(0, {str(other)!r})\n"
        "import numpy as np\n"
        "from mindspore_nsa import _native, twin\n"
        "shapes = (32, 1, 16), (16, 1)\n"
        "inputs = [*(np.ones(shape, np.float16) for shape in shapes), np.array([32])]\n"
        "window = {'compress_block_size': 16, 'compress_stride': 16, 'num_windows': 2}\n"
        "for use in (twin.libs, lambda: _native.run('NsaCompress', inputs, window, "
        "target='ascend_twin')):\n"
        "    try:\n"
        "        use()\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
    )
    said = f"needs the package ascendc-twin {__version__}, got 0.0.7 in {other / 'ascendc_twin'}"
    assert run_python(code, installed, tmp_path).count(said) == 2


def test_the_twin_alone_runs_a_kernel_in_one_command(twin_wheel, tmp_path):
    """In an environment that has nothing else, not even this one's packages."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    into = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index"]
    subprocess.run([*into, twin_wheel], check=True)
    page = (ROOT / "twin" / "README.md").read_text()
    blocks = re.findall(r"^```(?:cpp|text)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    program, printed, _ = blocks
    (tmp_path / "main.cpp").write_text(program)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "CXX", "CXXFLAGS")
    }

    def run(*command):
        return subprocess.run(
            [python, "-m", "ascendc_twin", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )

    done = run("run", "main.cpp")
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    (tmp_path / "main.cpp").write_text(program.replace("  AscendC::Add(", "  AscendC::Frobnicate("))
    refused, checked = run("run", "main.cpp"), run("check", "main.cpp")
    assert refused.returncode == 1 and "Frobnicate" in refused.stderr and not refused.stdout
    assert checked.returncode == 1 and "Frobnicate, main.cpp:" in checked.stdout


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
        for folder in ("ascendc", "binding", "cmake", "cpu", "infer", *(f"twin/{r}" for r in ROOMS))
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix != ".pyc"
    }
    names -= {name for name in names if name.startswith("twin/tests/")}
    sources |= {
        f"twin/{name}"
        for name in (
            *(
                "CMakeLists.txt",
                "LICENSE",
                "MANIFEST.in",
                "README.md",
                "cmake_build.py",
                "exports.map",
            ),
            *("pyproject.toml", "setup.py", "spellings.cmake", "ascendc_twin/__init__.py"),
        )
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
    for name in ("mindspore_nsa/twin/libmindspore_nsa_twin.so", "ascendc_twin/libascendc_twin.so"):
        assert f"=> {installed / name}" in done.stdout


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
        "NsaCheckList",
        "NsaCheckRoom",
        "NsaWriteRows",
    ):
        expected |= {name, f"{name}InferShape", f"{name}InferType"}
    assert exported == expected


def test_exported_symbols_of_the_operators(installed):
    """Their aclnn functions, and those under CANN's names."""
    library = installed / "mindspore_nsa" / "twin" / "libmindspore_nsa_twin.so"
    exported = {name for _, name in symbols(library, "-D", "--defined-only")}
    assert {"aclnnNsaCompress", "aclnnMsnsaCompressGradGetWorkspaceSize"} <= exported
    assert not [name for name in exported if not name.startswith("aclnn")]


def test_exported_symbols_of_the_twin(installed):
    """The acl functions, and C++ names of the twin's and CANN's namespaces.

    One C++ function is global in CANN too: GetSysWorkSpacePtr of the kernels.
    """
    library = installed / "ascendc_twin" / "libascendc_twin.so"
    exported = {name for _, name in symbols(library, "-D", "--defined-only")}
    assert {"aclInit", "aclnnInit", "TwinOperators"} <= exported
    mangled = {name for name in exported if name.startswith("_Z")}
    assert not [name for name in exported - mangled if not re.match("acl|Acl|Twin", name)]
    ours = re.compile("7AscendC|2ge|4gert|3ops|8optiling|16platform_ascendc|4twin")
    outside = {name for name in mangled if not ours.search(name)}
    assert outside == {"_Z18GetSysWorkSpacePtrv"}
    assert not [name for name in exported if re.search("[mM]snsa|Nsa", name)]


LIBRARIES = {
    "mindspore_nsa/_native*.so": (set(), None),
    "mindspore_nsa/twin/*.so": (
        {"libascendc_twin"},
        "$ORIGIN/../../ascendc_twin:$ORIGIN/../../twin/ascendc_twin",
    ),
    "mindspore_nsa/twin/cann/op_api/lib/*.so": ({"libmindspore_nsa_twin"}, "$ORIGIN/../../.."),
    "ascendc_twin/*.so": (set(), None),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries(installed, name):
    """Nothing but each other, the compiler's run-time libraries and the C library."""
    others, place = LIBRARIES[name]
    (native,) = installed.glob(name)
    done = subprocess.run(["readelf", "-d", native], capture_output=True, text=True, check=True)
    needed = set(re.findall(r"\(NEEDED\).*\[(\w[^.]*)\.so", done.stdout))
    assert others <= needed
    system = {"libgomp", "libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64"}
    assert needed - others - {"libascendc_twin"} <= system
    found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", done.stdout)
    assert found == ([place] if place else [])
