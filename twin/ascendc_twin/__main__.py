"""Programs that use the twin: to compile and run one, flags, modelled time, MindSpore's Ascend
backend on it, and what a kernel's source misses in it."""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from . import _cann, _check, _launches, _tiling, costs
from . import cflags as own_cflags
from . import libs as own_libs

# ".asc" is that of CANN's sources with kernels and launches in one.
_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++", ".asc")


def _flags(chosen, parser, cflags, libs):
    if not (chosen.cflags or chosen.libs):
        parser.error("give --cflags, --libs or both, or a command: run, time, check, tiling, costs")
    print(shlex.join((cflags() if chosen.cflags else []) + (libs() if chosen.libs else [])))
    return 0


def _compile_and_run(source, arguments, cflags, libs):
    """The exit code of a program of one source, or of the compiler that refuses it."""
    compiler = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    more = shlex.split(os.environ.get("CXXFLAGS", ""))
    text = Path(source).read_text()
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder, Path(source).stem))
        launches = _launches.rewrite(text, source)
        compiled = [source]
        if launches is not None:
            Path(folder, "launches.cpp").write_text(launches)
            # The compiler looks up included files beside the source.
            compiled = [f"-iquote{Path(source).parent}", str(Path(folder, "launches.cpp"))]
        elif source.endswith(".asc"):
            compiled = ["-x", "c++", source, "-x", "none"]
        command = [*compiler, "-std=c++17", "-O1", "-g", *more, *compiled, *cflags(), *libs()]
        for step in ([*command, "-o", program], [program, *arguments]):
            try:
                code = subprocess.run(step).returncode
            except OSError as error:
                sys.exit(f"{step[0]}: {error.strerror}")
            if code:
                # A shell tells of a program that a signal has ended in this way.
                return code if code > 0 else 128 - code
    return 0


def _time(chosen):
    environment = {**os.environ, "ASCENDC_TWIN_CLOCK": chosen.chip}
    if chosen.trace:
        environment["ASCENDC_TWIN_TRACE"] = chosen.trace
    try:
        return subprocess.run([chosen.program, *chosen.arguments], env=environment).returncode
    except OSError as error:
        sys.exit(f"{chosen.program}: {error.strerror}")


def _check_sources(chosen, flags):
    try:
        results = _check.check_all(
            chosen.sources,
            chosen.compiler,
            _check.flags_for(chosen.half, chosen.std, flags),
            chosen.tiling,
        )
    except OSError as error:
        sys.exit(f"{error.filename or chosen.compiler}: {error.strerror or error}")
    print(_check.report(results))
    return int(any(result.places for result in results))


def _tiling_header(chosen):
    texts = [Path(header).read_text() for header in chosen.headers]
    print(_tiling.structs(texts, chosen.kernel), end="")
    return 0


def _costs():
    for row in costs():
        names = row["name"].split()
        span = f"{row['low']:g} to {row['high']:g}" if row["low"] != row["high"] else ""
        print(f"{', '.join(names)}: {row['value']:g} {row['unit']} {span}".rstrip())
        print(f"    {row['source']}")
    return 0


def main(package="ascendc_twin", cflags=own_cflags, libs=own_libs, packages=()):
    """Read the arguments of the process and do what they say.

    Args:
        package: The Python package that the command is of.
        cflags, libs: Functions that give the flags of its programs.
        packages: Folders of packages of operators that `run` lets MindSpore find.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}",
        description="Flags for a C++ program that uses the CPU twin of Ascend C: "
        f"g++ -std=c++17 example.cpp $(python -m {package} --cflags --libs)",
    )
    parser.add_argument("--cflags", action="store_true", help="flags of the compiler")
    parser.add_argument("--libs", action="store_true", help="flags of the linker")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    timed = commands.add_parser(
        "time", help="run a program and print the modelled time of each kernel that it starts"
    )
    timed.add_argument(
        "--chip", default="910B1", choices=("910B1", "910B3", "910B4"), help="default: 910B1"
    )
    timed.add_argument(
        "--trace", metavar="FILE", help="write a trace, which https://ui.perfetto.dev opens"
    )
    timed.add_argument("program")
    timed.add_argument("arguments", nargs=argparse.REMAINDER)
    script = commands.add_parser(
        "run",
        help="compile a C++ program against the twin and run it, or run a Python program in which "
        "MindSpore's device Ascend is the twin",
        description="CXX names the compiler, CXXFLAGS more of its flags.",
        usage="%(prog)s (main.cpp | main.asc | script.py | -m module) [arguments]",
    )
    script.add_argument("program", nargs="*", help="source, script, or module after -m")
    checked = commands.add_parser(
        "check",
        help="compile kernels' sources against the twin and list the names that it does not have",
        description="Compiles sources, without making anything of them, and lists what they miss, "
        "what most of them miss first. Flags of the compiler follow --: check a.cpp -- -I. -DN=8",
        usage="%(prog)s [options] SOURCE.cpp ... [-- FLAGS OF THE COMPILER]",
    )
    checked.add_argument("sources", nargs="+", metavar="SOURCE.cpp")
    checked.add_argument(
        "--compiler",
        default=os.environ.get("CXX", "g++"),
        help="g++, clang++ or libclang, which is Python's package; default: CXX, or g++",
    )
    checked.add_argument("--std", default="c++17", help="standard of C++; default: c++17")
    checked.add_argument(
        "--half",
        default="both",
        choices=sorted(_check.HALVES),
        help="one of the two compilations that CANN makes of a source; default: both in one",
    )
    checked.add_argument(
        "--tiling",
        action="append",
        default=[],
        metavar="HEADER",
        help="a header of the host side with BEGIN_TILING_DATA_DEF; may be given several times",
    )
    tiling = commands.add_parser(
        "tiling",
        help="print the structs of tiling data that a kernel reads, from the host's definitions",
    )
    tiling.add_argument("--kernel", help="the kernel's name, whose struct GET_TILING_DATA gives")
    tiling.add_argument("headers", nargs="+", metavar="HEADER")
    commands.add_parser("costs", help="print the costs that modelled time is made from")
    # The program gets all that follows "run": argparse would take its options for ours.
    ours, program = sys.argv[1:], []
    if ours[:1] == ["run"] and ours[1:2] not in (["-h"], ["--help"]):
        ours, program = ours[:1], ours[1:]
    elif ours[:1] == ["check"] and "--" in ours:
        at = ours.index("--")
        ours, program = ours[:at], ours[at + 1 :]
    chosen = parser.parse_args(ours)
    try:
        if chosen.command == "run":
            if not program or program == ["-m"]:
                script.error("give a source in C++, a script, or -m and a module")
            if program[0].endswith(_SUFFIXES):
                return _compile_and_run(program[0], program[1:], cflags, libs)
            _cann.run(program, packages)
        if chosen.command == "time":
            return _time(chosen)
        if chosen.command == "check":
            return _check_sources(chosen, program)
        if chosen.command == "tiling":
            return _tiling_header(chosen)
        return _costs() if chosen.command == "costs" else _flags(chosen, parser, cflags, libs)
    except (FileNotFoundError, ImportError, ValueError, _cann.Unavailable) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main())
