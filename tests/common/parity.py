"""Named cases: the shapes of the operators' own public tests and examples, and odd sizes."""

from functools import partial

import numpy as np

from mindspore_nsa import reference
from mindspore_nsa.reference.segments import compressed_seq_len
from mindspore_nsa.testing.case import Case

from .draw import Draw
from .flash_cases import (
    UNBOUNDED,
    compress_attention_grad_of,
    flash_attention_score_grad_of,
    shape_of,
)
from .nsa_cases import selected_attention_grad_of

INT64 = np.int64


def _scale(dim):
    return float(np.float32(1 / np.sqrt(dim)))


def compress(draw, seq, heads, dim, l, s):  # noqa: E741
    inputs = {
        "input": draw.tensor(seq[-1], heads, dim),
        "weight": draw.tensor(l, heads),
        "actual_seq_len": np.array(seq, INT64),
    }
    rows = compressed_seq_len(seq, l, s)[-1]
    attrs = {"compress_block_size": l, "compress_stride": s, "num_windows": rows}
    return Case.of("NsaCompress", inputs, attrs, draw.dtype)


def compress_grad(draw, seq, heads, dim, l, s):  # noqa: E741
    rows = compressed_seq_len(seq, l, s)[-1]
    inputs = {
        "output_grad": draw.tensor(rows, heads, dim),
        "input": draw.tensor(seq[-1], heads, dim),
        "weight": draw.tensor(l, heads),
        "actual_seq_len": np.array(seq, INT64),
    }
    attrs = {"compress_block_size": l, "compress_stride": s}
    return Case.of("NsaCompressGrad", inputs, attrs, draw.dtype)


def compress_attention(
    draw,
    seq_q,
    seq_cmp,
    seq_sel,
    n1,
    n2,
    d,
    dv,
    *,
    l=32,  # noqa: E741
    s=16,
    select=64,
    count=16,
    atten_mask=None,
    topk_mask=None,
    causal=False,
    init=0,
    local=0,
    importance="cann",
):
    inputs = {
        "query": draw.tensor(seq_q[-1], n1, d),
        "key": draw.tensor(seq_cmp[-1], n2, d),
        "value": draw.tensor(seq_cmp[-1], n2, dv),
        "topk_mask": topk_mask,
        "atten_mask": atten_mask,
        "actual_seq_qlen": np.array(seq_q, INT64),
        "actual_cmp_seq_kvlen": np.array(seq_cmp, INT64),
        "actual_sel_seq_kvlen": None if seq_sel is None else np.array(seq_sel, INT64),
    }
    attrs = {
        "scale_value": _scale(d),
        "head_num": n1,
        "compress_block_size": l,
        "compress_stride": s,
        "select_block_size": select,
        "select_block_count": count,
        "causal": int(causal),
        "init_blocks": init,
        "local_blocks": local,
        "importance": importance,
    }
    return Case.of("NsaCompressAttention", inputs, attrs, draw.dtype)


def causal_compress_attention(draw, seq_q, n1, n2, d, dv, *, l=32, s=16, **rest):  # noqa: E741
    """With as many compressed tokens as the query's own segments give."""
    return compress_attention(
        draw,
        seq_q,
        compressed_seq_len(seq_q, l, s),
        None,
        n1,
        n2,
        d,
        dv,
        l=l,
        s=s,
        causal=True,
        **rest,
    )


def compress_attention_grad(draw, *args, **rest):
    return compress_attention_grad_of(causal_compress_attention(draw, *args, **rest), draw)


