"""Calls with the largest and smallest integers in one place: an attribute, an index, a length.

A product of an index and a size must not wrap: such a call has the result of one whose size is
longer than everything, or of one without the index, or an error that names what is wrong.
"""

import copy
import math
import resource

import numpy as np

from mindspore_nsa import _native
from tests.common.cases import GENERATORS, make_case

# Far beyond every length of the cases, and small enough for any product: the others are like it.
FAR = 1 << 20
EDGES = (2**31 - 1, 2**31, 2**32, 2**33, 2**40, 2**59, 2**60 - 1, 2**60, 2**62, 2**63 - 1)
INDICES = (-(2**31), -2, 2**31 - 1)
LENGTHS = (-(2**63), -1, 2**31 - 1, 2**31, 2**60 - 1, 2**63 - 1)
# Indices that stand for nothing where they are out of range.
PICKS = ("topk_indices", "sparse_indices")


def integers_of(op):
    """Names of the integer attributes of an operator that are no flags, from its schema."""
    return [a["name"] for a in _native.schema(op)["attrs"] if a["type"] == "int" and not a["flag"]]


def with_attr(case, name, value):
    other = copy.copy(case)
    other.attrs = {**case.attrs, name: value}
    other.name = f"{case.name}, {name} = {value}"
    return other


def with_input(case, name, array):
    named = {**case.named(), name: array}
    other = copy.copy(case)
    other.inputs = list(named.values())
    other.name = f"{case.name}, {name} changed"
    return other


def attr_cases(op, seeds):
    """For each integer attribute (name, a call with FAR or -FAR, calls that should be like it)."""
    for seed in seeds:
        case = make_case(seed, op)
        for name in integers_of(op):
            for sign in (1, -1):
                edges = [with_attr(case, name, max(sign * edge, -(2**63))) for edge in EDGES]
                yield name, with_attr(case, name, sign * FAR), edges


def pick_cases(op, seeds):
    """For each input of picks (name, a call with -1 in some places, the same with other indices).

    Also with blocks that are as long as an attribute allows.
    """
    blocks = [n for n in integers_of(op) if n in ("select_block_size", "sparse_block_size")]
    for seed in seeds:
        case = make_case(seed, op)
        for name in PICKS:
            if case.named().get(name) is None:
                continue
            rng = np.random.default_rng(seed)
            given = case.named()[name]
            places = rng.random(given.shape) < 0.4
            for size in (None, *EDGES[:7]):
                if size is not None and not blocks:
                    break
                sized = case if size is None else with_attr(case, blocks[0], size)
                without = with_input(sized, name, np.where(places, -1, given).astype(np.int32))
                others = [
                    with_input(sized, name, np.where(places, index, given).astype(np.int32))
                    for index in INDICES
                ]
                yield name, without, others


def list_cases(op, seeds):
    """(name, call) with an extreme number in a list or a table."""
    for seed in seeds:
        case = make_case(seed, op)
        for spec in _native.schema(op)["inputs"]:
            name = spec["name"]
            given = case.named().get(name)
            if given is None or not (spec["list"] or name.endswith("block_table")):
                continue
            numbers = LENGTHS if given.dtype == np.int64 else INDICES
            for number in numbers:
                for place in {0, given.size - 1}:
                    values = given.copy()
                    values.ravel()[place] = number
                    yield name, with_input(case, name, values)


OPERATORS = tuple(GENERATORS)


def _answer(case, target):
    """The outputs of a call as bytes with their shapes, or None and its error."""
    try:
        outputs = _native.run(case.op, case.inputs, case.attrs, num_threads=1, target=target)
        arrays = [x[1] if isinstance(x, tuple) else x for x in outputs]
        return [(x.shape, x.tobytes()) for x in arrays], None
    except (TypeError, ValueError, MemoryError) as error:
        return None, error


def answered_cases(seeds, most_bytes=1 << 22):
    """The calls of attributes and picks that have outputs, of so many bytes at most."""
    cases = []
    for op in OPERATORS:
        for _, like, others in (*attr_cases(op, seeds), *pick_cases(op, seeds)):
            for case in (like, *others):
                try:
                    outputs = _native.infer(op, described(case), case.attrs)
                except (TypeError, ValueError):
                    continue
                if sum(math.prod(shape) for _, shape in outputs) * 4 <= most_bytes:
                    cases.append(case)
    return cases


def described(case):
    """The inputs of a case as inference takes them."""
    described = []
    for spec, x in zip(_native.schema(case.op)["inputs"], case.inputs, strict=True):
        if x is None:
            described.append(None)
            continue
        dtype, array = x if isinstance(x, tuple) else (x.dtype.name, x)
        values = tuple(array.tolist()) if spec["list"] else None
        described.append((dtype, array.shape, values))
    return described


def _differ(ours, theirs):
    shapes = [[shape for shape, _ in outputs] for outputs in (ours, theirs)]
    return shapes[0] == shapes[1] and ours != theirs


def _check_group(name, like, others, target):
    """The calls that are answered have the outputs of the first that is."""
    expected = None
    for case in (like, *others):
        print(case.op, case.name, flush=True)  # the last line where the process dies
        outputs, error = _answer(case, target)
        if isinstance(error, (TypeError, ValueError)) and not str(error).strip():
            raise AssertionError(f"an error without a word: {case}")
        expected = expected or outputs
        if outputs is not None and _differ(outputs, expected):
            raise AssertionError(f"{name}: other outputs than {like.name}: {case}")
    return expected is not None


def run(seeds, target="cpu", operators=OPERATORS, megabytes=512):
    """Make the calls of some seeds, with so much memory more; print which groups had outputs."""
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    answered = {}
    for op in operators:
        groups = [*attr_cases(op, seeds), *pick_cases(op, seeds)]
        groups += [(name, case, ()) for name, case in list_cases(op, seeds)]
        for name, like, others in groups:
            answered[op, name] = _check_group(name, like, others, target) or answered.get(
                (op, name), False
            )
    print("answered:", *(f"{op}.{name}" for (op, name), there in answered.items() if there))
