"""The attention of DeepSeek V4: a window, compressed entries, and a sink in one softmax."""

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, ops

from .. import ops as nsa
from ..nn.precision import rounded
from ._base import STAGES, ModelAttention
from ._cache import BATCH, WINDOW, kept, places_in
from ._compressor import CsaCompressor, HcaCompressor, all_ended
from ._config import Fields
from ._parts import Angles, Linear, RMSNorm, by_head, turned_in_place, unit_rms
from ._pooling import keep_last
from ._text import longest_document, places_of, starts_of, text_ends, text_positions, text_rows

SLIDING, CSA, HCA = (
    "sliding_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
_OF_RATIO = {0: SLIDING, 4: CSA, 128: HCA}
_DEFAULTS = {
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "sliding_window": 128,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
}
# The teacher of the indexer is a softmax over the picked entries alone.
PICKS_STAGE = "sparse_picks"


def _layer_type(f):
    """Which attention the layer has, in the configuration's words."""
    default = [HCA, HCA] + [CSA if i % 2 else HCA for i in range(max(f.layers - 2, 0))]
    ratios = f.given.get("compress_ratios")
    if ratios is not None:
        default = [_OF_RATIO.get(ratio, ratio) for ratio in ratios]
    kind = f.of_layer("layer_types", default)
    if kind not in _OF_RATIO.values():
        expected = f"one of {', '.join(_OF_RATIO.values())}"
        raise ValueError(f"{f.name}: layer_types must be {expected}, got {kind!r}")
    return kind


def _ropes(f):
    """The rotary embeddings of sliding layers, and of those with compressors."""
    known = f.rope_parameters()
    if isinstance(known.get("main"), dict) and isinstance(known.get("compress"), dict):
        return f.rope(f.head_dim, parameters=known["main"]), f.rope(
            f.head_dim, parameters=known["compress"]
        )
    part = f.given.get("partial_rotary_factor")
    if part is None:
        part = f.given.get("qk_rope_head_dim", f.head_dim * 64 / 512) / f.head_dim
    own = {"rope_theta": f.rope_theta, "partial_rotary_factor": part}
    scaled = {key: value for key, value in known.items() if key not in ("main", "compress")}
    # YaRN changes the angles only: the model multiplies neither cosines nor scores.
    compress = {"attention_factor": 1.0, **scaled, **own, "rope_theta": f.compress_rope_theta}
    return f.rope(f.head_dim, parameters=own), f.rope(f.head_dim, parameters=compress)


def _ratios(f):
    rates = {CSA: 4, HCA: 128, **f.given.get("compress_rates", {})}
    rates[CSA] = f.given.get("compress_rate_csa", rates[CSA])
    rates[HCA] = f.given.get("compress_rate_hca", rates[HCA])
    return rates


class DeepseekV4Attention(ModelAttention):
    r"""Attention to a window and to compressed entries of the text before, with a sink.

    Every head of query `i` has one softmax over the keys of the last `sliding_window` tokens, `i`
    included, over entries, each of which stands for r tokens that have ended at `i`, and over a
    learned logit without value. A key is the value, too; both are turned by the angles of their
    position, and the output is turned back by those of the query. `layer_types` says of a layer
    which entries these are: "sliding_attention" none; "compressed_sparse_attention" (CSA) the
    `index_topk` ones that an indexer picks, r = 4; "heavily_compressed_attention" (HCA) all,
    r = 128. The model's loss has no gradient for the indexer.

    Args:
        config (Union[dict, object]): The dict of a config.json, or an object with `to_dict()`.
        layer_idx (int): Number of the layer.

    Inputs:
        - **x**, **actual_seq_len**, **cache**, **key_padding_mask** - As those of
          `DeepseekV32Attention`. Windows of r tokens count from the first token of a document that
          is no padding.
        - **topk_indices** (Tensor, optional) - Numbers of entries, int32, shape :math:`(B, S, k)`
          or :math:`(T, k)`, for CSA. Default: ``None``.
        - **return_indices** (bool, optional) - Whether the picks are asked for, for CSA.
          Default: ``False``.
        - **stage** (str, optional) - For CSA: ``"dense"``: attention to all entries, and the KL
          loss of the indexer over them; ``"sparse"``: the loss over its picks, with the attention's
          probabilities of the whole softmax; ``"sparse_picks"``: with those of a softmax over the
          picks alone. Default: ``None``, no loss.

    Outputs:
        As those of `DeepseekV32Attention`.

    Raises:
        TypeError: If an argument or a field of the configuration has the wrong type.
        ValueError: If a shape or value is wrong, or a field has a value that is not served.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.models import DeepseekV4Attention
        >>> config = dict(hidden_size=64, num_attention_heads=4, head_dim=32, q_lora_rank=32,
        ...     sliding_window=8, o_groups=2, o_lora_rank=16, index_n_heads=4, index_head_dim=16,
        ...     index_topk=2, qk_rope_head_dim=8, layer_types=["compressed_sparse_attention"])
        >>> layer = DeepseekV4Attention(config, 0)
        >>> x = Tensor(np.random.randn(2, 20, 64).astype(np.float32))
        >>> y, entries = layer(x, return_indices=True)
        >>> print(y.shape, entries.shape)
        (2, 20, 64) (2, 20, 2)
    """

    absorbed = ("o_a_proj",)

    def __init__(self, config, layer_idx):
        f = Fields(type(self).__name__, config, _DEFAULTS, ("deepseek_v4",), layer_idx)
        super().__init__(f)
        f.require("num_key_value_heads", f.num_key_value_heads == 1, "1")
        grouped = f.num_attention_heads % f.o_groups == 0
        f.require("o_groups", grouped, "a divisor of num_attention_heads")
        self.heads, self.dim, self.window = f.num_attention_heads, f.head_dim, f.sliding_window
        self.groups, self.eps, self.scale = f.o_groups, f.rms_norm_eps, f.head_dim**-0.5
        width = self.heads * self.dim
        self.q_a_proj = Linear(f.hidden_size, f.q_lora_rank)
        self.q_a_norm = RMSNorm(f.q_lora_rank, self.eps)
        self.q_b_proj = Linear(f.q_lora_rank, width)
        self.kv_proj = Linear(f.hidden_size, self.dim)
        self.kv_norm = RMSNorm(self.dim, self.eps)
        self.o_a_proj = Linear(width // self.groups, self.groups * f.o_lora_rank)
        self.o_b_proj = Linear(self.groups * f.o_lora_rank, f.hidden_size)
        self.sinks = Parameter(Tensor(np.zeros(self.heads, np.float32)), name="sinks")
        kind, (main, compress) = _layer_type(f), _ropes(f)
        self.angles = Angles(main if kind == SLIDING else compress)
        self.compressor, self.indexed, self.pick_heads = None, kind == CSA, None
        if kind == CSA:
            f.require("index_head_dim", f.index_head_dim >= compress.dim, f"at least the "
                      f"{compress.dim} dimensions that turn")  # fmt: skip
            self.compressor, self.pick_heads = CsaCompressor(f, _ratios(f)[CSA], self.angles), 0
            self.stages = (*STAGES, PICKS_STAGE)
        elif kind == HCA:
            self.compressor = HcaCompressor(f, _ratios(f)[HCA], self.angles)

    def kept(self):
        """The keys of the window but its last one, and what the compressor keeps."""
        held = (("window", WINDOW, self.window, self.dim),)
        return held if self.compressor is None else held + self.compressor.kept()

    def attend(self, x, text, cache, picks, stage, dtype):
        """See `ModelAttention`."""
        cos, sin = self.angles(text_positions(text))
        residual = self.q_a_norm(self.q_a_proj(x, dtype))
        query = ops.reshape(self.q_b_proj(residual, dtype), (-1, self.heads, self.dim))
        query = rounded(turned_in_place(unit_rms(query, self.eps), cos, sin), dtype)
        key = ops.expand_dims(self.kv_norm(self.kv_proj(x, dtype)), 1)
        key = rounded(turned_in_place(key, cos, sin), dtype)
        scores, entries, windows = None, None, None
        if self.indexed:
            detached = ops.stop_gradient(x), ops.stop_gradient(residual)
            scores, cache = self.compressor.indexer.scores(*detached, text, cache, dtype)
            if picks is None:
                picks = self.compressor.indexer.pick(scores, text, cache)
        if self.compressor is not None:
            entries, windows, cache = self.compressor.entries(x, text, cache, dtype)
            entries = rounded(entries, dtype)
        read = picks
        if self.compressor is not None and (not self.indexed or stage == "dense"):
            read = all_ended(text, self.compressor.size)
        rows, indices = self._rows(key, entries, read, windows, text, cache)
        out, top, total = self._attention(query, rows, indices, dtype, stage is not None)
        loss = None
        if stage is not None:
            loss = self._loss(query, entries, scores, read, top, total, stage, text, dtype)
        out = turned_in_place(ops.cast(out, mindspore.float32), cos, sin, -1)
        return self._output(out, dtype), picks, loss

    def _rows(self, key, entries, picks, windows, text, cache):
        """Keys and entries as rows [R, 1, D], and the rows that every query reads [T, W + k]."""
        places, rows = (0 if cache is None else places_in(cache, "window")), key
        if cache is not None:
            rows = ops.concat((ops.expand_dims(kept(cache, "window"), 1), key))
            cache = keep_last(ops.squeeze(key, 1), text, cache, "window", rows)
        positions = ops.expand_dims(text_positions(text), 1) - ops.arange(
            min(self.window, longest_document(text))
        )
        indices = places_of(text, text_rows(text), positions, places)
        indices = ops.where(positions >= 0, indices, ops.full_like(indices, -1))
        if picks is None:
            return rows, ops.cast(indices, mindspore.int32)
        first = starts_of(windows[0])
        if cache is not None:
            entries = ops.expand_dims(kept(cache, "entries"), 1)
            first = ops.arange(cache[BATCH]) * places_in(cache, "entries")
        first = ops.expand_dims(ops.gather(first, text_rows(text), 0) + rows.shape[0], 1)
        places = ops.where(picks >= 0, picks + first, ops.full_like(first, -1))
        rows = ops.concat((rows, entries))
        return rows, ops.cast(ops.concat((indices, places), 1), mindspore.int32)

    def _attention(self, query, rows, indices, dtype, statistics):
        """Attention [T, heads, D] over rows by their numbers, and its statistics."""
        # A cast for each use: on a CPU graphs cannot add gradients of bfloat16.
        query, key, value = ops.cast(query, dtype), ops.cast(rows, dtype), ops.cast(rows, dtype)
        return nsa.sparse_flash_attention(
            query, key, value, ops.expand_dims(indices, 1), self.scale,
            actual_seq_lengths_query=(query.shape[0],), actual_seq_lengths_kv=(rows.shape[0],),
            layout_query="TND", layout_kv="TND", sparse_mode=0, sinks=self.sinks,
            return_softmax_lse=statistics,
        )  # fmt: skip

    def _loss(self, query, entries, scores, picks, top, total, stage, text, dtype):
        """How far the indexer's probabilities of entries are from the mean of the heads."""
        query, entries, picks = ops.cast(query, dtype), ops.cast(entries, dtype), picks
        query, entries = ops.stop_gradient(query), ops.stop_gradient(entries)
        picks, ends, sums = ops.expand_dims(picks, 1), text_ends(text), scores[3][0]
        if stage == PICKS_STAGE:
            _, top, total = nsa.sparse_flash_attention(
                query, entries, entries, picks, self.scale, actual_seq_lengths_query=ends,
                actual_seq_lengths_kv=sums, layout_query="TND", layout_kv="TND", sparse_mode=0,
                return_softmax_lse=True,
            )  # fmt: skip
        return nsa.lightning_indexer_kl_loss(
            query, entries, *scores[:3], picks, ops.stop_gradient(top), ops.stop_gradient(total),
            self.scale, actual_seq_qlen=ends, actual_seq_klen=sums, layout="TND", sparse_mode=0,
        )  # fmt: skip

    def _output(self, out, dtype):
        """[T, heads, D] to [T, hidden]: groups of heads on their own, then mixed."""
        out = ops.reshape(
            ops.cast(out, mindspore.float32), (-1, self.groups, self.o_a_proj.in_channels)
        )
        out = rounded(out, dtype)
        weight = rounded(self.o_a_proj.weight, dtype)
        weight = ops.reshape(weight, (self.groups, -1, self.o_a_proj.in_channels))
        out = by_head(out, ops.transpose(weight, (0, 2, 1)))
        return self.o_b_proj(ops.reshape(out, (-1, self.o_b_proj.in_channels)), dtype)
