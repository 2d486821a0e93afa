"""Programs that use the twin: flags, modelled time, MindSpore's Ascend backend on it."""

import argparse
import os
import shlex
import subprocess
import sys

from . import _cann, cflags, costs, libs


def _flags(chosen, parser):
    if not (chosen.cflags or chosen.libs):
        parser.error("give --cflags, --libs or both, or a command: run, time, costs")
    print(shlex.join((cflags() if chosen.cflags else []) + (libs() if chosen.libs else [])))
    return 0


def _time(chosen):
    environment = {**os.environ, "MINDSPORE_NSA_TWIN_CLOCK": chosen.chip}
    if chosen.trace:
        environment["MINDSPORE_NSA_TWIN_TRACE"] = chosen.trace
    try:
        return subprocess.run([chosen.program, *chosen.arguments], env=environment).returncode
    except OSError as error:
        sys.exit(f"{chosen.program}: {error.strerror}")


def _costs():
    for row in costs():
        names = row["name"].split()
        span = f"{row['low']:g} to {row['high']:g}" if row["low"] != row["high"] else ""
        print(f"{', '.join(names)}: {row['value']:g} {row['unit']} {span}".rstrip())
        print(f"    {row['source']}")
    return 0


def main():
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m mindspore_nsa.twin",
        description="Flags for a C++ program that uses the CPU twin of Ascend C: "
        "g++ -std=c++17 example.cpp $(python -m mindspore_nsa.twin --cflags --libs)",
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
        help="run a Python program in which MindSpore's device Ascend is the twin",
        usage="%(prog)s (script.py | -m module) [arguments]",
    )
    script.add_argument("program", nargs="*", help="of the script, or of the module after -m")
    commands.add_parser("costs", help="print the costs that modelled time is made from")
    # What follows "run" is the program's: argparse would take its options for ours.
    ours, program = sys.argv[1:], []
    if ours[:1] == ["run"] and ours[1:2] not in (["-h"], ["--help"]):
        ours, program = ours[:1], ours[1:]
    chosen = parser.parse_args(ours)
    try:
        if chosen.command == "run":
            if not program or program == ["-m"]:
                script.error("give a script, or -m and a module")
            _cann.run(program)
        if chosen.command == "time":
            return _time(chosen)
        return _costs() if chosen.command == "costs" else _flags(chosen, parser)
    except (FileNotFoundError, _cann.Unavailable) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main())
