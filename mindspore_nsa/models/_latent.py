"""Multi-head latent attention over the tokens that an indexer picked: V3.2, GLM-5 and GLM-5.3."""

import mindspore
from mindspore import ops

from .. import ops as nsa
from ..nn.parallel.context import ContextKeys
from ..nn.parallel.shard_lists import dense_pass_lists, row_positions
from ..nn.precision import rounded
from ..ops._by_device import split
from ._base import RECALL, STAGES, ModelAttention
from ._cache import WHOLE_BLOCKS, pages, with_tokens
from ._parallel import own_heads, share_heads, side_by_side, text_of_all
from ._parts import Angles, Linear, RMSNorm, by_head, turned
from ._text import lengths_of, shard_text, text_ends, text_positions

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
        context (ContextShards, optional): The workers that share the text. Queries stay, latents
            and index keys go to all.
        tensor_group (WorkerGroup, optional): The workers that share the heads; each has the whole
            indexer, which picks the same on all.
    """

    stages, absorbed = (*STAGES, RECALL), ("kv_b_proj",)

    def __init__(self, fields, rope, scale, norm_eps, indexer, context=None, tensor_group=None):
        super().__init__(fields)
        f, bias = fields, bool(fields.attention_bias)
        heads = f.given.get("num_key_value_heads", f.num_attention_heads)
        f.require("num_key_value_heads", heads == f.num_attention_heads, "num_attention_heads")
        if indexer is not None:
            f.require("index_head_dim", f.index_head_dim >= rope.dim, f"at least the {rope.dim} "
                      "dimensions that turn")  # fmt: skip
        self.heads, self.latent = own_heads(f, context, tensor_group), f.kv_lora_rank
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
        self.enter = share_heads(self, tensor_group)
        if context is not None:
            self.shared_text, self.tokens = text_of_all(f), context.tokens
            self.context = ContextKeys(self.name, context, self.shared_text)

    def kept(self):
        """Latents, the key's rotated part, and what the indexer keeps."""
        held = (("latent", WHOLE_BLOCKS, self.block_size, self.latent),)
        if self.rope:
            held += (("rope", WHOLE_BLOCKS, 1, self.rope),)
        return held if self.indexer is None else held + self.indexer.kept()

    def attend(self, x, text, cache, picks, stage, dtype):
        """See `ModelAttention`."""
        operands, scores, cache = self._operands(x, text, cache, dtype)
        if cache is not None:
            cache = with_tokens(cache, "latent", text, operands[2])
            if self.rope:
                cache = with_tokens(cache, "rope", text, operands[3])
        found = self._over_keys(operands, scores, picks, stage, text, text_ends(text), cache, dtype)
        out, picks, loss = found
        return self._output(out, dtype), picks, loss

    def attend_shard(self, x, layout, tables, lists, picks, stage, dtype):
        """See `ModelAttention`."""
        keys, own = self.context, ops.cast(row_positions(lists), mindspore.int64)
        operands, scores, _ = self._operands(x, shard_text(own, own, self.tokens), None, dtype)
        query, query_rope, latent, key_rope = operands
        index = None if scores is None else scores[1]
        rows, widths = side_by_side((latent, key_rope, index))
        rows = ops.cast(keys.all_gather(rows, tables), mindspore.float32)
        rows = split(ops.expand_dims(rows, 1), widths, -1) if len(widths) > 1 else (rows,)
        latent, key_rope = rows[0], rows[1] if self.rope else None
        outs, chosen, losses = (), (), ()
        for i in range(layout.passes):
            ends, key_ends = dense_pass_lists(lists, i)
            part = keys.split_passes(query, layout)[i], None, latent, key_rope
            if self.rope:
                part = part[0], keys.split_passes(query_rope, layout)[i], latent, key_rope
            scored = None
            if scores is not None:
                index_query = keys.split_passes(scores[0], layout)[i]
                weights = keys.split_passes(scores[2], layout)[i]
                scored = index_query, rows[len(widths) - 1], weights
            given = picks
            if picks is not None and layout.passes > 1:
                given = split(picks, picks.shape[0] // 2, 0)[i]
            text = shard_text(ends, own, self.tokens)
            out, found, loss = self._over_keys(
                part, scored, given, stage, text, key_ends, None, dtype
            )
            outs, chosen = outs + (ops.cast(out, mindspore.float32),), chosen + (found,)
            losses = losses + (loss,)
        out, picks, loss = outs[0], chosen[0], losses[0]
        if len(outs) > 1:
            out, picks = ops.concat(outs), ops.concat(chosen)
            if stage == RECALL:
                loss = ops.concat(losses)
            elif stage is not None:
                loss = (losses[0] + losses[1]) / 2
        return self._output(out, dtype), picks, loss

    def _operands(self, x, text, cache, dtype):
        """Queries, latents and rotated parts of tokens, what the indexer gives, and the cache."""
        residual = self.q_a_layernorm(self.q_a_proj(x, dtype))
        latent, key_rope = self.kv_a_proj_with_mqa(x, dtype), None
        query_rope, cos, sin = None, None, None
        if self.rope:
            cos, sin = self.angles(text_positions(text))
            latent, key_rope = split(latent, (self.latent, self.rope), -1)
            key_rope = turned(ops.expand_dims(key_rope, 1), cos, sin, pairs=True)
        latent = ops.expand_dims(self.kv_a_layernorm(latent), 1)
        scores = None
        if self.indexer is not None:
            detached = ops.stop_gradient(x), ops.stop_gradient(residual)
            scores, cache = self.indexer(*detached, text, cos, sin, cache, dtype)
        if self.enter is not None:
            # Gradients of what all heads read are sums over the workers that have the heads.
            residual = self.enter(residual)
            both, widths = side_by_side((latent, key_rope))
            both = ops.expand_dims(self.enter(both), 1)
            if self.rope:
                latent, key_rope = split(both, widths, -1)
            else:
                latent = both
        query = ops.reshape(self.q_b_proj(residual, dtype), (-1, self.heads, self.nope + self.rope))
        if self.rope:
            query, query_rope = split(query, (self.nope, self.rope), -1)
            query_rope = rounded(turned(query_rope, cos, sin, pairs=True), dtype)
            key_rope = rounded(key_rope, dtype)
        query = rounded(by_head(rounded(query, dtype), self._up(dtype)[0]), dtype)
        return (query, query_rope, rounded(latent, dtype), key_rope), scores, cache

    def _over_keys(self, operands, scores, picks, stage, text, key_ends, cache, dtype):
        """Attention [T, heads, latent], picks and the loss; keys' segments end at `key_ends`."""
        if picks is None or stage == "dense":
            picks = self.indexer.pick(scores, text, cache, key_ends)
        asked, loss = stage is not None, None
        if stage in ("dense", RECALL):
            out, top, total = self._dense(operands, text, key_ends, dtype)
        else:
            out, top, total = self._sparse(operands, picks, text, key_ends, cache, dtype, asked)
        if stage == RECALL:
            loss = self._recall(operands, picks, top, total, text, key_ends, dtype)
        elif asked:
            read = None if stage == "dense" else picks
            loss = self._loss(operands, scores, read, top, total, text, key_ends, dtype)
        return out, picks, loss

    def _output(self, out, dtype):
        """Attention [T, heads, latent] to [T, hidden]."""
        out = by_head(ops.cast(out, mindspore.float32), self._up(dtype)[1])
        return self.o_proj(ops.reshape(out, (-1, self.heads * self.value)), dtype)

    def _up(self, dtype):
        """W_uk [heads, nope, latent] and W_uv [heads, latent, value]."""
        weight = rounded(self.kv_b_proj.weight, dtype)
        weight = ops.reshape(weight, (self.heads, self.nope + self.value, self.latent))
        up_key, up_value = split(weight, (self.nope, self.value), 1)
        return up_key, ops.transpose(up_value, (0, 2, 1))

    def _sparse(self, operands, picks, text, key_ends, cache, dtype, statistics):
        """Attention over picked tokens [T, heads, latent], and its statistics."""
        query, query_rope, latent, key_rope = operands
        mode, block = (2 if self.rope else 0), self.block_size
        picks, ends = ops.expand_dims(picks, 1), text_ends(text)
        if cache is None:
            # A cast for each use: on a CPU graphs cannot add gradients of bfloat16.
            key, value = ops.cast(latent, dtype), ops.cast(latent, dtype)
            query = ops.cast(query, dtype)
            if self.rope:
                query_rope, key_rope = ops.cast(query_rope, dtype), ops.cast(key_rope, dtype)
            return nsa.sparse_flash_attention(
                query, key, value, picks, self.scale, actual_seq_lengths_query=ends,
                actual_seq_lengths_kv=key_ends, query_rope=query_rope, key_rope=key_rope,
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

    def _dense(self, operands, text, key_ends, dtype):
        """Attention over all earlier tokens, with the statistics as the KL loss takes them."""
        query, query_rope, latent, key_rope = operands
        key = latent
        if self.rope:
            query = ops.concat((query, query_rope), -1)
            key = ops.concat((latent, key_rope), -1)
        out, top, total = nsa.flash_attention_score(
            ops.cast(query, dtype), ops.cast(key, dtype), ops.cast(latent, dtype), self.heads,
            actual_seq_qlen=text_ends(text), actual_seq_kvlen=key_ends, scalar_value=self.scale,
            input_layout="TND", sparse_mode=3, return_softmax=True,
        )  # fmt: skip
        return out, ops.expand_dims(top[..., 0], 0), ops.expand_dims(total[..., 0], 0)

    def _recall(self, operands, picks, top, total, text, key_ends, dtype):
        """The softmax's mass on the picks [T], the mean over heads, of both calls' statistics."""
        _, top_read, total_read = self._sparse(operands, picks, text, key_ends, None, dtype, True)
        parts = total_read * ops.exp(top_read - top) / total
        return ops.stop_gradient(ops.reshape(ops.mean(parts, -1), (-1,)))

    def _loss(self, operands, scores, picks, top, total, text, key_ends, dtype):
        """How far the indexer's probabilities are from the mean attention of the heads."""
        query, query_rope, latent, key_rope = operands
        if self.rope:
            query_rope, key_rope = ops.cast(query_rope, dtype), ops.cast(key_rope, dtype)
        return nsa.lightning_indexer_kl_loss(
            ops.cast(query, dtype), ops.cast(latent, dtype), *scores,
            None if picks is None else ops.expand_dims(picks, 1), ops.stop_gradient(top),
            ops.stop_gradient(total), self.scale, query_rope=query_rope, key_rope=key_rope,
            actual_seq_qlen=text_ends(text), actual_seq_klen=key_ends, layout="TND",
        )  # fmt: skip
