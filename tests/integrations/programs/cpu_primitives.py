"""Primitives that mindone's models call and MindSpore has no CPU kernel for, forward only.

They are replaced at the one place where all of MindSpore's interfaces meet: the call of a
primitive in PyNative mode.
"""

import math

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, ops
from mindspore.ops.auto_generate import gen_ops_prim, pyboost_inner_prim

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _tensor(values, like):
    return Tensor(np.ascontiguousarray(values)).astype(like.dtype)


def _dims(x, sizes):
    return tuple(range(x.ndim - len(sizes), x.ndim))


def gelu(x, approximate="none"):
    a = x.asnumpy().astype(np.float64)
    if approximate in ("tanh", 1):
        inner = np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))
    else:
        inner = _erf(a / math.sqrt(2))
    return _tensor(a / 2 * (1 + inner), x)


def topk(x, k, dim=-1, largest=True, sorted=True):  # noqa: A002
    a = x.asnumpy()
    places = np.argsort(-a if largest else a, axis=dim, kind="stable")
    places = np.take(places, range(int(k)), axis=dim)
    return _tensor(np.take_along_axis(a, places, dim), x), Tensor(places.astype(np.int64))


def sort(x, dim=-1, descending=False, stable=False):
    return topk(x, x.shape[dim], dim, descending)


def layer_norm(x, sizes, weight=None, bias=None, eps=1e-5):
    a = x.asnumpy().astype(np.float64)
    dims = _dims(a, sizes)
    mean, variance = a.mean(dims, keepdims=True), a.var(dims, keepdims=True)
    out = (a - mean) / np.sqrt(variance + eps)
    out = out if weight is None else out * weight.asnumpy()
    out = out if bias is None else out + bias.asnumpy()
    return _tensor(out, x), Tensor(mean.astype(np.float32)), Tensor(variance.astype(np.float32))


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    a = x.asnumpy().astype(np.float64)
    grouped = a.reshape(len(a), groups, -1)
    mean, variance = grouped.mean(-1, keepdims=True), grouped.var(-1, keepdims=True)
    out = ((grouped - mean) / np.sqrt(variance + eps)).reshape(a.shape)
    channels = (1, -1, *[1] * (a.ndim - 2))
    out = out if weight is None else out * weight.asnumpy().reshape(channels)
    out = out if bias is None else out + bias.asnumpy().reshape(channels)
    return _tensor(out, x), _tensor(mean, x), _tensor(variance, x)


def batch_norm(x, weight=None, bias=None, mean=None, variance=None, *options, **named):
    channels = (1, -1, *[1] * (x.ndim - 2))
    mean, variance = (p.asnumpy().reshape(channels) for p in (mean, variance))
    out = (x.asnumpy() - mean) / np.sqrt(variance + 1e-5)
    out = out if weight is None else out * weight.asnumpy().reshape(channels)
    out = out if bias is None else out + bias.asnumpy().reshape(channels)
    return _tensor(out, x), x, x


