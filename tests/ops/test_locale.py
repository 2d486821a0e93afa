"""A process whose locale has a comma in numbers, as GUI toolkits set it: calls, errors, twin."""

import json

import pytest

from tests.common.children import python
from tests.common.comma_locale import write_comma_locale

SET = """
import ctypes, locale
locale.setlocale(locale.LC_NUMERIC, "comma")
libc = ctypes.CDLL(None)
libc.strtod.restype = ctypes.c_double
assert libc.strtod(b"0,5", None) == 0.5 and libc.strtod(b"0.5", None) == 0
import mindspore as ms
import numpy as np
from mindspore import Tensor
import mindspore_nsa
rng = np.random.default_rng(0)
"""
CALLS = """
from mindspore_nsa import reference
q = rng.standard_normal((1, 20, 2, 16)).astype(np.float32)
want = reference.flash_attention_score(
    q, q, q, 2, scalar_value=0.125, input_layout="BSND", sparse_mode=3)[0]

def forward(x):
    return mindspore_nsa.flash_attention_score(
        x, x, x, 2, scalar_value=0.125, input_layout="BSND", sparse_mode=3)

for call in (forward, ms.jit(forward)):
    np.testing.assert_allclose(call(Tensor(q)).asnumpy(), want, atol=1e-5)
slope = ms.grad(lambda x: forward(x).sum())(Tensor(q)).asnumpy()
assert np.isfinite(slope).all() and slope.any()
with mindspore_nsa.target("ascend_twin"):
    ours = forward(Tensor(q.astype(np.float16))).asnumpy()
np.testing.assert_allclose(ours, want, atol=2e-3)
try:
    mindspore_nsa.dropout_mask(1.25, 8, 0)
except ValueError as error:
    print(error)
mask = mindspore_nsa.dropout_mask(0.5, 1 << 16, 0).asnumpy()
assert abs(np.unpackbits(mask).mean() - 0.5) < 0.02
"""
CLOCK = """
from mindspore_nsa import twin
x = Tensor(rng.standard_normal((64, 2, 16)).astype(np.float16))
w = Tensor(rng.standard_normal((32, 2)).astype(np.float16))
with mindspore_nsa.target("ascend_twin"), twin.clock("910B1", trace="trace.json") as timed:
    mindspore_nsa.nsa_compress(x, w, 32, 16, actual_seq_len=(64,)).asnumpy()
    (timing,) = timed()
assert 0 < timing["microseconds"] < 100 and timing["microseconds"] % 1
assert f"{timing['microseconds']:.2f} us" in timing["table"]
"""


@pytest.fixture
def comma(tmp_path):
    """Environment in which a process has the locale "comma"."""
    return write_comma_locale(tmp_path / "locales")


def test_calls_and_errors(comma):
    done = python(SET + CALLS, **comma)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "dropout_mask: keep_prob must be in (0, 1], got 1.25"


def test_modelled_time(comma, tmp_path):
    done = python(f"import os\nos.chdir({str(tmp_path)!r})\n" + SET + CLOCK, **comma)
    assert done.returncode == 0, done.stderr[-3000:]
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event.get("dur", 0) % 1 for event in events)
