"""NsaCompressWithCache: the window that a row's last token fills becomes a row of the cache."""

import numpy as np

from . import rows
from .precision import FLOAT64


def nsa_compress_with_cache(
    input,
    weight,
    slot_mapping,
    compress_block_size,
    compress_stride,
    page_block_size,
    *,
    block_table=None,
    actual_seq_len,
    cache,
    return_rows=False,
    precision=FLOAT64,
):
    """A copy of cache [slots, N, D] with, for every row b whose length n fills a window,

    cache[slot_mapping[b], h] = sum_{j<l} weight[j, h] * token_b[n - l + j, h]

    A row of n tokens fills one if n >= l and (n - l) % s == 0. The tokens are those of the pages
    input [pages, page, N, D] that block_table names, or without it the rows of input [T, N, D], one
    after another. `return_rows` gives what was written, [B, N, D], zeros where nothing was.
    Paper eq. (7); CANN aclnnNsaCompressWithCache.
    """
    weight, result = precision.array(weight), precision.array(cache).copy()
    written = np.zeros((len(actual_seq_len), *result.shape[1:]), precision.real)
    before = 0
    for b, length in enumerate(int(n) for n in actual_seq_len):
        if block_table is None:
            tokens = np.asarray(input)[before : before + length]
            before += length
        else:
            tokens = rows.tokens(np.asarray(input), block_table, b, length)
        if length < compress_block_size or (length - compress_block_size) % compress_stride:
            continue
        window = precision.array(tokens[length - compress_block_size :])
        for j in range(compress_block_size):
            written[b] += weight[j, :, None] * window[j]
        result[int(slot_mapping[b])] = written[b]
    return precision.output(written if return_rows else result)