def _each(value, count):
    return (value,) * count if isinstance(value, int) else tuple(value) * (count // len(value))


def convolution(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolve any number of dimensions."""
    a, w = x.asnumpy().astype(np.float64), weight.asnumpy().astype(np.float64)
    count = w.ndim - 2
    if padding == "valid":
        padding = 0
    stride, padding, dilation = (_each(v, count) for v in (stride, padding, dilation))
    a = np.pad(a, [(0, 0), (0, 0), *((p, p) for p in padding)])
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)]
    spatial = tuple(range(2, 2 + count))
    windows = np.lib.stride_tricks.sliding_window_view(a, reach, spatial)
    pick = [slice(None), slice(None), *(slice(None, None, s) for s in stride)]
    windows = windows[(*pick, *(slice(None, None, d) for d in dilation))]
    parts = []
    for number in range(groups):
        inputs = slice(number * w.shape[1], (number + 1) * w.shape[1])
        outputs = len(w) // groups
        kernel = w[number * outputs : (number + 1) * outputs]
        axes = (1, *range(2 + count, 2 + 2 * count)), (1, *range(2, 2 + count))
        parts.append(np.moveaxis(np.tensordot(windows[:, inputs], kernel, axes), -1, 1))
    out = np.concatenate(parts, 1)
    out = out if bias is None else out + bias.asnumpy().reshape(1, -1, *[1] * count)
    return _tensor(out, x)


def repeat_interleave(x, repeats, dim=None, output_size=None):
    repeats = repeats.asnumpy() if isinstance(repeats, Tensor) else repeats
    return _tensor(np.repeat(x.asnumpy(), repeats, dim), x)


def filled(shape, value, dtype, like=None):
    if isinstance(value, Tensor):
        value = value.asnumpy()
    number = ms.int64 if isinstance(value, int) else ms.float32
    kind = _dtype(dtype) or (number if like is None else like.dtype)
    return Tensor(np.full(shape, value)).astype(kind)


def _dtype(dtype):
    if isinstance(dtype, int):
        return ms.common.dtype._type_id_to_dtype(dtype)
    return dtype


def set_value(x, values):
    """In place, also where x is a view of another tensor."""
    ops.assign(x, Tensor(np.broadcast_to(values, x.shape).copy()).astype(x.dtype))
    return x


def normal_(x, mean, std, seed, offset):
    values = np.random.default_rng(0).standard_normal(x.shape)
    return set_value(x, values * float(std) + float(mean))


def uniform_(x, low, high, seed, offset):
    return set_value(x, np.random.default_rng(0).uniform(float(low), float(high), x.shape))


def softplus(x, beta=1, threshold=20):
    return _tensor(np.logaddexp(0, x.asnumpy().astype(np.float64) * beta) / beta, x)


def cumsum(x, dim, dtype=None):
    a = x.asnumpy()
    a = a.astype(np.int64) if a.dtype == bool else a
    out = Tensor(np.cumsum(a, dim))
    return out.astype(_dtype(dtype) or (x.dtype if x.dtype != ms.bool_ else ms.int64))


def scatter_add(x, dim, index, src):
    return ops.tensor_scatter_elements(x, index, src, dim, "add")


def index_add(x, dim, index, src, alpha=1):
    a = x.asnumpy().copy()
    np.add.at(a, (slice(None),) * (dim % a.ndim) + (index.asnumpy(),), src.asnumpy() * alpha)
    return _tensor(a, x)


def index_add_(x, *given, **named):
    return set_value(x, index_add(x, *given, **named).asnumpy())


def one_hot(x, count, on, off, axis=-1):
    a = x.asnumpy()
    count = int(count) if int(count) >= 0 else int(a.max()) + 1
    return Tensor((a[..., None] == np.arange(count)).astype(np.int64))


def reduced(function, number=np.float32):
    def reduce(x, dim=None, keepdim=False, dtype=None):
        dims = tuple(dim) if isinstance(dim, (tuple, list)) else dim
        return Tensor(np.asarray(function(x.asnumpy(), axis=dims, keepdims=keepdim))).astype(
            _dtype(dtype) or (x.dtype if x.dtype != ms.bool_ else ms.int64)
        )

    return reduce


def norm(x, p=2.0, dim=None, keepdim=False, dtype=None):
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else dim
    out = (np.abs(x.asnumpy().astype(np.float64)) ** p).sum(dims, keepdims=keepdim) ** (1 / p)
    return _tensor(np.asarray(out), x)


def as_float(name):
    """A primitive whose kernels are of floats, of ints too."""
    kind = getattr(gen_ops_prim, name)
    original = kind.__call__

    def call(self, x):
        kernels = (ms.float16, ms.float32, ms.float64)
        return original(self, x if x.dtype in kernels else x.astype(ms.float32))

    kind.__call__ = call


def constant_pad(x, padding, value=0.0):
    pairs = [(0, 0)] * (x.ndim - len(padding) // 2)
    pairs += list(zip(padding[-2::-2], padding[-1::-2]))
    return _tensor(np.pad(x.asnumpy(), pairs, constant_values=value), x)


def split(x, sizes, dim=0):
    sizes = [sizes] * (-(-x.shape[dim] // sizes)) if isinstance(sizes, int) else list(sizes)
    parts = np.split(x.asnumpy(), np.cumsum(sizes)[:-1], dim)
    return tuple(_tensor(part, x) for part in parts)


def scatter(x, dim, index, src):
    values = x.asnumpy().copy()
    src = src.asnumpy() if isinstance(src, Tensor) else src
    np.put_along_axis(values, index.asnumpy().astype(np.int64), src, dim)
    return values


def repeat(x, *counts):
    counts = counts[0] if isinstance(counts[0], (tuple, list)) else counts
    return _tensor(np.tile(x.asnumpy(), counts), x)


def nonzero(x, as_tuple=False):
    places = np.argwhere(x.asnumpy())
    if as_tuple:
        return tuple(Tensor(column.copy()) for column in places.T)
    return Tensor(places)


_where = mint.where


def where(condition, *values):
    return _where(condition, *values) if values else nonzero(condition, True)


def masked_fill_(x, mask, value):
    value = value.asnumpy() if isinstance(value, Tensor) else value
    return set_value(x, np.where(mask.asnumpy(), value, x.asnumpy()))


def interpolation(x, output_size=None, scales=None, align_corners=False):
    """To the nearest point, and by whole factors, which suffices where two models are compared."""
    sizes = output_size or [int(n * s) for n, s in zip(x.shape[2:], scales)]
    values = x.asnumpy()
    for dim, size in enumerate(sizes, 2):
        values = np.take(values, np.arange(size) * values.shape[dim] // size, dim)
    return _tensor(values, x)


def randn(shape, seed, offset, dtype=None, device=None):
    drawn = np.random.default_rng(0).standard_normal(shape)
    return Tensor(drawn.astype(np.float32)).astype(_dtype(dtype) or ms.float32)


def rand(shape, seed, offset, dtype=None, device=None):
    drawn = np.random.default_rng(0).random(shape)
    return Tensor(drawn.astype(np.float32)).astype(_dtype(dtype) or ms.float32)


def divide(x, other, rounding_mode=None):
    a = x.asnumpy() / (other.asnumpy() if isinstance(other, Tensor) else other)
    kinds = {"trunc": np.trunc, "floor": np.floor, 1: np.floor, 2: np.trunc}
    return _tensor(kinds.get(rounding_mode, np.asarray)(a), x)


def columns(x, kernel_size, dilation=1, padding=0, stride=1):
    """mint.nn.Unfold without padding and dilation."""
    kernel, stride = _each(kernel_size, 2), _each(stride, 2)
    windows = np.lib.stride_tricks.sliding_window_view(x.asnumpy(), kernel, (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1]]
    count = windows.shape[2] * windows.shape[3]
    return _tensor(windows.transpose(0, 1, 4, 5, 2, 3).reshape(len(windows), -1, count), x)


def transposed_convolution(x, weight, bias=None, stride=1, *given, **named):
    """Convolve two dimensions, where kernels lie side by side."""
    batch, _, height, width = x.shape
    kernel = weight.shape[2:]
    if tuple(_each(stride, 2)) != tuple(kernel):
        raise NotImplementedError("kernels that overlap")
    out = np.einsum("bihw,iokl->bohkwl", x.asnumpy(), weight.asnumpy())
    out = out.reshape(batch, -1, height * kernel[0], width * kernel[1])
    return _tensor(out if bias is None else out + bias.asnumpy().reshape(1, -1, 1, 1), x)


def log_softmax(x, dim=None, dtype=None):
    a = x.asnumpy().astype(np.float64)
    a = a - a.max(dim, keepdims=True)
    return _tensor(a - np.log(np.exp(a).sum(dim, keepdims=True)), x)


def histogram(x, bins=100, min=0, max=0):  # noqa: A002
    return _tensor(np.histogram(x.asnumpy(), int(bins), (float(min), float(max)))[0], x)


def argsort(x, dim=-1, descending=False, stable=False):
    return topk(x, x.shape[dim], dim, descending)[1]


def linspace(start, end, steps, dtype=None):
    return Tensor(np.linspace(float(start), float(end), int(steps)).astype(np.float32))


def arange(start, end=None, step=1, *, dtype=None):
    if end is None:
        start, end = 0, start
    limits = [x.item() if isinstance(x, Tensor) else x for x in (start, end, step)]
    values = np.arange(*limits)
    kind = ms.float32 if values.dtype == np.float64 else ms.int64
    return Tensor(values).astype(dtype or kind)


def pad(x, pad, mode="constant", value=0.0):
    return constant_pad(x, pad, value or 0.0)


def einsum(equation, *operands):
    return _tensor(np.einsum(equation, *(x.asnumpy() for x in operands)), operands[0])


def combined(function):
    return lambda x, other: _tensor(function(x.asnumpy(), other.asnumpy()), x)


PRIMITIVES = {
    "GeluExt": gelu,
    "TopkExt": topk,
    "SortExt": sort,
    "LayerNormExt": layer_norm,
    "GroupNorm": group_norm,
    "BatchNormExt": batch_norm,
    **dict.fromkeys(
        ("Conv1DExt", "Conv2DExt", "Conv3DExt", "Conv1DPadding", "Conv2DPadding", "Conv3DPadding"),
        convolution,
    ),
    "RepeatInterleaveInt": repeat_interleave,
    "RepeatInterleaveTensor": repeat_interleave,
    "OnesLikeExt": lambda x, dtype=None: filled(x.shape, 1, dtype, x),
    "ZerosLikeExt": lambda x, dtype=None: filled(x.shape, 0, dtype, x),
    "FillScalar": lambda shape, value, dtype=None: filled(shape, value, dtype),
    "FullLike": lambda x, value, dtype=None: filled(x.shape, value, dtype, x),
    "InplaceZero": lambda x: set_value(x, 0),
    "InplaceFillScalar": set_value,
    "InplaceFillTensor": lambda x, value: set_value(x, value.asnumpy()),
    "InplaceCopy": lambda x, src, blocking=False: set_value(x, src.asnumpy()),
    "InplaceMaskedFillScalar": masked_fill_,
    "InplaceMaskedFillTensor": masked_fill_,
    "InplaceNormal": normal_,
    "InplaceUniform": uniform_,
    "StackExt": lambda tensors, dim=0: ops.stack(tuple(tensors), dim),
    "TrilExt": lambda x, diagonal=0: _tensor(np.tril(x.asnumpy(), diagonal), x),
    "Triu": lambda x, diagonal=0: _tensor(np.triu(x.asnumpy(), diagonal), x),
    "SoftplusExt": softplus,
    "CumsumExt": cumsum,
    "ScatterAddExt": scatter_add,
    "InplaceScatterAdd": lambda x, *given: set_value(x, scatter_add(x, *given).asnumpy()),
    "InplaceIndexAddExt": index_add_,
    "OneHotExt": one_hot,
    "SumExt": reduced(np.sum),
    "MeanExt": reduced(np.mean),
    "ConvTranspose2D": transposed_convolution,
    "LogSoftmaxExt": log_softmax,
    "HistcExt": histogram,
    "ArgSort": argsort,
    "LinSpaceExt": linspace,
    "Randn": randn,
    "RandExt": rand,
    "DivMod": divide,
    "Im2ColExt": columns,
    "Outer": combined(np.outer),
    "BitwiseOrTensor": combined(np.bitwise_or),
    "BitwiseAndTensor": combined(np.bitwise_and),
    "NonZeroExt": lambda x: nonzero(x),
    "Clone": lambda x: x.copy(),
    "Norm": norm,
    "LinalgVectorNorm": norm,
    "ConstantPadND": constant_pad,
    "SplitTensor": split,
    "SplitWithSize": split,
    "IndexSelect": lambda x, dim, index: ops.gather(x, index, dim),
    "ArgMaxExt": lambda x, dim=None, keepdim=False: ops.argmax(x, dim, keepdim),
    "UpsampleBilinear2D": interpolation,
    "UpsampleBicubic2D": interpolation,
    "UpsampleNearest2D": interpolation,
}


# Methods and functions that do not come by the primitives' calls.
METHODS = {
    "fill_": set_value,
    "zero_": lambda x: set_value(x, 0),
    "masked_fill_": masked_fill_,
    "scatter_": lambda x, dim, index, src: set_value(x, scatter(x, dim, index, src)),
    "scatter": lambda x, dim, index, src: _tensor(scatter(x, dim, index, src), x),
    "repeat_interleave": repeat_interleave,
    "repeat": repeat,
    "div": divide,
    "bitwise_or_": lambda x, other: set_value(x, x.asnumpy() | other.asnumpy()),
    "index_add_": index_add_,
    "index_add": index_add,
}


def install():
    """Replace them in this process."""
    for name, function in PRIMITIVES.items():
        places = (gen_ops_prim, name), (pyboost_inner_prim, f"_Pyboost{name}Prim")
        for kind in (getattr(*place, None) for place in places):
            if kind is not None:
                kind.__call__ = lambda self, *given, _f=function, **named: _f(*given, **named)
    for name, function in METHODS.items():
        setattr(Tensor, name, function)
    mint.nn.functional.gelu = gelu
    mint.nn.functional.pad, mint.arange, mint.einsum = pad, arange, einsum
    mint.nonzero = nonzero
    ops.index_add = lambda x, indices, y, axis: index_add(x, axis, indices, y)
    mint.where = where
    for name in ("Expm1", "Log", "Exp", "Sqrt", "Rsqrt", "Sin", "Cos"):
        as_float(name)
