"""The high-level APIs compute this on arrays."""

import numpy as np


def softmax(x, columns):
    """Probabilities [m, k], sums and maxima [m] of the first `columns`; the rest is padding."""
    x = x.astype(np.float64)
    largest = x[:, :columns].max(1)
    weights = np.exp(x - largest[:, None])
    total = weights[:, :columns].sum(1)
    return weights / total[:, None], total, largest


def simple_softmax(x, total, largest):
    return np.exp(x.astype(np.float64) - largest[:, None]) / total[:, None]


def flash(x, columns, before=None):
    """Weights, sums, maxima and what the earlier sums are multiplied by (with `before`)."""
    x = x.astype(np.float64)
    largest = x[:, :columns].max(1)
    own = largest
    correction = None
    if before is not None:
        total_before, largest_before = (a.astype(np.float64) for a in before)
        largest = np.maximum(largest, largest_before)
        correction = np.exp(largest_before - largest)
    weights = np.exp(x - largest[:, None])
    total = weights[:, :columns].sum(1)
    if before is not None:
        total = total + correction * total_before
    return weights, total, largest, correction, own


def grad_front(grad, x, columns):
    return (grad.astype(np.float64) * x)[:, :columns].sum(1)


def topk(x, k, largest, index=None, finished=None, n=0):
    """Values and indices [m, k]: equal values in the order of their places, a NaN before all."""
    values, indices = [], []
    for row, line in enumerate(x):
        key = np.where(np.isnan(line), np.inf, 0.0)
        number = np.where(np.isnan(line), 0.0, line.astype(np.float64))
        order = np.lexsort((-number if largest else number, -key))[:k]
        values.append(line[order])
        numbers = order if index is None else index[row][order]
        if finished is not None and finished[row]:
            numbers = np.full(k, n)
        indices.append(numbers)
    return np.array(values), np.array(indices, np.int32)


def select_bytes(x, scalar, mask, scalar_first):
    """0 takes the first operand, anything else the second."""
    mask = mask[:, : x.shape[1]]
    scalar = np.full_like(x, scalar)
    first, second = (scalar, x) if scalar_first else (x, scalar)
    return np.where(mask == 0, first, second)


def to_nz(x):
    """[m, k] as [k / 16, m, 16]."""
    return np.ascontiguousarray(x.reshape(x.shape[0], -1, 16).transpose(1, 0, 2))


def from_nz(x, shape):
    return x.reshape(shape[1] // 16, shape[0], 16).transpose(1, 0, 2).reshape(shape)
