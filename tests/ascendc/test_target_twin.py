"""Target ascend_twin in MindSpore: the same function and the same gradient in every mode."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa.reference import nsa_compress as reference
from tests.ascendc.programs import python
from tests.ops.calls import context_mode, in_mode

SEQ, ROWS = (0, 40, 96, 96, 160), 6
UPSTREAM = np.random.default_rng(3).integers(-4, 5, (ROWS, 3, 16)) / 4


def draw(*shape, dtype=ms.float16):
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return Tensor(values.astype(np.float32)).astype(dtype)


def call(x, w, seq=SEQ, **options):
    return mindspore_nsa.nsa_compress(x, w, 32, 16, actual_seq_len=seq, **options)


def gradients(x, w):
    """Output, and gradients of both inputs."""

    def total(x, w):
        y = call(x, w)
        return (y.astype(ms.float32) * Tensor(UPSTREAM, ms.float32)).sum(), y

    (_, y), (dx, dw) = ms.value_and_grad(total, (0, 1), None, has_aux=True)(x, w)
    return y, dx, dw


def bits(tensors):
    return [t.astype(ms.float32).asnumpy().tobytes() for t in tensors]


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_same_as_cpu_in_every_mode(dtype):
    """Sums of both targets are in another order, so they agree within rounding."""
    x, w = draw(160, 3, 16, dtype=dtype), draw(32, 3, dtype=dtype)
    expected = gradients(x, w)
    with mindspore_nsa.target("ascend_twin"):
        eager = gradients(x, w)
        for mode in ("graph", "jit_O0", "jit_O1"):
            with context_mode(mode):
                assert bits(in_mode(mode, gradients)(x, w)) == bits(eager), mode
        # MindSpore's capture of bytecode gives zeros for any gradient taken inside of it.
        assert bits([in_mode("jit_bytecode", call)(x, w)]) == bits(eager[:1])
    step = 2.0**-10 if dtype == ms.float16 else 2.0**-7
    for ours, theirs in zip(eager, expected):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        ours, theirs = (t.astype(ms.float32).asnumpy() for t in (ours, theirs))
        assert np.abs(ours - theirs).max() <= step * np.abs(theirs).max()


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_list_as_tensor(mode):
    """Its values change without a new graph; spare rows are zero."""
    x, w = draw(160, 3, 16), draw(32, 3)

    def with_tensor(x, w, seq):
        return call(x, w, seq, num_windows=10)

    with mindspore_nsa.target("ascend_twin"), context_mode(mode):
        function = in_mode(mode, with_tensor)
        for values in ((40, 160), (160, 160), (20, 160)):
            y = function(x, w, Tensor(values, ms.int64)).asnumpy()
            exact = reference(x.asnumpy(), w.asnumpy(), 32, 16, actual_seq_len=values)
            rows = exact.shape[0]
            assert np.abs(y[:rows] - exact).max() <= 2.0**-10 * np.abs(exact).max()
            assert not y[rows:].any()


def test_no_windows():
    with mindspore_nsa.target("ascend_twin"):
        assert call(draw(48, 3, 16), draw(32, 3), (16, 32, 48)).shape == (0, 3, 16)


def test_rejected():
    """Beyond the limits: an error that names dtype or argument, and the limit."""
    half, single = draw(96, 3, 16), draw(96, 3, 16, dtype=ms.float32)
    weight = draw(32, 3)
    with mindspore_nsa.target("ascend_twin"):
        with pytest.raises(TypeError, match="input must be of dtype float16 or bfloat16 on Ascend"):
            call(single, weight.astype(ms.float32), (96,))
        with pytest.raises(ValueError, match="compress_stride must be at least 16 on Ascend"):
            mindspore_nsa.nsa_compress(half, weight, 32, 8, actual_seq_len=(96,))
        with pytest.raises(ValueError, match="dropout_mask: .*target 'ascend_twin'"):
            mindspore_nsa.dropout_mask(0.5, 16, 1)


def test_limits_of_a_run_time_list():
    """Values known only at run time are checked at run time."""
    array = np.zeros((48, 3, 16), np.float16)
    seq = np.array([16, 40], np.int64)
    window = {"compress_block_size": 32, "compress_stride": 16}
    with pytest.raises(ValueError, match="actual_seq_len must"):
        _native.run("NsaCompress", [array, array[:32, :, 0], seq], window, target="ascend_twin")
    with pytest.raises(ValueError, match="target must be 'cpu' or 'ascend_twin', got 'ascend'"):
        _native.run("NsaCompress", [array, array[:32, :, 0], seq], window, target="ascend")


def test_table_of_operators():
    """The built operators, which the twin's library has before a process adds its own."""
    done = python("-c", "from mindspore_nsa import twin; print(*twin.operators())")
    types = sorted(map(_native.ascend_type, _native.ascend_operators()))
    assert done.stdout.split() == types, done.stderr
    for op in _native.op_names():
        if op not in _native.ascend_operators():
            inputs = [None] * len(_native.schema(op)["inputs"])
            with pytest.raises((TypeError, ValueError)):
                _native.run(op, inputs, {}, target="ascend_twin")
