"""NsaCompress and its gradient: a learned weighted sum of sliding windows of tokens."""

import numpy as np

from .precision import FLOAT64
from .segments import bounds, num_windows


def _windows(actual_seq_len, block_size, stride):
    """(first output row, [W_b, l] token indices) of every segment that has a window."""
    row = 0
    for start, end in bounds(actual_seq_len):
        count = num_windows(end - start, block_size, stride)
        if count:
            yield row, start + np.arange(count)[:, None] * stride + np.arange(block_size)
        row += count


def nsa_compress(
    input,
    weight,
    compress_block_size,
    compress_stride,
    *,
    actual_seq_len,
    num_windows=None,
    precision=FLOAT64,
):
    """output[row(b, i), h, d] = sum_{j<l} weight[j, h] * input[c_b + i*s + j, h, d]

    input [T, N, D], weight [l, N]; windows never cross a segment, whose tail that fills no window
    is dropped. `num_windows`: rows of the output, those past the real windows 0 (default: exact).
    Paper eq. (7) with a linear map; CANN aclnnNsaCompress.
    """
    x, w = precision.array(input), precision.array(weight)
    windows = list(_windows(actual_seq_len, compress_block_size, compress_stride))
    used = sum(len(tokens) for _, tokens in windows)
    rows = used if num_windows is None else num_windows
    if rows < used:
        raise ValueError(f"nsa_compress: num_windows must be at least {used}, got {rows}")
    out = np.zeros((rows, *x.shape[1:]), precision.real)
    for row, tokens in windows:
        rows = out[row : row + len(tokens)]
        for j in range(compress_block_size):
            rows += w[j, :, None] * x[tokens[:, j]]
    return precision.output(out)


def nsa_compress_grad(
    output_grad,
    input,
    weight,
    compress_block_size,
    compress_stride,
    *,
    actual_seq_len,
    precision=FLOAT64,
):
    """(input_grad, weight_grad)::

        input_grad[t, h, d] = sum over (b, i, j) with c_b + i*s + j = t of
                              weight[j, h] * output_grad[row(b, i), h, d]
        weight_grad[j, h] = sum_{b, i, d} input[c_b + i*s + j, h, d] * output_grad[row(b, i), h, d]

    Rows of output_grad past the real windows are not read. CANN aclnnNsaCompressGrad.
    """
    dy, x, w = (precision.array(a) for a in (output_grad, input, weight))
    input_grad, weight_grad = np.zeros_like(x), np.zeros_like(w)
    heads = x.shape[1]
    for row, tokens in _windows(actual_seq_len, compress_block_size, compress_stride):
        rows = dy[row : row + len(tokens)]
        for j in range(compress_block_size):
            # The windows' j-th tokens are distinct, so += adds each once.
            input_grad[tokens[:, j]] += w[j, :, None] * rows
        by_head = rows.transpose(1, 0, 2).reshape(heads, -1, 1)  # [N, W*D, 1]
        x_by_head = x[tokens].transpose(2, 1, 0, 3).reshape(heads, compress_block_size, -1)
        weight_grad += precision.matmul(x_by_head, by_head)[..., 0].T
    return precision.output(input_grad), precision.output(weight_grad)
