"""Calls whose answers tell which keys were read, how often and by which query, in any dtype.

All scores are equal, so each of the n visible keys has the probability 1/n, and values are one-hot
by the number of their row: an output says how many keys of each column it is the mean of.
"""

import numpy as np

from mindspore_nsa.testing.case import INPUTS, OUTPUTS, Case, run_reference
from mindspore_nsa.testing.dtypes import decode, dtype_name, encode

_VALUES = ("value", "value_cmp", "value_slc", "value_win")
# A quarter of what one key changes, and rounding is far below that.
PART = 1 / 4


def replaced(case, **changed):
    """The case with other inputs, in the dtypes of those that it has; what is NaN stays so."""
    inputs = list(case.inputs)
    for name, x in changed.items():
        place = INPUTS[case.op].index(name)
        old = inputs[place]
        if x is not None:
            x = np.where(np.isnan(decode(old)), np.nan, x.reshape(decode(old).shape))
            x = encode(x.astype(np.float32), dtype_name(old))
        inputs[place] = x
    return Case(case.op, inputs, case.attrs, case.dtype, case.name)


def one_hot(shape, width, first=0):
    """Row n of `width` numbers is 1 in column n mod (width - first) + first."""
    rows = int(np.prod(shape)) // width
    found = np.zeros((rows, width), np.float32)
    found[np.arange(rows), np.arange(rows) % (width - first) + first] = 1
    return found.reshape(shape)


def counting(case, width):
    """A forward call of `width` numbers in a head's value, with equal scores and one-hot values."""
    named = case.named()
    found = {"query": np.zeros(decode(named["query"]).shape)}
    for name in _VALUES:
        if named.get(name) is not None:
            found[name] = one_hot(decode(named[name]).shape, width)
    return replaced(case, **found)


def keys_of(rows, most):
    """How many keys each row of outputs is the mean of, from the reference."""
    found = np.zeros(len(rows), int)
    for n in range(1, most + 1):
        if (found > 0).all():
            break
        whole = (np.abs(rows * n - np.rint(rows * n)) < 1e-6).all(axis=1)
        found[(found == 0) & whole] = n
    assert (found > 0).all(), "scores are not equal"
    return found


def check_counts(case, out, width, most):
    """Assert that every row of an output counts the keys that the reference counts."""
    ref = np.asarray(run_reference(case)[0], np.float64).reshape(-1, width)
    keys = keys_of(ref, most)[:, None]
    wrong = np.abs(decode(out).reshape(-1, width) - ref) > PART / keys
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        got = np.asarray(decode(out), np.float64).reshape(-1, width)[row] * keys[row]
        raise AssertionError(
            f"{case}: {int(wrong.any(axis=1).sum())} of {len(ref)} rows, first row {row} of "
            f"{keys[row]} keys: columns {np.flatnonzero(wrong[row])} count "
            f"{got[wrong[row]]}, not {(ref[row] * keys[row])[wrong[row]]}"
        )


# Every fourth value is 4 and the others are 0 in column 0, which alone has a gradient of scores.
_PERIOD = 4


def _values(shape):
    """Values by which dP differs from its mean."""
    found = np.zeros(shape, np.float32)
    rows = found.reshape(shape[0], -1, shape[-1])
    rows[::_PERIOD, :, 0] = _PERIOD
    return found


def gradient_counting(forward, gradient_of, side):
    """The gradient's call of a packed forward call, whose scores are equal because `side`, query or
    key, is 0; the other one is one-hot."""
    named = forward.named()
    query, key, value = (decode(named[x]).shape for x in ("query", "key", "value"))
    hot = {"query": query, "key": key}
    found = {side: np.zeros(hot[side])}
    (other,) = set(hot) - {side}
    tokens, heads, width = hot[other]
    found[other] = np.repeat(one_hot((tokens, 1, width), width), heads, axis=1)
    forward = replaced(forward, value=_values(value), **found)
    case = gradient_of(forward)
    dy = np.repeat(one_hot((query[0], 1, value[-1]), value[-1], first=1), query[1], axis=1)
    dy[..., 0] = 1
    name = "dy" if "dy" in INPUTS[case.op] else "attention_out_grad"
    return replaced(case, softmax_sum_grad=None, **{name: dy})


def check_gradient_counts(case, outputs, side, group):
    """Assert that dv, and dq where queries are 0 or dk where keys are, have every term once.

    An element of dv or dk has one query's terms, of the heads of a group; one of dq has those of
    few keys, which are equal.
    """
    ref = dict(zip(OUTPUTS[case.op], run_reference(case)))
    ours = {name: decode(x) for name, x in zip(OUTPUTS[case.op], outputs)}
    for name in ("dv", "dk" if side == "key" else "dq"):
        allowed = np.abs(ref[name]) * PART / group
        if name == "dq":
            # A row's columns have up to five keys.
            allowed = np.broadcast_to(
                allowed.max(axis=-1, keepdims=True) * group / 5, allowed.shape
            )
        if name == "dv":
            allowed[..., 0] = np.inf  # of all queries
        tiny = np.abs(ref[name]).max(initial=0) * 2.0**-12
        wrong = np.abs(ours[name] - ref[name]) > np.maximum(allowed, tiny)
        assert not wrong.any(), (
            f"{case}: {name} at {np.argwhere(wrong)[0]}: {ours[name][wrong][0]}, "
            f"not {ref[name][wrong][0]}; {int(wrong.sum())} elements"
        )
