"""`python -m benchmarks`: speed, memory and call overhead of operators, layers and training."""

import argparse
import os
import sys
from pathlib import Path


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="cases whose names begin with NAME; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first impression")
    parser.add_argument(
        "--one-process",
        action="store_true",
        help="all cases in one process, for a profiler; by default each has its own",
    )
    parser.add_argument(
        "--against",
        metavar="REV",
        help="beside the kernels of another commit, which is built under build/against: the "
        "operators' cases, on one thread unless --threads says otherwise",
    )
    parser.add_argument("--threads", type=int, default=0, help="default: all processors")
    parser.add_argument(
        "--target",
        default="cpu",
        choices=("cpu", "ascend_twin"),
        help="cpu (default): time on this machine; ascend_twin: modelled time of the Ascend "
        "kernels, with --png the timeline of a core",
    )
    parser.add_argument("--chip", default="910B1", choices=("910B1", "910B3", "910B4"))
    parser.add_argument(
        "--executed",
        action="store_true",
        help="with --target ascend_twin: extrapolate no size; the largest take half an hour each",
    )
    parser.add_argument(
        "--clock",
        action="store_true",
        help="with --target ascend_twin: print what the clock says of each execution, too: pipes, "
        "what they wait for, the critical path",
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        type=int,
        metavar="N",
        help="with --target ascend_twin: rows of a batch of the operators that read a cache, one "
        "number or several; default: 8",
    )
    parser.add_argument(
        "--new-tokens",
        type=int,
        metavar="N",
        help="with --target ascend_twin: new tokens of every row in compress_infer and decode; "
        "default: 1",
    )
    parser.add_argument("--csv", metavar="PATH", help="write the figures to a file")
    parser.add_argument("--png", metavar="PATH", help="draw the figures (needs matplotlib)")
    arguments = parser.parse_args()
    for option in ("csv", "png"):
        path = getattr(arguments, option)
        # Found out at the end, it would cost what was measured.
        if path is not None and (Path(path).is_dir() or not Path(path).parent.is_dir()):
            parser.error(f"--{option} {path}: must be a file in a folder that exists")
    return parser, arguments


def _modelled(parser, arguments):
    from . import modelled

    try:
        batch = arguments.rows or [8], arguments.new_tokens or 1
        found = modelled.select(arguments.only, arguments.quick, *batch)
    except ValueError as error:
        parser.error(str(error))
    if arguments.list:
        print("\n".join(case.name for case in found))
    else:
        options = (arguments.csv, arguments.png, arguments.executed, arguments.clock)
        modelled.run(found, arguments.chip, *options)
    return 0


def _against(parser, arguments, cases):
    from . import against

    cases = [case for case in cases if case.kind == "speed"]
    if not cases:
        parser.error("--against: none of the cases is an operator's")
    try:
        folder = against.built(arguments.against)
    except ValueError as error:
        parser.error(str(error))
    against.run(cases, folder, arguments.quick, arguments.threads or 1)
    return 0


def main():
    """Returns the exit code: 1 if an operator was found wrong."""
    parser, arguments = _arguments()
    root = Path(__file__).resolve().parents[1]
    # Where mindspore_nsa is installed, that is what is measured, not the source tree.
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != root] + [str(root)]
    from . import machine

    if arguments.threads < 0:
        parser.error("--threads must be positive")
    if min(arguments.rows or [1]) < 1:
        parser.error("--rows must be positive")
    if arguments.new_tokens is not None and arguments.new_tokens < 1:
        parser.error("--new-tokens must be positive")
    machine.use_threads(arguments.threads)
    # MindSpore warns of every graph that it compiles anew, and here every case has its own.
    os.environ.setdefault("GLOG_v", "3")
    if arguments.target == "ascend_twin":
        return _modelled(parser, arguments)
    for option in ("executed", "clock", "rows", "new-tokens"):
        if getattr(arguments, option.replace("-", "_")):
            parser.error(f"--{option} is an option of --target ascend_twin")
    from . import registry, runner

    try:
        cases = registry.select(arguments.only)
    except ValueError as error:
        parser.error(str(error))
    if arguments.list:
        print("\n".join(case.name for case in cases))
        return 0
    if arguments.against:
        return _against(parser, arguments, cases)
    options = (arguments.quick, arguments.csv, arguments.png, arguments.one_process)
    return 1 if runner.run(cases, *options) else 0


if __name__ == "__main__":
    sys.exit(main())
