"""`python -m mindspore_nsa.check`: it covers every Ascend operator and fails where one is wrong."""

import subprocess
import sys

import numpy as np
import pytest
from mindspore import Tensor, ops

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa.check import CHECKS
from mindspore_nsa.check.__main__ import check, judge, run
from mindspore_nsa.check.calls import ENDS, SCALE
from mindspore_nsa.check.device import Device

NAMES = {function.__name__: function for function in CHECKS}


def test_every_operator_with_an_ascend_kernel():
    assert {op for covered in CHECKS.values() for op in covered} == set(_native.ascend_operators())


@pytest.mark.parametrize("name", NAMES)
def test_calls_are_of_these_operators(name):
    """A table of operators says nothing if a function does not call them."""
    right, wrong, seconds = check(NAMES[name], "float32")
    assert (tuple(right), wrong) == (CHECKS[NAMES[name]], []) and seconds > 0


def naive(visible):
    """Attention in MindSpore's own operators, as a public operator gives it."""
    hidden = Tensor(np.where(visible, 0, -np.inf)[None].astype(np.float32))

    def attention(q, k, v):
        group = q.shape[1] // k.shape[1]
        dtype, (q, k, v) = q.dtype, (x.astype(hidden.dtype).swapaxes(0, 1) for x in (q, k, v))
        k, v = (ops.repeat_interleave(x, group, 0) for x in (k, v))
        scores = ops.matmul(q, k.swapaxes(1, 2)) * SCALE + hidden
        largest = scores.max(-1, keepdims=True)
        weights = ops.exp(scores - largest)
        total = weights.sum(-1, keepdims=True)
        out = ops.matmul(weights / total, v).swapaxes(0, 1).astype(dtype)
        statistics = (ops.repeat_interleave(x.swapaxes(0, 1), 8, -1) for x in (largest, total))
        return out, *statistics

    return attention


def seen(dropped):
    """Pairs [192, 192] that are visible in both texts; without `dropped` keys of the second."""
    t = np.arange(ENDS[-1])
    visible = (t[:, None] >= t) & ((t[:, None] < ENDS[0]) == (t < ENDS[0]))
    lost = (t >= ENDS[0]) & (t % 40 == 0) & (t[:, None] > t)
    return visible & ~lost if dropped else visible


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_one_key_in_forty(dtype, monkeypatch):
    """A kernel that drops one key in forty differs; an exact one passes the same judge."""
    for dropped in (False, True):
        attention = naive(seen(dropped))

        def instead(q, k, v, *_, attention=attention, **options):
            return attention(q, k, v)

        monkeypatch.setattr(mindspore_nsa, "flash_attention_score", instead)
        found = list(NAMES["flash_attention_score"](Device(dtype)))
        reasons = [judge(case, outputs) for case, outputs in found]
        assert len(reasons) == 2 and all(bool(reason) == dropped for reason in reasons), reasons


def test_single_tokens_are_judged(monkeypatch):
    """A step that loses its single tokens fails, although most tokens are the prompt's."""
    ((step, (outputs,)),) = NAMES["nsa_cache_step"](Device("float16"))
    assert judge(step, [outputs]) is None
    outputs = outputs.copy()
    outputs[62] = 0
    assert "NsaCacheStep" in judge(step, [outputs])


def test_exceptions_and_differences_are_counted(monkeypatch, capsys):
    def fails(device):
        raise ValueError("no such kernel")

    def differs(device):
        (case, outputs), *_ = NAMES["nsa_compress"](device)
        yield case, [outputs[0] * 2]

    monkeypatch.setattr("mindspore_nsa.check.__main__.CHECKS", {fails: (), differs: ()})
    assert run(["float32"]) == (0, 2)
    printed = capsys.readouterr().out
    assert "FAILED" in printed and "ValueError: no such kernel" in printed
    assert "DIFFERS" in printed and "e = " in printed


def test_command(tmp_path):
    """The table has a line for each operator and dtype, and the last line is the report."""
    command = [sys.executable, "-m", "mindspore_nsa.check", "--device", "CPU"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    lines = done.stdout.splitlines()
    agreed = [tuple(line.split()[:2]) for line in lines if " agrees " in line]
    expected = [(name, dtype) for name in NAMES for dtype in ("float32", "float16", "bfloat16")]
    assert agreed == expected
    results = 3 * sum(len(covered) for covered in CHECKS.values())
    assert lines[-1].startswith("report: mindspore_nsa ")
    assert lines[-1].endswith(f"{results} results agree, 0 do not")
