"""A call of FlashAttentionScore or its gradient, cut into batch elements."""

from typing import NamedTuple

import numpy as np

from . import attention, masks, pse
from .dropout import keep_factors
from .layouts import heads_and_dim, per_batch
from .segments import bounds, offsets


class Element(NamedTuple):
    """One batch element, heads first."""

    q: np.ndarray  # [N1, S1, D]
    k: np.ndarray  # [N1, S2, D]
    v: np.ndarray  # [N1, S2, Dv]
    scores: np.ndarray  # [N1, S1, S2]
    count: np.ndarray  # [N1 or 1, S1, S2], 1 = visible
    keep: np.ndarray | None  # [N1, S1, S2]


class Problem:
    """The arguments that forward and gradient share, cut into batch elements."""

    def __init__(
        self,
        query,
        key,
        value,
        head_num,
        real_shift,
        drop_mask,
        attn_mask,
        prefix,
        actual_seq_qlen,
        actual_seq_kvlen,
        keep_prob,
        scalar_value,
        pre_tokens,
        next_tokens,
        input_layout,
        sparse_mode,
        pse_type,
        q_start_idx,
        kv_start_idx,
        sink,
        precision,
        q_offset=None,
        compress_block_size=0,
        compress_stride=0,
    ):
        self.layout, self.precision, self.scale = input_layout, precision, float(scalar_value)
        self.query, self.key, self.value = (precision.array(x) for x in (query, key, value))
        self.n1, dim = heads_and_dim(query.shape, input_layout, head_num)
        in_hidden = input_layout in ("BSH", "SBH")
        self.n2, _ = heads_and_dim(
            key.shape, input_layout, key.shape[2] // dim if in_hidden else None
        )
        self.dv = heads_and_dim(value.shape, input_layout, self.n2)[1]
        self.group = self.n1 // self.n2
        self.q_segments = self.kv_segments = None
        if input_layout == "TND":
            self.q_segments, self.kv_segments = bounds(actual_seq_qlen), bounds(actual_seq_kvlen)
        self.q_lengths = [x.shape[1] for x in self.split_query(self.query)]
        self.kv_lengths = [x.shape[1] for x in self.split_kv(self.key)]
        self.mode, self.pre, self.next = sparse_mode, int(pre_tokens), int(next_tokens)
        if sparse_mode == 1 and attn_mask is None:
            raise ValueError("flash_attention_score: attn_mask must be given in sparse_mode 1")
        # Modes 2 to 8 are computed from the lengths: the content of a mask is not read.
        self.attn_mask = attn_mask if sparse_mode in (0, 1) else None
        self.prefix = None if prefix is None else [int(v) for v in prefix]
        if keep_prob != 1 and drop_mask is None:
            raise ValueError("flash_attention_score: drop_mask must be given with keep_prob < 1")
        self.drop_mask, self.keep_prob = drop_mask, keep_prob
        self.pse_type = pse_type
        self.q_starts, self.kv_starts = (
            np.broadcast_to(0 if start is None else start, len(self.q_lengths))
            for start in (q_start_idx, kv_start_idx)
        )
        self.real_shift = None if real_shift is None else precision.array(real_shift)
        self.flat_bias = None
        if (
            real_shift is not None
            and pse_type in (0, 1)
            and input_layout == "TND"
            and not pse.is_alibi(self.real_shift, input_layout, None)
        ):
            self.real_shift = self.real_shift.reshape(-1)
            self.flat_bias = pse.FlatBias(
                self.real_shift.size, self.n1, self.q_lengths, self.kv_lengths
            )
        self.sink = None if sink is None else precision.array(sink)
        self.compress = (compress_block_size, compress_stride)
        self.starts = offsets(q_offset, len(self.q_lengths))

    def split_query(self, x):
        """Views [N1, S1, ...] of a tensor laid out like query."""
        return per_batch(x, self.layout, self.n1, self.q_segments)

    def split_kv(self, x):
        """Views [N2, S2, ...] of a tensor laid out like key."""
        return per_batch(x, self.layout, self.n2, self.kv_segments)

    def split_statistics(self, x):
        """Views [N1, S1, 8] of softmax_max or softmax_sum."""
        return per_batch(x, "TND" if self.layout == "TND" else "BNSD", self.n1, self.q_segments)

    def _visible(self, b):
        rows, columns = self.q_lengths[b], self.kv_lengths[b]
        banded = masks.banded_element(self.mode, self.q_lengths) == b
        visible = masks.sparse_visible(
            self.mode,
            rows,
            columns,
            pre_tokens=self.pre,
            next_tokens=self.next,
            prefix=None if self.prefix is None else self.prefix[b],
            banded=banded,
        )[None]
        if self.attn_mask is not None:
            tnd = self.layout == "TND"
            q_range = self.q_segments[b] if tnd else (0, rows)
            kv_range = self.kv_segments[b] if tnd else (0, columns)
            in_batch = (max(self.q_lengths), max(self.kv_lengths))
            packed = (
                not self.compress[0]
                and self.attn_mask.shape != in_batch
                and self.attn_mask.shape == (self.query.shape[0], self.key.shape[0])
            )
            visible = visible & masks.supplied(
                self.attn_mask, b, q_range, kv_range, self.layout, packed
            )
        if self.compress[0]:
            visible = visible & masks.compressed_causal(
                rows, columns, *self.compress, self.starts[b]
            )
        if self.real_shift is not None and pse.is_alibi(self.real_shift, self.layout, rows):
            visible = visible & np.tri(rows, columns, dtype=bool)
        return visible

    def _bias(self, b):
        rows, columns = self.q_lengths[b], self.kv_lengths[b]
        if self.real_shift is None:
            return None
        if self.pse_type in (2, 3):
            return pse.slope_bias(
                self.real_shift,
                b,
                rows,
                columns,
                self.q_starts[b],
                self.kv_starts[b],
                square_root=self.pse_type == 3,
            )
        if self.flat_bias is not None:
            return self.flat_bias.view(self.real_shift, b)
        if pse.is_alibi(self.real_shift, self.layout, rows):
            return pse.alibi_bias(self.real_shift, b, rows, columns, self.layout)
        return self.real_shift[b if self.real_shift.shape[0] > 1 else 0]

    def elements(self):
        """Every batch element with its scores."""
        drop_start = 0
        views = zip(
            self.split_query(self.query),
            self.split_kv(self.key),
            self.split_kv(self.value),
            strict=True,
        )
        for b, (q, k, v) in enumerate(views):
            k, v = attention.repeat_heads(k, self.group), attention.repeat_heads(v, self.group)
            scores = self.precision.matmul(q, k.swapaxes(1, 2))
            visible, bias = self._visible(b), self._bias(b)
            if bias is None:
                scores = scores * self.scale
            else:
                visible = visible & (bias != -np.inf)
                bias = np.where(bias == -np.inf, 0, bias)
                scores = (
                    (scores + bias) * self.scale
                    if self.pse_type == 1
                    else scores * self.scale + bias
                )
            keep = None
            if self.drop_mask is not None:
                keep = keep_factors(
                    self.drop_mask, drop_start, scores.shape, self.keep_prob, self.precision
                )
                drop_start += scores.size
            yield Element(q, k, v, scores, visible.astype(int), keep)

    def empty_dpse(self):
        """Zeros like real_shift, or None where the bias has no gradient."""
        if (
            self.real_shift is None
            or self.pse_type in (2, 3)
            or pse.is_alibi(self.real_shift, self.layout, self.q_lengths[0])
        ):
            return None
        return np.zeros_like(self.real_shift)

    def add_dpse(self, dpse, b, ds):
        """Add the gradient of element b, summed over the dimensions that the bias broadcasts."""
        if self.pse_type == 1:
            ds = ds * self.scale
        target = (
            self.flat_bias.view(dpse, b)
            if self.flat_bias is not None
            else dpse[b if dpse.shape[0] > 1 else 0]
        )
        if target.shape[1] != ds.shape[1]:
            ds = self.precision.sum(ds, axis=1)[:, None]
        target += ds
