"""Random cases of FlashAttentionScore and its gradient."""

import numpy as np

from mindspore_nsa import reference
from mindspore_nsa.testing.case import Case, run_reference
from mindspore_nsa.testing.dtypes import encode

from . import nsa_cases
from .draw import DIMS, GROUPS

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD", "TND", "TND")
UNBOUNDED = 2147483647
LENGTHS = (1, 2, 5, 15, 16, 17, 31, 33, 63, 64, 65, 97, 127, 129, 257, 513)


def shape_of(layout, batch, seq, heads, dim):
    """Shape of a tensor; TND takes the sum of its segments as seq."""
    return {
        "BSH": (batch, seq, heads * dim),
        "SBH": (seq, batch, heads * dim),
        "BSND": (batch, seq, heads, dim),
        "BNSD": (batch, heads, seq, dim),
        "TND": (seq, heads, dim),
    }[layout]


class Sizes:
    """The sizes of one case; q and kv hold the length of every batch element."""

    def __init__(self, draw):
        self.layout = draw.pick(LAYOUTS)
        group = draw.pick(GROUPS)
        self.n2 = draw.between(1, 3 if group < 8 else 1)
        self.n1 = group * self.n2
        self.d = draw.pick(DIMS)
        self.dv = self.d if draw.chance(0.5) else draw.pick(DIMS)
        budget = draw.pick((2e5, 1e6, 2.5e6)) / (self.n1 * self.d)
        side = int(np.clip(np.sqrt(budget), 2, 600))
        if self.layout == "TND":
            if draw.chance(0.15):
                self.q = draw.many_lengths(60)
            else:
                self.q = draw.lengths([*LENGTHS, side], max(side, 4))
            self.kv = (
                list(self.q)
                if draw.chance(0.5)
                else [0 if draw.chance(0.1) else draw.between(1, side) for _ in self.q]
            )
            if sum(self.kv) == 0:
                self.kv[0] = 1
        else:
            batch = draw.between(1, 3)
            near = [n for n in LENGTHS if n <= side] + [side]
            s1 = draw.pick(near)
            self.q, self.kv = [s1] * batch, [s1 if draw.chance(0.4) else draw.pick(near)] * batch

    @property
    def packed(self):
        return self.layout == "TND"

    @property
    def batch(self):
        return len(self.q)

    @property
    def t1(self):
        return sum(self.q) if self.packed else self.q[0]

    @property
    def t2(self):
        return sum(self.kv) if self.packed else self.kv[0]

    def scores(self):
        """Elements of all score matrices."""
        return self.n1 * sum(a * b for a, b in zip(self.q, self.kv, strict=True))


def _full_mask(draw, z):
    """A mask of any of the shapes that modes 0, 1 and 5 take."""
    if z.packed:
        shapes = [(max(z.q), max(z.kv)), (z.t1, z.t2)]
    else:
        s1, s2 = z.q[0], z.kv[0]
        shapes = [(s1, s2), (1, 1, s1, s2), (z.batch, 1, s1, s2), (z.batch, z.n1, s1, s2)]
    return draw.mask(*draw.pick(shapes))


def _mask(draw, z):
    """(attn_mask, prefix, attributes)"""
    mode = draw.pick((0, 1, 2, 3, 4, 7, 8) if z.packed else (0, 1, 2, 3, 4, 5, 6))
    if z.packed and mode == 7 and draw.chance(0.5):
        mode = 6
    attrs = {"sparse_mode": mode, "pre_tokens": UNBOUNDED, "next_tokens": UNBOUNDED}
    mask = prefix = None
    if mode == 1 or (mode in (0, 5) and draw.chance(0.5)):
        mask = _full_mask(draw, z)
    elif mode not in (0, 5) and draw.chance(0.05):
        # The content is not read: were it, everything would be masked.
        mask = np.ones((3072 if mode == 6 else 2048, 2048), np.uint8)
    if mode in (4, 7, 8) or (mode == 0 and draw.chance(0.5)):
        far = max(z.kv) + 2
        attrs["pre_tokens"] = draw.pick((UNBOUNDED, draw.between(0, far), draw.between(-3, far)))
        attrs["next_tokens"] = draw.pick((0, draw.between(0, far), draw.between(-3, far)))
    if mode in (5, 6):
        prefix = draw.int_list([draw.between(0, n) for n in z.kv])
    return mask, prefix, attrs


def _alibi(draw, z):
    """The compressed form and the causal mode that it needs; lengths become equal."""
    z.kv = list(z.q)
    width = max(z.kv) if z.packed else z.t2
    return draw.tensor(draw.pick((1, z.batch)), z.n1, 1024, width)


def _bias(draw, z):
    """(real_shift, pse_type)"""
    kind = draw.pick(("none", "none", "full", "row", "slopes"))
    if kind == "none":
        return None, draw.pick((0, 1))
    if kind == "slopes":
        shape = draw.pick(((z.n1,), (z.batch, z.n1)))
        return np.abs(draw.floats(*shape)) / 8, draw.pick((2, 3))
    if z.packed:
        size = (kind == "full" and z.scores()) or z.n1 * z.t2
        shift = draw.rng.standard_normal(size, np.float32)
    else:
        rows = z.q[0] if kind == "full" else 1
        shift = draw.rng.standard_normal((draw.pick((1, z.batch)), z.n1, rows, z.kv[0]), np.float32)
    if draw.chance(0.2):  # -inf masks too
        shift[draw.rng.random(shift.shape) < 0.2] = -np.inf
    return encode(shift, draw.dtype), draw.pick((0, 1))


