"""After an error that shows only when the operator runs, the next good call is right.

MindSpore does not run a graph again that has failed, whatever operator it was. So the error says
how to go on, and that way is tried here for every error of every operator.
"""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa

from . import test_decoding
from .calls import Function, context_mode
from .operators import arguments

MODES = ("pynative", "graph", "jit")
NOTE = "does not run this graph again: compile_cache.clear.. of the Cell that was called, or minds"
ROWS = (40, 3, 17)


def ints(*values):
    return Tensor(values, ms.int64)


def paged(name):
    """A call of 3 rows with tables of pages, of which there are 12 of 10 tokens."""
    return next(call for call in test_decoding.paged_calls() if call[0] == name)


def with_table(name):
    _, given, argument = paged(name)
    table = np.arange(12, dtype=np.int32).reshape(3, 4)
    wrong = table.copy()
    wrong[2, 0] = 12
    return given, argument, (Tensor(table), Tensor(wrong), "must be of pages in")


def of_training(name, argument, good, bad, text):
    return arguments(name), argument, (ints(*good), ints(*bad), text)


def of_decoding(name, argument, bad, text, **more):
    return {**test_decoding.CALLS[name](), **more}, argument, (ints(*ROWS), ints(*bad), text)


def written():
    tokens, weight, _, lengths = test_decoding.full_windows(None)
    given = {
        "input": tokens,
        "weight": weight,
        "compress_block_size": test_decoding.L,
        "compress_stride": test_decoding.S,
        "page_block_size": 64,
        "actual_seq_len": lengths,
        "cache": Tensor(np.zeros((4, *tokens.shape[1:]), np.float32)),
    }
    return given, "slot_mapping", (ints(1, 3), ints(1, 4), "must be .*got 4")


CMP, SEL = "nsa_compress_attention", "nsa_selected_attention"
FAILURES = {
    "nsa_compress": lambda: of_training(
        "nsa_compress", "actual_seq_len", (40, 96), (40, 95), "must end at T = 96, got 95"
    ),
    CMP: lambda: of_training(
        CMP, "actual_cmp_seq_kvlen", (4, 10), (4, 11), "must end at or before"
    ),
    SEL: lambda: of_training(SEL, "actual_seq_kvlen", (40, 96), (50, 40), "must be non-decreasing"),
    "flash_attention_score": lambda: of_training(
        "flash_attention_score", "actual_seq_qlen", (40, 96), (-1, 96), "must be non-negative"
    ),
    "nsa_decode": lambda: of_decoding(
        "nsa_decode", "actual_seq_kvlen", (41, 3, 17), "at least the|at most the 40 tokens"
    ),
    f"{CMP}_infer": lambda: of_decoding(
        *(f"{CMP}_infer", "actual_cmp_seq_kvlen", (41, 3, 17), "at most the 40 tokens")
    ),
    f"{CMP}_infer, lists": lambda: (
        {
            **test_decoding.CALLS[f"{CMP}_infer"](),
            "actual_sel_seq_kvlen": ints(
                *(test_decoding.L + (n - 1) * test_decoding.S for n in ROWS)
            ),
        },
        "actual_cmp_seq_kvlen",
        (ints(*ROWS), ints(40, 3, 16), "must be the 17 windows that are complete in"),
    ),
    f"{SEL}_infer": lambda: of_decoding(
        *(f"{SEL}_infer", "actual_seq_kvlen", (41, 3, 17), "at most the 40 tokens")
    ),
    "nsa_compress_with_cache": written,
    **{
        f"{name}, pages": (lambda name=name: with_table(name))
        for name in ("nsa_decode", f"{CMP}_infer", f"{SEL}_infer", "nsa_compress_with_cache")
    },
}  # fmt: skip


def first(outputs):
    return outputs[0] if isinstance(outputs, tuple) else outputs


def by_turns():
    """Every case in PyNative mode and in one of the two modes of graphs, with make soak in both.

    After an error in a graph MindSpore sleeps three seconds.
    """
    for i, case in enumerate(FAILURES):
        left_out = MODES[1 + i % 2]
        for mode in MODES:
            marks = pytest.mark.soak if mode == left_out else ()
            yield pytest.param(case, mode, marks=marks)


@pytest.mark.parametrize("case, mode", list(by_turns()))
def test_good_failing_good(case, mode):
    given, argument, (good, bad, text) = FAILURES[case]()
    function = getattr(mindspore_nsa, case.partition(",")[0])
    given.pop(argument, None)

    def call(values):
        return function(**given, **{argument: values})

    def run(step, values):
        return first(step(values)).asnumpy().copy()

    with context_mode(mode):
        step = {
            "pynative": lambda: call,
            "graph": lambda: Function(call),
            "jit": lambda: ms.jit(call),
        }
        step = step[mode]()
        expected = run(step, good)
        if mode == "pynative":
            with pytest.raises(ValueError, match=f"{argument} {text}|{text}") as error:
                run(step, bad)
            assert "graph" not in str(error.value)
        else:
            with pytest.raises(RuntimeError, match=f"{text}.*{NOTE}"):
                run(step, bad)
        if mode == "graph":
            step.compile_cache.clear()
        if mode == "jit":
            step = ms.jit(call)
        np.testing.assert_array_equal(run(step, good), expected)


def test_too_few_rows():
    """nsa_compress learns only at run time how many windows there are."""
    given = {**arguments("nsa_compress"), "num_windows": 10}
    del given["actual_seq_len"]

    def call(ends):
        return mindspore_nsa.nsa_compress(**given, actual_seq_len=ends)

    with context_mode("graph"):
        step = Function(call)
        expected = step(ints(40, 96)).asnumpy().copy()
        with pytest.raises(RuntimeError, match=f"num_windows must be at least 11.*{NOTE}"):
            step(ints(0, 96)).asnumpy()
        # It is MindSpore that refuses, whatever comes.
        with pytest.raises(RuntimeError, match="error occurred in the previous step"):
            step(ints(40, 96)).asnumpy()
        step.compile_cache.clear()
        np.testing.assert_array_equal(step(ints(40, 96)).asnumpy(), expected)


@pytest.mark.parametrize("mode", ["graph", "jit"])
def test_a_refused_gradient(mode):
    """A gradient that does not exist is found out when it is used, too."""
    given = test_decoding.CALLS["nsa_decode"]()
    query = given.pop("query")

    def total(x):
        return mindspore_nsa.nsa_decode(query=x, **given).sum()

    with context_mode(mode):
        step = Function(ms.grad(total)) if mode == "graph" else ms.jit(ms.grad(total))
        with pytest.raises(RuntimeError, match=f"it has no gradient.*{NOTE}"):
            step(query).asnumpy()
        good = Function(total) if mode == "graph" else ms.jit(total)
        assert np.isfinite(good(query).asnumpy())
