"""Every benchmark case runs at tiny sizes, so that a page's figures can be measured again."""

import contextlib
import dataclasses
import io
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks import (
    branches,
    check,
    decoding,
    isolate,
    latents,
    layer,
    layer_memory,
    overhead,
    peers,
    registry,
    speed,
    timing,
    training,
)
from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import decode

TOKENS = 100
KINDS = sorted({case.kind for case in registry.CASES})
# Fields of a result that say how long something took or how fast it was.
MEASURED = ("seconds", "rate", "ratio", "speedup")


def _once(functions, *_, **__):
    """name -> the time of one call, for what calls the functions in rounds."""
    times = {}
    for name, function in functions.items():
        begin = time.perf_counter()
        function()
        times[name] = [time.perf_counter() - begin]
    return times


def _few(alternate):
    return lambda calls, repeats: alternate(calls, 5)


def _in_this_process(module, *arguments, **environment):
    """Does what isolate.run_module does, without a process of its own."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(sys, "argv", [module, *map(str, arguments)])
        sys.modules[module].main()
    return subprocess.CompletedProcess(module, 0, out.getvalue())


def _finite(case, outputs):
    """In the place of the comparison with the reference, which other tests make."""
    for x in outputs:
        values = decode(x) if isinstance(x, tuple) else x
        assert not np.isnan(values.astype(np.float64)).any(), case.op


@pytest.fixture
def tiny(monkeypatch):
    """One round, small layers, short chains, and caches that need not be cold."""
    check.problem.cache_clear()
    for module, values in {
        branches: {"interleaved": _once},
        check: {"TOKENS": TOKENS, "compare": _finite},
        decoding: {"COLD_BYTES": 1 << 23, "MOST_COPIES": 2},
        isolate: {"run_module": _in_this_process},
        layer: {"HIDDEN": 64, "OTHER_TOKENS": (TOKENS, TOKENS)},
        layer_memory: {"HIDDEN": 64, "WARM_UP_TOKENS": TOKENS},
        overhead: {"CHAIN": 2, "_alternate": _few(overhead._alternate)},
        peers: {"_fastest": lambda functions: next(iter(functions.items()))},
        timing: {"interleave": _once},
        training: {"SIZES": {**training.SIZES, "layers": 1, "width": 64, "feed_forward": 64}},
        speed.Settings: {"gemm_size": 32},
    }.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    yield
    check.problem.cache_clear()


def _small(case):
    if case.kind == "latents":
        sizes = latents.Sizes(1 if case.absorbed else 4, 2 * latents.PAGE, 2, 2, 16)
        return dataclasses.replace(case, quick=sizes)
    if hasattr(case, "quick_tokens"):
        return dataclasses.replace(case, quick_tokens=TOKENS)
    return case


def _form(case):
    """Returns all fields of a case but its name and length; every length is `TOKENS` here."""
    fields = {name: getattr(case, name) for name in case.__dataclass_fields__}
    return type(case), *(repr(v) for k, v in fields.items() if k not in ("name", "tokens"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_case(tiny, kind):
    cases = [_small(case) for case in registry.CASES if case.kind == kind]
    for case in {_form(case): case for case in cases}.values():
        assert case.problem() is None, case.name
        result = case.run(speed.Settings(quick=True))
        assert (result.case, result.kind) == (case.name, kind)
        found = [getattr(result, name) for name in MEASURED]
        assert any(found) and all(x > 0 for x in found if x is not None), case.name
        RELATIONS.get(type(case), lambda result: None)(result)


def _training(result):
    assert result.rate == pytest.approx(TOKENS / result.seconds) and result.peers["dense"] > 0


def _layer(result):
    """A layer does more than its parts, whose rounds are others here."""
    parts = result.attention_seconds + result.product_seconds
    assert result.ratio == pytest.approx(result.seconds / parts)


def _other(result):
    theirs = result.peers["lucidrains"]
    assert theirs == "not installed" or theirs > 0


def _speed(result):
    """An operator bound by products has a share of the peak, by its rate."""
    if result.unit == "GFLOP/s" and _native.isa() != "scalar":
        assert result.peak_share == pytest.approx(result.rate / result.peak_rate)
    else:
        assert result.peak_share is None


RELATIONS = {
    training.TrainingCase: _training,
    layer.LayerCase: _layer,
    layer.OtherCase: _other,
    speed.SpeedCase: _speed,
}


def test_quick_tokens_of_training():
    """A quick run's context is an eighth of the one in the case's name."""
    for case in registry.select(["training_"]):
        assert case.quick_tokens * 8 == case.tokens == int(case.name.removeprefix("training_"))
