"""Functions of mindspore.mint that MindSpore has no CPU kernel for, from others, with gradients."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, ops
from mindspore.common.initializer import Normal, initializer

from ..ops._in_place import is_view


def arange(start, end=None, step=1, *, dtype=None):
    """mint.arange of numbers or Tensors of one."""
    if end is None:
        start, end = 0, start
    numbers = [x.item() if isinstance(x, Tensor) else x for x in (start, end, step)]
    own = ms.int64 if all(isinstance(x, (int, np.integer)) for x in numbers) else ms.float32
    return Tensor(np.arange(*numbers)).astype(dtype or own)


def outer(x, y):
    """mint.outer."""
    return ops.expand_dims(x, 1) * ops.expand_dims(y, 0)


def index_select(x, dim, index):
    """mint.index_select."""
    return ops.gather(x, index, dim)


def _chosen(mask, x, others):
    """x where an array is True, else a number; there are few dtypes that select takes."""
    wide = x.astype(ms.float32) if x.dtype == ms.bfloat16 else x
    if wide.dtype not in (ms.float16, ms.float32):
        return Tensor(np.where(mask, x.asnumpy(), others).astype(x.asnumpy().dtype))
    return ops.select(Tensor(mask), wide, ops.full_like(wide, others)).astype(x.dtype)


def tril(x, diagonal=0):
    """mint.tril."""
    return _chosen(np.tril(np.ones(x.shape, bool), diagonal), x, 0)


def triu(x, diagonal=0):
    """mint.triu."""
    return _chosen(np.triu(np.ones(x.shape, bool), diagonal), x, 0)


def full(size, fill_value, *, dtype=None):
    """mint.full."""
    return Tensor(np.full(size, fill_value)).astype(dtype or ms.float32)


def zeros_like(x, *, dtype=None):
    """mint.zeros_like."""
    return ops.zeros(x.shape, dtype or x.dtype)


def ones_like(x, *, dtype=None):
    """mint.ones_like."""
    return ops.ones(x.shape, dtype or x.dtype)


def scatter_add(x, dim, index, src):
    """mint.scatter_add."""
    return ops.tensor_scatter_elements(x, index, src, dim, "add")


def scatter(x, dim, index, src):
    """mint.scatter of a number or a Tensor."""
    if isinstance(src, Tensor) and src.ndim > 0:
        return ops.tensor_scatter_elements(x, index, src, dim)
    src = src.item() if isinstance(src, Tensor) else src
    stays = np.ones(x.shape, bool)
    np.put_along_axis(stays, index.asnumpy(), False, dim)
    return _chosen(stays, x, src)


def split(x, split_size_or_sections, dim=0):
    """mint.split, whose own gradient is wrong on a CPU where a concatenation follows."""
    if not isinstance(split_size_or_sections, int):
        split_size_or_sections = list(split_size_or_sections)
    return ops.split(x, split_size_or_sections, dim)


def chunk(x, chunks, dim=0):
    """mint.chunk, whose own gradient is no better."""
    return ops.split(x, -(-x.shape[dim] // chunks), dim)


def stack(tensors, dim=0):
    """mint.stack."""
    return ops.stack(list(tensors), dim)


def roll(x, shifts, dims=None):
    """mint.roll over one dimension."""
    shifts %= x.shape[dims]
    if shifts == 0:
        return x * 1
    tail, head = ops.split(x, [x.shape[dims] - shifts, shifts], dims)
    return ops.concat((head, tail), dims)


def topk(x, k, dim=-1):
    """mint.topk; of equal values the first comes first."""
    order = np.argsort(-x.asnumpy(), dim, "stable").take(np.arange(k), dim)
    places = Tensor(order.astype(np.int64))
    return ops.gather_elements(x, dim, places), places


def clamp(x, min=None, max=None):  # noqa: A002
    """mint.clamp."""
    return ops.clip_by_value(x, min, max)


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    """mint.nn.functional.layer_norm of as many last dimensions as `shape` has."""
    last = -1 if isinstance(shape, int) else tuple(range(-len(shape), 0))
    centered = x - ops.mean(x, last, True)
    y = centered * ops.rsqrt(ops.mean(centered * centered, last, True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(x, gamma, epsilon=1e-6):
    """ops.rms_norm: x over its root mean square, in float32 between, and 1 over that root."""
    full, last = x.astype(ms.float32), tuple(range(-len(gamma.shape), 0))
    scale = ops.rsqrt(ops.mean(full * full, last, True) + epsilon)
    return (full * scale * gamma.astype(ms.float32)).astype(x.dtype), scale


def detach(self):
    """Tensor.detach."""
    return ops.stop_gradient(self)


def _written(tensor, values):
    """The Tensor with new values: MindSpore's copy_ writes to no view on a CPU."""
    if isinstance(tensor, Parameter):
        tensor.set_data(values)
    elif is_view(tensor):
        tensor[...] = values
    else:
        tensor.copy_(values)
    return tensor


def mul_(self, other):
    """Tensor.mul_, whose own leaves a Tensor as it is on a CPU, and gives the product."""
    wide = self.astype(ms.float32) if self.dtype == ms.bfloat16 else self
    values = (wide * other).astype(self.dtype)
    # Gradients go through copy_, which a Parameter has, too.
    return self.copy_(values) if isinstance(self, Parameter) else _written(self, values)


def fill_(self, value):
    """Tensor.fill_."""
    value = value.item() if isinstance(value, Tensor) else value
    return _written(self, Tensor(np.full(self.shape, value)).astype(self.dtype))


def zero_(self):
    """Tensor.zero_."""
    return fill_(self, 0)


def normal_(self, mean=0.0, std=1.0):
    """Tensor.normal_."""
    return _written(self, initializer(Normal(std, mean), self.shape, self.dtype).init_data())
