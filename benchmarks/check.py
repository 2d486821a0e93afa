"""No figure of a wrong operator: a small call, judged as the tests judge it."""

from functools import cache

from mindspore_nsa.testing.case import compare

from .program import Program

# Tokens of the small call; every boundary of a block, of a window and of a segment is inside.
TOKENS = 300


@cache
def problem(build, dtype, direction):
    """Why an operator is not measured, or None if it is right.

    `build` is a function of workloads.py, called with a number of tokens and a dtype. The gradient
    is given what the operator's own forward call returned, which is judged too.
    """
    try:
        workload = build(TOKENS, dtype)
        outputs = Program(workload.forward).arrays()
        compare(workload.forward, outputs)
        if direction == "backward":
            gradient = workload.gradient(outputs)
            compare(gradient, Program(gradient).arrays())
    except Exception as error:  # whatever goes wrong, the operator is not measured
        return f"{type(error).__name__}: {error}"
    return None


def first_problem(builds, dtype, direction):
    """Why one of several operators is not measured, or None; "both": forward and gradient."""
    direction = "backward" if direction == "both" else direction
    return next(filter(None, (problem(build, dtype, direction) for build in builds)), None)