def flash_attention_score(draw, z=None):
    """A random call, of the sizes z where they are given."""
    z = z or Sizes(draw)
    mask, prefix, attrs = _mask(draw, z)
    if attrs["sparse_mode"] in (2, 3) and z.scores() < 20000 and draw.chance(0.15):
        real_shift, pse_type = _alibi(draw, z), draw.pick((0, 1))
    else:
        real_shift, pse_type = _bias(draw, z)
    return assemble(draw, z, real_shift, pse_type, mask, prefix, attrs)


def assemble(draw, z, real_shift, pse_type, mask, prefix, attrs):
    drop_mask, keep_prob = None, 1.0
    if draw.chance(0.3):
        keep_prob = float(np.float32(draw.pick((1.0, 0.9, 0.8, 0.5))))
        numel = z.scores() + draw.pick((0, 0, 100))
        drop_mask = reference.dropout_mask(draw.pick((0.8, keep_prob)), numel, draw.between(0, 99))
        if len(drop_mask) == 0:
            drop_mask = np.zeros(1, np.uint8)
    starts = [draw.between(-5, 5) if pse_type > 1 and draw.chance(0.5) else 0 for _ in range(2)]
    attrs = {
        "head_num": z.n1,
        "keep_prob": keep_prob,
        "scalar_value": draw.scale(z.d),
        **attrs,
        "input_layout": z.layout,
        "pse_type": pse_type,
    }
    inputs = {
        "query": draw.query(*shape_of(z.layout, z.batch, z.t1, z.n1, z.d)),
        "key": draw.tensor(*shape_of(z.layout, z.batch, z.t2, z.n2, z.d)),
        "value": draw.tensor(*shape_of(z.layout, z.batch, z.t2, z.n2, z.dv)),
        "real_shift": real_shift,
        "drop_mask": drop_mask,
        "attn_mask": mask,
        "prefix": prefix,
        "actual_seq_qlen": draw.prefix_sums(z.q) if z.packed else None,
        "actual_seq_kvlen": draw.prefix_sums(z.kv) if z.packed else None,
        "sink": draw.floats(z.n1) if draw.chance(0.2) else None,
    }
    for name, start in zip(("q_start_idx", "kv_start_idx"), starts):
        if start:
            each = draw.chance(0.5)
            values = [draw.between(-5, 5) for _ in range(z.batch)] if each else [start]
            inputs[name] = draw.int_list(values)
    return Case.of("FlashAttentionScore", inputs, attrs, draw.dtype)


def flash_attention_score_grad_of(forward, draw, pse_grad=None):
    """The gradient's case of a forward case; its extra inputs come from the forward reference.

    dpse is asked for where the bias has a gradient, unless pse_grad says otherwise.
    """
    out, row_max, row_sum = run_reference(forward)
    x = forward.named()
    shift = x["real_shift"]
    if pse_grad is None:
        rows = (
            None
            if shift is None or forward.attrs["pse_type"] > 1
            else np.shape(shift[1] if isinstance(shift, tuple) else shift)
        )
        s1 = row_max.shape[2]
        alibi = (
            rows is not None
            and len(rows) == 4
            and rows[2] == 1024
            and (forward.attrs["input_layout"] == "TND" or s1 != 1024)
        )
        pse_grad = rows is not None and not alibi
    x.update(
        dy=draw.tensor(*out.shape),
        softmax_max=row_max.astype(np.float32),
        softmax_sum=row_sum.astype(np.float32),
        attention_in=encode(out, forward.dtype),
    )
    x.update(softmax_sum_grad=draw.sum_grad(row_sum))
    attrs = {
        **forward.attrs,
        "compress_block_size": 0,
        "compress_stride": 0,
        "pse_grad": int(pse_grad),
    }
    return Case.of("FlashAttentionScoreGrad", x, attrs, forward.dtype, forward.name)


def compress_attention_grad_of(forward, draw):
    """FlashAttentionScoreGrad as the gradient of a causal case of NsaCompressAttention."""
    out, _, row_max, row_sum = run_reference(forward)
    x, a = forward.named(), forward.attrs
    lists = x["actual_cmp_seq_kvlen"]
    if lists is None:
        lists = draw.int_list(
            reference.compressed_seq_len(
                x["actual_seq_qlen"], a["compress_block_size"], a["compress_stride"]
            )
        )
    named = {
        **{name: x[name] for name in ("query", "key", "value", "actual_seq_qlen", "q_offset")},
        "dy": draw.tensor(*out.shape),
        "attn_mask": x["atten_mask"],
        "softmax_max": row_max.astype(np.float32),
        "softmax_sum": row_sum.astype(np.float32),
        "attention_in": encode(out, forward.dtype),
        "actual_seq_kvlen": lists,
    }
    attrs = {
        "head_num": a["head_num"],
        "keep_prob": 1.0,
        "scalar_value": a["scale_value"],
        "pre_tokens": UNBOUNDED,
        "next_tokens": UNBOUNDED,
        "input_layout": "TND",
        "sparse_mode": 0 if x["atten_mask"] is None else draw.pick((0, 1)),
        "pse_type": 1,
        "pse_grad": 0,
        "compress_block_size": a["compress_block_size"],
        "compress_stride": a["compress_stride"],
    }
    named["softmax_sum_grad"] = draw.sum_grad(row_sum)
    return Case.of("FlashAttentionScoreGrad", named, attrs, forward.dtype, forward.name)


def flash_attention_score_grad(draw):
    if draw.chance(0.2):
        forward = nsa_cases.nsa_compress_attention(draw)
        if forward.attrs["causal"]:
            return compress_attention_grad_of(forward, draw)
    return flash_attention_score_grad_of(flash_attention_score(draw), draw)
