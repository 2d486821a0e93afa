"""Operators that frameworks for Ascend call and MindSpore has no CPU kernel for, from others.

For trying a framework's model on a CPU: `with_cpu_operators("mindone")` before the framework is
imported. On Ascend nothing is replaced. What MindFormers' PyNative models need,
`mindspore_nsa.integrations.mindformers.serve_cpu` replaces.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.common.initializer import Normal, initializer

from mindspore_nsa.integrations._mint import arange, rms_norm


class Embedding(nn.Cell):
    """mint.nn.Embedding."""

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, dtype=ms.float32, **options
    ):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        shape = (num_embeddings, embedding_dim)
        self.weight = Parameter(initializer(Normal(1.0), shape, dtype), name="weight")

    def construct(self, ids):
        """Rows of the weight."""
        return ops.gather(self.weight, ids, 0)


class CrossEntropyLoss(nn.Cell):
    """mint.nn.CrossEntropyLoss."""

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        super().__init__()
        self.options = weight, ignore_index, reduction, label_smoothing

    def construct(self, logits, labels):
        """The loss of logits [N, C] and labels [N], added up in float32."""
        full = logits.astype(ms.float32)
        return ops.cross_entropy(full, labels.astype(ms.int32), *self.options).astype(logits.dtype)


def pad(x, sizes, mode="constant", value=0):
    """mint.nn.functional.pad with a constant, by NumPy: labels and masks have no gradient."""
    pairs = [(0, 0)] * (x.ndim - len(sizes) // 2) + list(zip(sizes[-2::-2], sizes[::-2]))
    return Tensor(np.pad(x.asnumpy(), pairs, mode, constant_values=value or 0)).astype(x.dtype)


def dropout(x, p=0.5, training=True, **options):
    """mint.nn.functional.dropout, which is nothing outside training."""
    return ops.dropout(x, p, training) if training and p > 0 else x


def argmax(x, dim=None, keepdim=False):
    """mint.argmax."""
    return ops.argmax(x, dim, keepdim)


def masked_fill_(self, mask, value):
    """Tensor.masked_fill_."""
    return ops.assign(self, ops.masked_fill(self, mask, value))


def embedding(ids, weight, padding_idx=None, **options):
    """mint.nn.functional.embedding."""
    return ops.gather(weight, ids, 0)


class RmsNorm(nn.Cell):
    """ops.RmsNorm."""

    def __init__(self, epsilon=1e-6):
        super().__init__()
        self.epsilon = epsilon

    def construct(self, x, gamma):
        """See `rms_norm`."""
        return rms_norm(x, gamma, self.epsilon)

    def shard(self, *strategies, **options):
        """A CPU has nothing to shard over."""
        return self


class Outer(nn.Cell):
    """The outer product of two vectors."""

    def construct(self, x, y):
        """x [M], y [N] to [M, N]."""
        return ops.expand_dims(x, 1) * ops.expand_dims(y, 0)

    def shard(self, *strategies, **options):
        """A CPU has nothing to shard over."""
        return self


def overflow(self, status, compute_output):
    """The overflow of nn.TrainOneStepWithLossScaleCell by gradients that are not finite."""
    total = ops.zeros((), ms.float32)
    for gradient in compute_output:
        # NaN of what is not finite; a sum of finite ones may itself be infinite.
        total = total + ops.reduce_sum(0 * gradient.astype(ms.float32))
    return ops.logical_not(ops.isfinite(total))


def _mindone():
    mint.arange, mint.argmax = arange, argmax
    mint.nn.Embedding, mint.nn.CrossEntropyLoss = Embedding, CrossEntropyLoss
    mint.nn.functional.pad, mint.nn.functional.dropout = pad, dropout
    Tensor.masked_fill_, Tensor.clone = masked_fill_, Tensor.copy


def _mindformers():
    # Its modules take some by name, so that they are replaced before the first import.
    mint.nn.functional.embedding = embedding
    ops.operations.RmsNorm = ops.auto_generate.RmsNorm = RmsNorm
    ops.auto_generate.Outer = Outer
    scaled = nn.TrainOneStepWithLossScaleCell
    scaled._get_ascend_overflow_status_on_saturation_mode = overflow


_FRAMEWORKS = {
    "mindone": _mindone,
    "mindformers": _mindformers,
}


def with_cpu_operators(framework):
    """Replace what a framework needs, a key of `_FRAMEWORKS`; on a CPU only."""
    if ms.get_context("device_target") == "CPU":
        _FRAMEWORKS[framework]()