def selected(draw, seq_q, seq_kv, n1, n2, d, dv, count, *, select=64, causal=False, indices=None):
    if indices is None:
        blocks = -(-np.diff([0, *seq_kv]).max() // select)
        indices = draw.rng.integers(0, blocks, (seq_q[-1], n2, count))
    inputs = {
        "query": draw.tensor(seq_q[-1], n1, d),
        "key": draw.tensor(seq_kv[-1], n2, d),
        "value": draw.tensor(seq_kv[-1], n2, dv),
        "topk_indices": indices.astype(np.int32),
        "actual_seq_qlen": np.array(seq_q, INT64),
        "actual_seq_kvlen": np.array(seq_kv, INT64),
    }
    attrs = {
        "scale_value": _scale(d),
        "head_num": n1,
        "select_block_size": select,
        "select_block_count": count,
        "causal": int(causal),
    }
    return Case.of("NsaSelectedAttention", inputs, attrs, draw.dtype)


def selected_grad(draw, *args, **rest):
    return selected_attention_grad_of(selected(draw, *args, **rest), draw)


def flash(
    draw,
    layout,
    batch,
    n1,
    n2,
    s1,
    s2,
    d,
    dv=None,
    *,
    mode=0,
    mask=None,
    pse=None,
    pse_type=1,
    keep_prob=None,
    prefix=None,
    seq_q=None,
    seq_kv=None,
    pre=UNBOUNDED,
    next_tokens=UNBOUNDED,
):
    """In TND s1 and s2 are the numbers of tokens; pse is a shape, or "slopes"."""
    dv = dv or d
    pairs = batch * s1 * s2
    if layout == "TND":
        pairs = int((np.diff([0, *seq_q]) * np.diff([0, *seq_kv])).sum())
    real_shift = None
    if pse == "slopes":
        real_shift = np.abs(draw.floats(n1)) / 8
    elif pse is not None:
        real_shift = draw.tensor(*pse)
    keep = float(np.float32(keep_prob or 1))
    lists = {"prefix": prefix, "actual_seq_qlen": seq_q, "actual_seq_kvlen": seq_kv}
    inputs = {
        "query": draw.tensor(*shape_of(layout, batch, s1, n1, d)),
        "key": draw.tensor(*shape_of(layout, batch, s2, n2, d)),
        "value": draw.tensor(*shape_of(layout, batch, s2, n2, dv)),
        "real_shift": real_shift,
        "drop_mask": (None if keep_prob is None else reference.dropout_mask(keep, n1 * pairs, 7)),
        "attn_mask": mask,
        **{name: np.array(values, INT64) for name, values in lists.items() if values is not None},
    }
    attrs = {
        "head_num": n1,
        "keep_prob": keep,
        "scalar_value": _scale(d),
        "pre_tokens": pre,
        "next_tokens": next_tokens,
        "input_layout": layout,
        "sparse_mode": mode,
        "pse_type": pse_type,
    }
    return Case.of("FlashAttentionScore", inputs, attrs, draw.dtype)


def flash_grad(draw, *args, **rest):
    return flash_attention_score_grad_of(flash(draw, *args, **rest), draw)


def _triu(rows, columns):
    return np.triu(np.ones((rows, columns), bool), 1)


def _eye_and_first_column(rows, columns):
    mask = np.eye(rows, columns, dtype=bool)
    mask[:, 0] = True
    return mask


def _compress_parity():
    hundreds = list(range(100, 4801, 100))
    yield (
        "compress single segment",
        "float16",
        partial(compress, seq=[64], heads=4, dim=32, l=32, s=32),
    )
    yield (
        "compress 48 segments",
        "float16",
        partial(compress, seq=hundreds, heads=4, dim=64, l=16, s=16),
    )
    for l in (16, 32):  # noqa: E741
        yield (
            f"compress short segments l={l}",
            "bfloat16",
            partial(compress, seq=[16, 32, 48], heads=32, dim=16, l=l, s=16),
        )
    yield (
        "compress docstring",
        "float16",
        partial(compress, seq=[80, 176, 256], heads=8, dim=128, l=64, s=16),
    )
    for seq, dim in (([0, 128, 272], 128), ([0, 120, 140, 272], 192), ([0, 5, 49], 192)):
        heads = 64 if dim == 128 else 128
        size = 128 if heads == 64 else 192
        yield (
            f"compress_grad {seq}",
            "bfloat16",
            partial(compress_grad, seq=seq, heads=heads, dim=size, l=32, s=16),
        )


def _compress_attention_parity():
    yield (
        "compress_attention one segment",
        "float16",
        partial(
            compress_attention, seq_q=[1024], seq_cmp=[64], seq_sel=[16], n1=16, n2=4, d=192, dv=128
        ),
    )
    yield (
        "compress_attention two segments",
        "float16",
        partial(
            compress_attention,
            seq_q=[1384, 2633],
            seq_cmp=[2266, 4072],
            seq_sel=[567, 1019],
            n1=7,
            n2=7,
            d=8,
            dv=7,
            atten_mask=_triu(1384, 2266),
            topk_mask=_eye_and_first_column(1384, 567),
        ),
    )
    yield (
        "compress_attention docstring",
        "float16",
        partial(
            compress_attention,
            seq_q=[256],
            seq_cmp=[256],
            seq_sel=[256],
            n1=8,
            n2=8,
            d=128,
            dv=128,
            atten_mask=np.ones((256, 256), bool),
            topk_mask=np.ones((256, 256), bool),
        ),
    )


def _selected_parity():
    two = {"seq_q": [128, 256], "seq_kv": [512, 1024], "n1": 16, "n2": 4, "d": 192, "dv": 128}
    one = {
        "seq_q": [1],
        "seq_kv": [1024],
        "n1": 1,
        "n2": 1,
        "d": 192,
        "dv": 128,
        "count": 16,
        "indices": np.arange(16).reshape(1, 1, 16),
    }
    for name, make in (("selected", selected), ("selected_grad", selected_grad)):
        yield f"{name} two segments", "float16", partial(make, **two, count=16)
        yield f"{name} causal", "float16", partial(make, **two, count=16, causal=True)
        yield f"{name} one query", "bfloat16", partial(make, **one)
        yield (
            f"{name} 32 blocks",
            "float16",
            partial(make, seq_q=[17], seq_kv=[2048], n1=4, n2=1, d=128, dv=128, count=32),
        )
        yield (
            f"{name} long keys",
            "bfloat16",
            partial(
                make,
                seq_q=[2, 4, 6, 8],
                seq_kv=[2048, 4096, 6144, 8192],
                n1=4,
                n2=2,
                d=192,
                dv=128,
                count=16,
            ),
        )
    yield (
        "selected 115 heads",
        "float16",
        partial(selected, seq_q=[20], seq_kv=[320], n1=115, n2=115, d=192, dv=128, count=4),
    )


# Half of the batch still has more tiles of queries and of keys than 24 cores.
_HALVED_ON_TWIN = ("BSND GQA causal", "BNSD slopes")


def _flash_parity(on_twin):
    pick = np.random.default_rng(0).random
    tnd = {"layout": "TND", "mode": 3, "seq_q": [13, 14, 81], "seq_kv": [13, 14, 81]}
    calls = {
        "SBH mask": ("float32", dict(layout="SBH", batch=1, n1=1, n2=1, s1=256, s2=256, d=128,
                                     mask=_triu(256, 256))),
        "SBH everything masked": ("float32", dict(layout="SBH", batch=1, n1=1, n2=1, s1=256,
                                                  s2=256, d=128, mask=np.ones((256, 256), bool))),
        "BNSD pse mask dropout": ("float16", dict(
            layout="BNSD", batch=1, n1=1, n2=1, s1=128, s2=128, d=64, pse=(1, 1, 128, 128),
            mask=pick((128, 128)) < 0.3, keep_prob=0.8)),
        "TND alibi dropout": ("bfloat16", dict(batch=3, n1=2, n2=2, s1=81, s2=81, d=192,
                                               pse=(1, 2, 1024, 67), pse_type=0, keep_prob=0.9,
                                               **tnd)),
        "BSND GQA causal": ("float16", dict(layout="BSND", batch=4, n1=16, n2=8, s1=256, s2=256,
                                            d=128, mode=3)),
        "BNSD slopes": ("bfloat16", dict(layout="BNSD", batch=4, n1=8, n2=8, s1=256, s2=256, d=256,
                                         mode=3, pse="slopes", pse_type=2)),
        "BNSD band sqrt slopes": ("float16", dict(layout="BNSD", batch=2, n1=4, n2=4, s1=256,
                                                  s2=256, d=128, mode=4, pre=128, next_tokens=128,
                                                  pse="slopes", pse_type=3)),
        "BNSD prefix": ("float16", dict(layout="BNSD", batch=4, n1=2, n2=2, s1=256, s2=256, d=128,
                                        mode=5, prefix=[100, 128, 130, 150])),
        "BNSD prefix, more keys": ("float16", dict(layout="BNSD", batch=4, n1=2, n2=2, s1=256,
                                                   s2=512, d=128, mode=5,
                                                   prefix=[100, 128, 401, 300])),
        "BNSD compressed prefix": ("float16", dict(layout="BNSD", batch=4, n1=2, n2=2, s1=256,
                                                   s2=512, d=128, mode=6,
                                                   prefix=[100, 128, 401, 300])),
        "TND sqrt slopes dropout": ("float16", dict(
            layout="TND", batch=3, n1=4, n2=4, s1=768, s2=768, d=128, mode=3, pse="slopes",
            pse_type=3, keep_prob=0.9, seq_q=[256, 512, 768], seq_kv=[256, 512, 768])),
        "TND first band": ("bfloat16", dict(
            layout="TND", batch=3, n1=4, n2=4, s1=512, s2=768, d=128, mode=8, next_tokens=64,
            seq_q=[128, 256, 512], seq_kv=[256, 512, 768])),
        "BSH more queries": ("float16", dict(layout="BSH", batch=3, n1=1, n2=1, s1=128, s2=121,
                                             d=128)),
        "BNSD alibi beyond its 1024 rows": ("float16", dict(
            layout="BNSD", batch=1, n1=2, n2=1, s1=1090, s2=1090, d=16, mode=3,
            pse=(1, 2, 1024, 1090), pse_type=0)),
        "TND alibi beyond its 1024 rows": ("bfloat16", dict(
            layout="TND", batch=3, n1=1, n2=1, s1=2130, s2=2130, d=16, mode=2,
            pse=(3, 1, 1024, 1100), pse_type=1, seq_q=[1030, 2130, 2130],
            seq_kv=[1030, 2130, 2130])),
    }  # fmt: skip
    for d in (177, 167, 129, 130, 80):
        calls[f"D={d}"] = (
            "bfloat16",
            dict(layout="BSND", batch=1, n1=2, n2=1, s1=128, s2=128, d=d, mode=2),
        )
    for name, (dtype, arguments) in calls.items():
        if on_twin and name in _HALVED_ON_TWIN:
            arguments["batch"] //= 2
        yield f"flash {name}", dtype, partial(flash, **arguments)
        yield f"flash_grad {name}", dtype, partial(flash_grad, **arguments)


def _odd_sizes():
    """l=32, s=16, l'=64: S = 1, l-1, l, l'+1, 97, 1025; D = 40, 96, 192; D != Dv; G = 1, 3, 16."""
    heads = {1: (1, 1), 31: (3, 1), 32: (16, 1), 65: (6, 2), 97: (3, 3), 1025: (3, 1)}
    dims = {1: (40, 40), 31: (96, 96), 32: (192, 128), 65: (40, 96), 97: (192, 192), 1025: (40, 64)}
    for dtype in ("float32", "float16", "bfloat16"):
        for size, (n1, n2) in heads.items():
            d, dv = dims[size]
            segments = [size] if size > 500 else [0, size, size + 3, size + 3, 2 * size + 3]
            causal = dict(seq_q=segments, n1=n1, n2=n2, d=d, dv=dv)
            yield (
                f"compress S={size}",
                dtype,
                partial(compress, seq=segments, heads=n1, dim=d, l=32, s=16),
            )
            yield (
                f"compress_grad S={size}",
                dtype,
                partial(compress_grad, seq=segments, heads=n1, dim=d, l=32, s=16),
            )
            if compressed_seq_len(segments, 32, 16)[-1]:
                yield (
                    f"compress_attention S={size}",
                    dtype,
                    partial(
                        causal_compress_attention, **causal, init=1, local=2, importance="overlap"
                    ),
                )
                yield (
                    f"compress_attention_grad S={size}",
                    dtype,
                    partial(compress_attention_grad, **causal),
                )
            square = dict(seq_q=segments, seq_kv=segments, n1=n1, n2=n2, d=d, dv=dv)
            packed = dict(
                layout="TND",
                batch=len(segments),
                s1=segments[-1],
                s2=segments[-1],
                mode=3,
                **square,
            )
            for suffix, attend, flash_of in (
                ("", selected, flash),
                ("_grad", selected_grad, flash_grad),
            ):
                yield (
                    f"selected{suffix} S={size}",
                    dtype,
                    partial(attend, **square, count=16, causal=True),
                )
                yield f"flash{suffix} S={size}", dtype, partial(flash_of, **packed)


def _shares():
    """Gradients whose keys are summed in several shares of the queries."""
    for dtype in ("float32", "bfloat16"):
        # Four chunks of 16 queries, and two of keys besides the first block.
        blocks = dict(seq_q=[50], seq_kv=[300], n1=64, n2=1, d=32, dv=32, count=4)
        yield "selected_grad shares of block 0", dtype, partial(selected_grad, **blocks)
        rows = dict(layout="BNSD", batch=1, n1=1, n2=1, s1=400, s2=2000, d=32)
        yield "flash_grad shares of all keys", dtype, partial(flash_grad, **rows)
        # 17 chunks of queries, where lanes of tiles have 16 slots for them.
        many = dict(layout="BNSD", batch=1, n1=1, n2=1, s1=3100, s2=64, d=32)
        yield "flash_grad more chunks than slots", dtype, partial(flash_grad, **many)
        # All queries add to the same row of dpse.
        bias = dict(layout="BNSD", batch=1, n1=2, n2=1, s1=1600, s2=70, d=16, pse=(1, 2, 1, 70))
        yield "flash_grad one row of bias", dtype, partial(flash_grad, **bias)


def _named(calls):
    named = {}
    for seed, (name, dtype, make) in enumerate(calls):

        def build(seed=seed, dtype=dtype, make=make, name=name):
            case = make(Draw(seed, dtype))
            case.name = name
            return case

        named[f"{name} {dtype}"] = build
    return named


def parity_cases(on_twin=False):
    """{name: function that builds the case}: the shapes of public tests and examples.

    On the twin, which takes each number by itself, the largest two have half of the batch.
    """
    attention = (*_compress_attention_parity(), *_selected_parity(), *_flash_parity(on_twin))
    return _named([*_compress_parity(), *attention])


def share_cases():
    """{name: function that builds the case}: gradients of many queries and few chunks of keys."""
    return _named(_shares())


def odd_size_cases():
    """{name: function that builds the case}: sizes around block edges, in every dtype."""
    return _named(_odd_sizes())
