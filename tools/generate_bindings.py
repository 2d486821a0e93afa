"""Write the C++ functions that fill the parameters of the CPU kernels.

An operator's inputs, attributes and outputs are declared once, in `infer/`, with their shapes. The
parameters of its kernel have members of the same names, which are filled from them by functions
that are written from both headers into committed files of binding/generated. What the two do not
say stands in `tools/bindings/kernels.py`, and what no name says is filled by hand in
`binding/bind_*.cc`.

`make generate` writes the files, `--check` only compares them.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tools.bindings.headers import ROOT
from tools.bindings.kernels import KERNELS
from tools.bindings.source import Operator, by_hand, family

FOLDER = ROOT / "binding" / "generated"
NOTE = "// Written by tools/generate_bindings.py: change it there, then run `make generate`.\n"


def formatted(name, source):
    """A source as clang-format has it, which puts the header of a file's name first."""
    tool = Path(sys.executable).with_name("clang-format")
    return subprocess.run(
        [tool, f"--assume-filename={FOLDER / name}"],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def declared_by_hand():
    """The header of what the written sources and those by hand have of each other."""
    lines = [line for op in KERNELS for line in by_hand(Operator(op))]
    params = sorted({KERNELS[op].params for op in KERNELS if KERNELS[op].run})
    return (
        "// Functions that binding/bind_*.cc calls, or has.\n"
        + NOTE
        + '#pragma once\n\n#include "binding/op_call.h"\n\nnamespace nsa {\n\nnamespace cpu {\n'
        + "".join(f"struct {name};\n" for name in params)
        + "}  // namespace cpu\n\n"
        + "\n".join(lines)
        + "\n\n}  // namespace nsa\n"
    )


def files():
    """Sources by the names of their files."""
    families = {}
    for op in KERNELS:
        families.setdefault(op.removesuffix("Grad"), []).append(op)
    sources = {"by_hand.h": declared_by_hand()}
    for names in families.values():
        includes, body = family(names)
        title = " and ".join(names)
        sources[f"{Operator(names[0]).function}.cc"] = (
            f"// How the CPU's kernels of {title} are called.\n{NOTE}{includes}\n"
            f"namespace nsa {{\n\n{body}\n}}  // namespace nsa\n"
        )
    return {name: formatted(name, source) for name, source in sources.items()}


def main():
    """Write the files, or name those that are not as they would be written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    sources = files()
    FOLDER.mkdir(exist_ok=True)
    stale = sorted({path.name for path in FOLDER.iterdir()}.difference(sources))
    for name in stale * (not check):
        (FOLDER / name).unlink()
    for name, source in sources.items():
        path = FOLDER / name
        if path.exists() and path.read_text() == source:
            continue
        stale.append(name)
        if not check:
            path.write_text(source)
    if stale:
        print(f"{'not fresh, run make generate' if check else 'written'}: {', '.join(stale)}")
    return bool(check and stale)


if __name__ == "__main__":
    sys.exit(main())
