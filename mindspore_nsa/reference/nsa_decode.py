"""NsaDecode: the gated sum of the three branches of the newest tokens, from their caches."""

import numpy as np

from . import attention, rows
from .nsa_compress_attention_infer import nsa_compress_attention_infer
from .nsa_selected_attention_infer import nsa_selected_attention_infer
from .precision import FLOAT64


def _window(query, key, value, positions, window_size, scale_value, precision):
    """Attention [S, N1, Dv] over the last tokens of rings [R, N2, D], token t at t % R."""
    size = len(key)
    group = query.shape[1] // key.shape[1]
    t = np.arange(max(0, positions[0] + 1 - window_size), positions[-1] + 1)
    q, k, v = (
        precision.array(x).transpose(1, 0, 2) for x in (query, key[t % size], value[t % size])
    )
    k, v = (attention.repeat_heads(x, group) for x in (k, v))
    back = positions[:, None] - t[None, :]
    visible = ((back >= 0) & (back < window_size))[None].astype(int)
    scores = precision.matmul(q, k.swapaxes(1, 2)) * float(scale_value)
    return attention.forward(scores, v, visible, precision=precision)[0].transpose(1, 0, 2)


def nsa_decode(
    query,
    gates,
    key_cmp,
    value_cmp,
    key_slc,
    value_slc,
    key_win,
    value_win,
    scale_value,
    head_num,
    compress_block_size,
    compress_stride,
    select_block_size,
    select_block_count,
    window_size,
    *,
    layout="TND",
    cache_layout="BSND",
    block_table=None,
    cmp_block_table=None,
    actual_seq_qlen=None,
    actual_seq_kvlen,
    init_blocks=0,
    local_blocks=0,
    importance="cann",
    precision=FLOAT64,
):
    """attention_out with the shape of query and the head size of the values

    out = g_cmp * compressed + g_slc * selected + g_win * window, with gates [T, 3, N1] in that
    order (BSND: [B, S, 3, N1]). Row b has n = actual_seq_kvlen[b] tokens, the last of them being
    its queries: the selection's caches ([pages, page, N2, D]) hold n, the compressed ones the
    windows that are complete in n, and the rings [B, R, N2, D] at least those that the windows of
    the queries reach back to, token t in place t % R. The selected blocks are those that
    nsa_compress_attention_infer chooses. cache_layout "BNSD": caches are [pages, N2, page, D].
    Paper eq. (5).
    """
    caches = [np.asarray(x) for x in (key_cmp, value_cmp, key_slc, value_slc, key_win, value_win)]
    if cache_layout == "BNSD":
        caches = [x.swapaxes(1, 2) for x in caches]
    key_cmp, value_cmp, key_slc, value_slc, key_win, value_win = caches
    kv_heads = key_slc.shape[2]
    lengths = [int(n) for n in actual_seq_kvlen]
    packed, counts = rows.query_rows(query, actual_seq_qlen, len(lengths), layout)
    shared = {"layout": "TND", "actual_seq_qlen": counts, "precision": precision}
    compressed, chosen = nsa_compress_attention_infer(
        packed,
        key_cmp,
        value_cmp,
        scale_value,
        head_num,
        kv_heads,
        select_block_size,
        select_block_count,
        key_cmp.shape[1],
        compress_block_size,
        compress_stride,
        block_table=cmp_block_table,
        actual_cmp_seq_kvlen=[
            rows.windows(n, compress_block_size, compress_stride) for n in lengths
        ],
        actual_sel_seq_kvlen=lengths,
        init_blocks=init_blocks,
        local_blocks=local_blocks,
        importance=importance,
        **shared,
    )
    selected = nsa_selected_attention_infer(
        packed,
        key_slc,
        value_slc,
        chosen,
        scale_value,
        head_num,
        kv_heads,
        select_block_size,
        select_block_count,
        key_slc.shape[1],
        block_table=block_table,
        actual_seq_kvlen=lengths,
        **shared,
    )
    window, first = np.zeros_like(selected), 0
    for b, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        if count:
            window[first : first + count] = _window(
                packed[first : first + count],
                key_win[b],
                value_win[b],
                length - count + np.arange(count),
                window_size,
                scale_value,
                precision,
            )
        first += count
    gates = precision.array(gates).reshape(len(packed), 3, head_num, 1)
    branches = np.stack((compressed, selected, window), 1)
    out = precision.output(precision.sum(gates * branches, axis=1))
    return out.reshape(*np.shape(query)[:-1], -1)
