"""Multi-head latent attention over the tokens that an indexer picked: V3.2, GLM-5 and GLM-5.3."""

import mindspore
from mindspore import ops

from .. import ops as nsa
from ..nn.precision import rounded
from ..ops._by_device import split
from ._base import RECALL, STAGES, ModelAttention
from ._cache import WHOLE_BLOCKS, pages, with_tokens
from ._parts import Angles, Linear, RMSNorm, by_head, turned
from ._text import ENDS, POSITIONS, lengths_of

LATENT_FIELDS = {
    "num_attention_heads": None,
    "q_lora_rank": None,
    "kv_lora_rank": None,
    "qk_nope_head_dim": None,
    "qk_rope_head_dim": None,
    "v_head_dim": None,
    "index_n_heads": None,
    "index_head_dim": None,
    "index_topk": None,
    "attention_bias": False,
}


class LatentAttention(ModelAttention):
    """Queries, latents and output of multi-head latent attention, with absorbed projections.

    With W_uk, W_uv the parts of `kv_b_proj` for keys and values of a head, and c the latents,
    q (W_uk c) = (q W_uk) c, so that all heads share the key c, which is the value, too.

    Args:
        fields (Fields): Those of `LATENT_FIELDS`.
        rope (Rope): The rotary embedding of `qk_rope_head_dim` dimensions.
        scale (float): Factor of the attention's scores.
        norm_eps (float): Of the norms of the latents.
        indexer (Cell, optional): Gives query, key and weights of the scores; None with the picks of
            another layer.
    """

    stages = (*STAGES, RECALL)

    def __init__(self, fields, rope, scale, norm_eps, indexer):
        super().__init__(fields)
        f, bias = fields, bool(fields.attention_bias)
        heads = f.given.get("num_key_value_heads", f.num_attention_heads)
        f.require("num_key_value_heads", heads == f.num_attention_heads, "num_attention_heads")
        if indexer is not None:
            f.require("index_head_dim", f.index_head_dim >= rope.dim, f"at least the {rope.dim} "
                      "dimensions that turn")  # fmt: skip
        self.heads, self.latent = f.num_attention_heads, f.kv_lora_rank
        self.nope, self.rope, self.value = f.qk_nope_head_dim, f.qk_rope_head_dim, f.v_head_dim
        self.scale, self.shared = scale, indexer is None
        self.q_a_proj = Linear(f.hidden_size, f.q_lora_rank, bias)
        self.q_a_layernorm = RMSNorm(f.q_lora_rank, norm_eps)
        self.q_b_proj = Linear(f.q_lora_rank, self.heads * (self.nope + self.rope))
        self.kv_a_proj_with_mqa = Linear(f.hidden_size, self.latent + self.rope, bias)
        self.kv_a_layernorm = RMSNorm(self.latent, norm_eps)
        self.kv_b_proj = Linear(self.latent, self.heads * (self.nope + self.value))
        self.o_proj = Linear(self.heads * self.value, f.hidden_size, bias)
        self.angles = Angles(rope) if self.rope else None
        self.indexer = indexer
        if self.shared:
            self.stages = ()

    def kept(self):
        """Latents, the key's rotated part, and what the indexer keeps."""
        held = (("latent", WHOLE_BLOCKS, self.block_size, self.latent),)
        if self.rope:
            held += (("rope", WHOLE_BLOCKS, 1, self.rope),)
        return held if self.indexer is None else held + self.indexer.kept()

    def attend(self, x, text, cache, picks, stage, dtype):
        """See `ModelAttention`."""
        residual = self.q_a_layernorm(self.q_a_proj(x, dtype))
        query = ops.reshape(self.q_b_proj(residual, dtype), (-1, self.heads, self.nope + self.rope))
        latent, key_rope = self.kv_a_proj_with_mqa(x, dtype), None
        query_rope, cos, sin = None, None, None
        if self.rope:
            cos, sin = self.angles(text[POSITIONS])
            query, query_rope = split(query, (self.nope, self.rope), -1)
            latent, key_rope = split(latent, (self.latent, self.rope), -1)
            query_rope = rounded(turned(query_rope, cos, sin, pairs=True), dtype)
            key_rope = turned(ops.expand_dims(key_rope, 1), cos, sin, pairs=True)
            key_rope = rounded(key_rope, dtype)
        latent = rounded(ops.expand_dims(self.kv_a_layernorm(latent), 1), dtype)
        up_key, up_value = self._up(dtype)
        query = rounded(by_head(rounded(query, dtype), up_key), dtype)
        scores = None
        if self.indexer is not None:
            x, residual = ops.stop_gradient(x), ops.stop_gradient(residual)
            scores, cache = self.indexer(x, residual, text, cos, sin, cache, dtype)
        if cache is not None:
            cache = with_tokens(cache, "latent", text, latent)
            if self.rope:
                cache = with_tokens(cache, "rope", text, key_rope)
        if picks is None or stage == "dense":
            picks = self.indexer.pick(scores, text, cache)
        operands = query, query_rope, latent, key_rope
        if stage in ("dense", RECALL):
            out, top, total = self._dense(operands, text, dtype)
        else:
            out, top, total = self._sparse(operands, picks, text, cache, dtype, stage is not None)
        loss = None
        if stage == RECALL:
            loss = self._recall(operands, picks, top, total, text, dtype)
        elif stage is not None:
            read = None if stage == "dense" else picks
            loss = self._loss(operands, scores, read, top, total, text, dtype)
        out = by_head(ops.cast(out, mindspore.float32), up_value)
        return self.o_proj(ops.reshape(out, (-1, self.heads * self.value)), dtype), picks, loss

    def _up(self, dtype):
        """W_uk [heads, nope, latent] and W_uv [heads, latent, value]."""
        weight = rounded(self.kv_b_proj.weight, dtype)
        weight = ops.reshape(weight, (self.heads, self.nope + self.value, self.latent))
        up_key, up_value = split(weight, (self.nope, self.value), 1)
        return up_key, ops.transpose(up_value, (0, 2, 1))

    def _sparse(self, operands, picks, text, cache, dtype, statistics):
        """Attention over picked tokens [T, heads, latent], and its statistics."""
        query, query_rope, latent, key_rope = operands
        mode, block = (2 if self.rope else 0), self.block_size
        picks, ends = ops.expand_dims(picks, 1), text[ENDS]
        if cache is None:
            query, latent = ops.cast(query, dtype), ops.cast(latent, dtype)
            if self.rope:
                query_rope, key_rope = ops.cast(query_rope, dtype), ops.cast(key_rope, dtype)
            return nsa.sparse_flash_attention(
                query, latent, latent, picks, self.scale, actual_seq_lengths_query=ends,
                actual_seq_lengths_kv=ends, query_rope=query_rope, key_rope=key_rope,
                sparse_block_size=block, layout_query="TND", layout_kv="TND", attention_mode=mode,
                return_softmax_lse=statistics,
            )  # fmt: skip
        latent, table = pages(cache, "latent")
        key_rope = pages(cache, "rope")[0] if self.rope else None
        return nsa.sparse_flash_attention(
            query, latent, latent, picks, self.scale, block_table=table,
            actual_seq_lengths_query=ends, actual_seq_lengths_kv=lengths_of(text),
            query_rope=query_rope, key_rope=key_rope, sparse_block_size=block, layout_query="TND",
            layout_kv="PA_BSND", attention_mode=mode,
        )  # fmt: skip

    # Tokens that a pick stands for.
    block_size = 1

    def _dense(self, operands, text, dtype):
        """Attention over all earlier tokens, with the statistics as the KL loss takes them."""
        query, query_rope, latent, key_rope = operands
        key = latent
        if self.rope:
            query = ops.concat((query, query_rope), -1)
            key = ops.concat((latent, key_rope), -1)
        out, top, total = nsa.flash_attention_score(
            ops.cast(query, dtype), ops.cast(key, dtype), ops.cast(latent, dtype), self.heads,
            actual_seq_qlen=text[ENDS], actual_seq_kvlen=text[ENDS], scalar_value=self.scale,
            input_layout="TND", sparse_mode=3, return_softmax=True,
        )  # fmt: skip
        return out, ops.expand_dims(top[..., 0], 0), ops.expand_dims(total[..., 0], 0)

    def _recall(self, operands, picks, top, total, text, dtype):
        """The softmax's mass on the picks [T], the mean over heads, of both calls' statistics."""
        _, top_read, total_read = self._sparse(operands, picks, text, None, dtype, True)
        parts = total_read * ops.exp(top_read - top) / total
        return ops.stop_gradient(ops.reshape(ops.mean(parts, -1), (-1,)))

    def _loss(self, operands, scores, picks, top, total, text, dtype):
        """How far the indexer's probabilities are from the mean attention of the heads."""
        query, query_rope, latent, key_rope = operands
        if self.rope:
            query_rope, key_rope = ops.cast(query_rope, dtype), ops.cast(key_rope, dtype)
        return nsa.lightning_indexer_kl_loss(
            ops.cast(query, dtype), ops.cast(latent, dtype), *scores,
            None if picks is None else ops.expand_dims(picks, 1), ops.stop_gradient(top),
            ops.stop_gradient(total), self.scale, query_rope=query_rope, key_rope=key_rope,
            actual_seq_qlen=text[ENDS], actual_seq_klen=text[ENDS], layout="TND",
        )  # fmt: skip
