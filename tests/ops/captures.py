"""Run as a file: every operator under jit(capture_mode="trace"), and after an error of one there.

MindSpore reads the source line of each frame there, and `python -m` has frames without one.
"""

import os
import sys
from pathlib import Path

# Last: where mindspore_nsa is installed, that is what the tests import.
sys.path.append(str(Path(__file__).resolve().parents[2]))

import mindspore as ms  # noqa: E402

import mindspore_nsa  # noqa: E402
from tests.ops.operators import OPERATORS, arguments  # noqa: E402


def total(name, constants):
    """The sum of the first output, as a function of the first input."""
    operator = getattr(mindspore_nsa, name)

    def function(x):
        out = operator(x, **constants)
        return (out[0] if isinstance(out, tuple) else out).sum()

    return function


def bits(x):
    return x.asnumpy().tobytes()


def main():
    """Print a line for everything that held."""
    calls = []
    for name in OPERATORS:
        constants = arguments(name)
        x = constants.pop(next(iter(constants)))
        function = total(name, constants)
        value, slope = map(bits, ms.value_and_grad(function)(x))
        calls.append((name, function, x, value, slope))
        assert bits(ms.jit(function, capture_mode="trace")(x)) == value
        assert bits(ms.jit(ms.grad(function), capture_mode="trace")(x)) == slope
        print("SAME", name, flush=True)
    constants = {**arguments("nsa_compress"), "compress_block_size": 0}
    x = constants.pop("input")
    for _ in range(2):
        try:
            ms.jit(total("nsa_compress", constants), capture_mode="trace")(x)
        except ValueError as error:
            print("ERROR", error, flush=True)
        for name, function, x, value, slope in calls:
            assert bits(function(x)) == value and bits(ms.grad(function)(x)) == slope
            for mode in ("ast", "bytecode", "trace"):
                assert bits(ms.jit(function, capture_mode=mode)(x)) == value
            print("AFTER", name, flush=True)


if __name__ == "__main__":
    main()
    # MindSpore waits for its trace, which the error has left open, when it shuts down.
    os._exit(0)
