"""NsaSelectedAttentionInfer: attention of the newest tokens over chosen blocks of a cache."""

import numpy as np

from . import rows
from .nsa_selected_attention import nsa_selected_attention
from .precision import FLOAT64


def nsa_selected_attention_infer(
    query,
    key,
    value,
    topk_indices,
    scale_value,
    head_num,
    key_value_head_num,
    select_block_size,
    select_block_count,
    page_block_size,
    *,
    layout="BSND",
    atten_mask=None,
    block_table=None,
    actual_seq_qlen=None,
    actual_seq_kvlen,
    precision=FLOAT64,
):
    """attention_out with the shape of query and the head size of value

    Row b has actual_seq_kvlen[b] tokens in the cache key, value ([pages, page, N2, D]), the last of
    them being its queries: query i of its S stands at position actual_seq_kvlen[b] - S + i, and
    sees what nsa_selected_attention with causal=True shows it there of the blocks topk_indices.
    CANN aclnnNsaSelectedAttentionInfer.
    """
    key, value = (rows.heads_of(x, key_value_head_num) for x in (key, value))
    batch = len(actual_seq_kvlen)
    packed, counts = rows.query_rows(query, actual_seq_qlen, batch, layout)
    chosen = np.asarray(topk_indices).reshape(len(packed), key_value_head_num, -1)
    out = np.zeros((*packed.shape[:2], value.shape[-1]), precision.real)
    first = 0
    for b, (count, length) in enumerate(zip(counts, map(int, actual_seq_kvlen), strict=True)):
        part = slice(first, first + count)
        first += count
        if count == 0:
            continue
        k, v = (rows.tokens(x, block_table, b, length) for x in (key, value))
        out[part] = nsa_selected_attention(
            packed[part],
            k,
            v,
            chosen[part],
            scale_value,
            head_num,
            select_block_size,
            select_block_count,
            actual_seq_qlen=(count,),
            actual_seq_kvlen=(length,),
            causal=True,
            q_offset=(length - count,),
            precision=precision,
        )[0]
    return out.reshape(*np.shape(query)[:-1], -1)
