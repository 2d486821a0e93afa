"""The demo's stand-ins for operators without a CPU kernel, where 16 bits have no room for a sum."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from model_zoo_demo import cpu_operators


def test_norms_of_large_values():
    """A square of 300 is no float16."""
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32) * 300
    x = Tensor(x).astype(ms.float16)
    gamma = Tensor(np.linspace(0.5, 2, 8), ms.float16)
    full = x.asnumpy().astype(np.float64)
    root = np.sqrt((full**2).mean(-1, keepdims=True) + 1e-6)
    for norm in (cpu_operators.RmsNorm(), cpu_operators.rms_norm):
        y, scale = norm(x, gamma)
        assert y.dtype == ms.float16
        np.testing.assert_allclose(y.asnumpy(), full / root * gamma.asnumpy(), rtol=2e-3)
        np.testing.assert_allclose(scale.asnumpy(), 1 / root, rtol=1e-5)


def test_what_overflows():
    """Finite gradients do not, whatever their sum; one that is not finite does."""

    def found(*gradients):
        gradients = [Tensor(np.full(4000, value), dtype) for value, dtype in gradients]
        return bool(cpu_operators.overflow(None, None, gradients))

    assert not found((60.0, ms.float16), (1.0, ms.bfloat16), (3e38, ms.float32))
    for value in (np.nan, np.inf, -np.inf):
        assert found((1.0, ms.float32), (value, ms.float16))


def test_the_mean_loss_of_many_rows():
    """More rows than float16 counts to."""
    rng = np.random.default_rng(0)
    logits = Tensor(rng.standard_normal((70_000, 3)).astype(np.float32)).astype(ms.float16)
    labels = Tensor(rng.integers(0, 3, 70_000))
    mean = cpu_operators.CrossEntropyLoss()(logits, labels)
    exact = ops.cross_entropy(logits.astype(ms.float32), labels.astype(ms.int32))
    assert mean.dtype == ms.float16
    np.testing.assert_allclose(mean.astype(ms.float32).asnumpy(), exact.asnumpy(), rtol=1e-3)
