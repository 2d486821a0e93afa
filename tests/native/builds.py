"""Builds nsa_replay in its forms, each in a kept folder under build/, and runs it.

`python -m tests.native.builds plain` builds a form by name.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mindspore_nsa import _native

ROOT = Path(__file__).resolve().parents[2]
IN_CI = os.environ.get("CI") == "true"
CROSS = "aarch64-linux-gnu-g++"
QEMU = "qemu-aarch64"


@dataclass(frozen=True)
class Build:
    """One form of nsa_replay: CMake arguments, run-time environment, and what it needs."""

    name: str
    arguments: tuple = ()
    environment: tuple = ()
    runner: tuple = ()
    static: tuple = ()  # libraries that CMake's OpenMP search would take as shared ones
    tools: tuple = ()  # (command or system header, Debian package)
    seconds: int = 1500


# Builds leave out what this processor cannot run.
AVX512 = f"-DNSA_AVX512={'ON' if 'avx512' in _native.available_isas() else 'OFF'}"
MODEL = f"-DNSA_AMX_MODEL={'ON' if 'avx512_bf16' in _native.available_isas() else 'OFF'}"
PLAIN = Build("plain", (AVX512, MODEL))
SANITIZE = "-DNSA_SANITIZE=address,undefined"
# A leak is an error as well.
REPORTS = (("ASAN_OPTIONS", "detect_leaks=1"), ("UBSAN_OPTIONS", "print_stacktrace=1"))
ADDRESS = Build("asan", ("-DNSA_AVX512=OFF", SANITIZE), environment=REPORTS)
# With sanitizers the kernels for AVX-512 take minutes to compile.
ADDRESS_AVX512 = Build("asan_avx512", (AVX512, MODEL, SANITIZE), environment=REPORTS)
# The wheel is compiled like this.
NEON_O3 = Build(
    "neon_o3",
    (
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        f"-DCMAKE_CXX_COMPILER={CROSS}",
        "-DCMAKE_EXE_LINKER_FLAGS=-static",
    ),
    static=("libgomp.a",),
    runner=(QEMU,),
    tools=((CROSS, "g++-aarch64-linux-gnu"), (QEMU, "qemu-user")),
)
# Emulated kernels are as fast at -O1, and g++ is done sooner. Bits are the same: nothing contracts.
NEON = replace(NEON_O3, name="neon", arguments=(*NEON_O3.arguments, "-DNSA_O1=ON"))
# The kernels for AVX-512 on a model of its instructions, for processors without them.
WIDE = Build(
    "avx512_model",
    ("-DNSA_AVX512_MODEL=ON",),
    tools=(("simde/x86/avx512.h", "libsimde-dev"),),
)
THREAD = Build(
    "tsan",
    (AVX512, MODEL, "-DNSA_SANITIZE=thread"),
    environment=(("TSAN_OPTIONS", "halt_on_error=0 exitcode=66"),),
)

ALL = (PLAIN, ADDRESS, ADDRESS_AVX512, NEON, NEON_O3, WIDE, THREAD)
BUILDS = {build.name: build for build in ALL}


def _found(tool):
    return shutil.which(tool) is not None or Path("/usr/include", tool).exists()


def missing(build):
    """Names of the Debian packages that this build needs and the machine lacks."""
    return [package for tool, package in build.tools if not _found(tool)]


def need(build):
    """Skip, or in CI fail, where a tool of this build is missing."""
    packages = missing(build)
    if not packages:
        return
    text = f"the {build.name} form is left out: apt-get install {' '.join(packages)}"
    if IN_CI:
        pytest.fail(text)
    pytest.skip(text)


def _tool(name):
    beside_python = Path(sys.executable).with_name(name)
    return str(beside_python) if beside_python.exists() else name


def compile_replay(build):
    """Path of nsa_replay in that form, up to date."""
    folder = ROOT / "build" / f"replay-{build.name}"
    folder.mkdir(parents=True, exist_ok=True)
    configure = [
        *(_tool("cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja"),
        *("-DNSA_PYTHON=OFF", "-DNSA_REPLAY=ON"),
        *build.arguments,
    ]
    for library in build.static:
        question = [CROSS, f"-print-file-name={library}"]
        path = subprocess.run(question, capture_output=True, text=True, check=True).stdout.strip()
        configure.append(f"-DOpenMP_gomp_LIBRARY={path}")
    if ninja := shutil.which(_tool("ninja")):
        configure.append(f"-DCMAKE_MAKE_PROGRAM={ninja}")
    jobs = str(len(os.sched_getaffinity(0)))
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (configure, [_tool("cmake"), "--build", str(folder), "-j", jobs]):
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return folder / "nsa_replay"


def run_replay(build, program, *arguments):
    """The finished process of nsa_replay."""
    return subprocess.run(
        [*build.runner, str(program), *map(str, arguments)],
        env={**os.environ, **dict(build.environment)},
        capture_output=True,
        text=True,
        timeout=build.seconds,
    )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(compile_replay(BUILDS[name]))
