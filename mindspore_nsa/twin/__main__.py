"""Flags for programs that use the twin, and modelled time of their kernels."""

import argparse
import os
import shlex
import subprocess
import sys

from . import cflags, costs, libs


def _flags(chosen, parser):
    if not (chosen.cflags or chosen.libs):
        parser.error("give --cflags, --libs or both, or a command: time, costs")
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
    commands.add_parser("costs", help="print the costs that modelled time is made from")
    chosen = parser.parse_args()
    try:
        if chosen.command == "time":
            return _time(chosen)
        return _costs() if chosen.command == "costs" else _flags(chosen, parser)
    except FileNotFoundError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main())
