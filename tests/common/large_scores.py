"""Forwards and their gradients where scores are in the thousands: P is one key's, unless both
disagree on the scores by what float32 rounds."""

from functools import partial

from benchmarks import workloads
from mindspore_nsa.testing.case import ORDERS, run_plain, run_reference
from mindspore_nsa.testing.dtypes import decode
from mindspore_nsa.testing.tolerance import error, limit

# Ways of a forward on AMX: steps of many keys, heads of a query with few, blocks, all keys at once.
_WORKLOADS = {
    "dense": partial(workloads.flash, 330, heads=2, kv_heads=1, dim=128),
    "window": partial(workloads.flash, 200, heads=16, kv_heads=1, dim=32, window=50),
    "selected": partial(workloads.selected, 300, heads=16, kv_heads=1, dim=32),
    "compressed": partial(workloads.compress_attention, 4400, heads=1, kv_heads=1, dim=128),
}
_TIMES = 100.0


def large_scores():
    """{name: function that builds the workload}"""

    def build(make, dtype):
        workload = make(dtype=dtype)
        inputs = workload.forward.named()
        for name in ("query", "key"):
            inputs[name] *= inputs[name].dtype.type(_TIMES)
        return workload

    return {
        f"{name} {dtype}": partial(build, make, dtype)
        for name, make in _WORKLOADS.items()
        for dtype in ("float32", "float16")
    }


def check_gradient(workload, gradients):
    """Assert that the gradients of a forward, both ours, are as exact as both plain ones.

    Where two keys are nearly alike, plain ones depend on the order of their sums: no more orders
    are tried than it takes.
    """
    exact = run_reference(workload.gradient(run_reference(workload.forward)))[:3]
    ours = [error(decode(x), ref64) for x, ref64 in zip(gradients, exact, strict=False)]
    plain = [0.0] * 3
    for order in range(ORDERS):
        theirs = run_plain(workload.gradient(run_plain(workload.forward, order)), order)
        plain = [max(e, error(x, ref64)) for e, x, ref64 in zip(plain, theirs, exact, strict=False)]
        limits = [limit(e, workload.forward.dtype) for e in plain]
        if all(e <= most for e, most in zip(ours, limits, strict=True)):
            return
    raise AssertionError(f"{workload.forward}: dq, dk, dv: e = {ours} > {limits}")
