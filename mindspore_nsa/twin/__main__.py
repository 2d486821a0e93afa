"""Compiler and linker flags for programs that use the twin, on one line."""

import argparse
import shlex
import sys

from . import cflags, libs


def main():
    """Print what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m mindspore_nsa.twin",
        description="Flags for a C++ program that uses the CPU twin of Ascend C: "
        "g++ -std=c++17 example.cpp $(python -m mindspore_nsa.twin --cflags --libs)",
    )
    parser.add_argument("--cflags", action="store_true", help="flags of the compiler")
    parser.add_argument("--libs", action="store_true", help="flags of the linker")
    chosen = parser.parse_args()
    if not (chosen.cflags or chosen.libs):
        parser.error("give --cflags, --libs or both")
    try:
        flags = (cflags() if chosen.cflags else []) + (libs() if chosen.libs else [])
    except FileNotFoundError as error:
        sys.exit(str(error))
    print(shlex.join(flags))


if __name__ == "__main__":
    main()
