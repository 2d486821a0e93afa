"""NsaCompressAttentionInfer: the newest tokens over compressed ones, and their choice of blocks."""

import numpy as np

from . import rows
from .nsa_compress_attention import nsa_compress_attention
from .precision import FLOAT64


def nsa_compress_attention_infer(
    query,
    key,
    value,
    scale_value,
    head_num,
    key_value_head_num,
    select_block_size,
    select_block_count,
    page_block_size,
    compress_block_size,
    compress_stride,
    *,
    layout="TND",
    atten_mask=None,
    block_table=None,
    topk_mask=None,
    actual_seq_qlen=None,
    actual_cmp_seq_kvlen,
    actual_sel_seq_kvlen=None,
    init_blocks=0,
    local_blocks=0,
    importance="cann",
    return_scores=False,
    precision=FLOAT64,
):
    """(attention_out with the shape of query and the head size of value, topk_indices)

    Row b has actual_cmp_seq_kvlen[b] compressed tokens in the cache key, value ([pages, page, N2,
    D]). With actual_sel_seq_kvlen its S queries are the last of that many tokens, and query i sees
    what nsa_compress_attention with causal=True shows it at its position; without, a query sees
    all compressed tokens, as with causal=False. `return_scores` appends the list of BlockScores,
    whose rows are those of the packed queries. CANN aclnnNsaCompressAttentionInfer.
    """
    key, value = (rows.heads_of(x, key_value_head_num) for x in (key, value))
    batch = len(actual_cmp_seq_kvlen)
    packed, counts = rows.query_rows(query, actual_seq_qlen, batch, layout)
    out = np.zeros((*packed.shape[:2], value.shape[-1]), precision.real)
    chosen = np.full((len(packed), key_value_head_num, select_block_count), -1, np.int32)
    causal, ranked, first = actual_sel_seq_kvlen is not None, [], 0
    for b, count in enumerate(counts):
        part = slice(first, first + count)
        first += count
        if count == 0:
            continue
        length = int(actual_cmp_seq_kvlen[b])
        k, v = (rows.tokens(x, block_table, b, length) for x in (key, value))
        position = {"q_offset": (int(actual_sel_seq_kvlen[b]) - count,)} if causal else {}
        out[part], chosen[part], _, _, scores = nsa_compress_attention(
            packed[part],
            k,
            v,
            scale_value,
            head_num,
            compress_block_size,
            compress_stride,
            select_block_size,
            select_block_count,
            actual_seq_qlen=(count,),
            actual_cmp_seq_kvlen=(length,),
            causal=causal,
            init_blocks=init_blocks,
            local_blocks=local_blocks,
            importance=importance,
            return_scores=True,
            precision=precision,
            **position,
        )
        ranked += [s._replace(rows=part) for s in scores]
    shape = np.shape(query)[:-2]
    out = out.reshape(*shape, head_num, -1)
    chosen = chosen.reshape(*shape, key_value_head_num, -1)
    return (out, chosen, ranked) if return_scores else (out, chosen)
