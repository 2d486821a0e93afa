import numpy as np
import pytest

from mindspore_nsa.reference import (
    dropout_mask,
    flash_attention_score,
    flash_attention_score_grad,
)
from mindspore_nsa.reference.attention import FLT_MAX
from mindspore_nsa.reference.pse import alibi_bias
from tests.common.differences import check_gradient

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD")
BATCH, N1, N2, D, DV = 2, 4, 2, 3, 5


def lay_out(x, layout):
    """[B, N, S, D] in another layout."""
    batch, heads, seq, dim = x.shape
    bsnd = x.transpose(0, 2, 1, 3)
    return {
        "BNSD": x,
        "BSND": bsnd,
        "BSH": bsnd.reshape(batch, seq, heads * dim),
        "SBH": bsnd.transpose(1, 0, 2, 3).reshape(seq, batch, heads * dim),
    }[layout].copy()


def tensors(rng, s1, s2, batch=BATCH):
    """query, key, value in BNSD"""
    return (
        rng.standard_normal((batch, N1, s1, D)),
        rng.standard_normal((batch, N2, s2, D)),
        rng.standard_normal((batch, N2, s2, DV)),
    )


def pack(x, seq):
    """Segments [N, S_b, D] of a list as one [T, N, D]."""
    return np.concatenate([part.transpose(1, 0, 2) for part in x]).copy()


def masked(mode, i, j, s1, s2, *, pre=2147483647, next_tokens=2147483647, prefix=0, banded=False):
    """M(i, j) as the specification writes it."""
    band = j > i + (s2 - s1) + next_tokens or j < i + (s2 - s1) - pre
    causal = j > i + s2 - s1
    return {
        0: j > i + next_tokens or j < i - pre,
        1: False,
        2: j > i,
        3: causal,
        4: band,
        5: causal and j >= prefix,
        6: causal and j >= prefix,
        7: band if banded else causal,
        8: band if banded else j > i,
    }[mode]


def naive_row(q, k, v, scores, hidden, keep, sink=None):
    """One query: out, max, sum."""
    logits = [s for s, h in zip(scores, hidden) if not h]
    with_sink = logits + ([] if sink is None else [sink])
    if not with_sink:
        return np.zeros(v.shape[1]), -FLT_MAX, FLT_MAX
    top = max(with_sink)
    total = sum(np.exp(s - top) for s in with_sink)
    out = np.zeros(v.shape[1])
    for j, (s, h) in enumerate(zip(scores, hidden)):
        if not h:
            out += np.exp(s - top) / total * keep[j] * v[j]
    return out, top, total


def naive(q, k, v, *, mode=0, scale=0.7, bias=None, pse_type=1, keep=None, sink=None, mask=None,
          **mode_options):  # fmt: skip
    """One batch element, heads first, pair by pair: out [N1, S1, Dv], max and sum [N1, S1]."""
    s1, s2 = q.shape[1], k.shape[1]
    out, row_max, row_sum = np.zeros((N1, s1, DV)), np.zeros((N1, s1)), np.zeros((N1, s1))
    for h in range(N1):
        g = h // (N1 // N2)
        for i in range(s1):
            hidden, scores = [], []
            for j in range(s2):
                pse = 0 if bias is None else bias[h, i if bias.shape[1] > 1 else 0, j]
                dot = q[h, i] @ k[g, j]
                scores.append((dot + pse) * scale if pse_type == 1 else dot * scale + pse)
                by_mask = mask is not None and bool(mask[h % len(mask), i, j])
                by_mode = masked(mode, i, j, s1, s2, **mode_options)
                hidden.append(by_mask or by_mode or pse == -np.inf)
            kept = np.ones(s2) if keep is None else keep[h, i]
            out[h, i], row_max[h, i], row_sum[h, i] = naive_row(
                q[h, i], k[g], v[g], scores, hidden, kept, None if sink is None else sink[h]
            )
    return out, row_max, row_sum


def check(got, expected):
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-14)
    for statistic, value in zip(got[1:], expected[1:]):
        np.testing.assert_allclose(statistic, np.repeat(value[..., None], 8, -1), rtol=1e-12)


MODES = [
    (0, {}),
    (0, {"pre": 2, "next_tokens": 1}),
    (0, {"next_tokens": -1}),
    (2, {}),
    (3, {}),
    (4, {"pre": 1, "next_tokens": 2}),
    (4, {"pre": -1, "next_tokens": 2}),
    (5, {"prefix": 3}),
    (6, {"prefix": 0}),
]


@pytest.mark.parametrize("mode, options", MODES)
@pytest.mark.parametrize("s1, s2", [(4, 6), (6, 4), (5, 5), (1, 3)])
def test_modes_in_all_layouts(mode, options, s1, s2):
    rng = np.random.default_rng(0)
    q, k, v = tensors(rng, s1, s2)
    rename = {"pre": "pre_tokens", "next_tokens": "next_tokens"}
    arguments = {rename[name]: x for name, x in options.items() if name in rename}
    if "prefix" in options:
        arguments["prefix"] = [options["prefix"]] * BATCH
    expected = [naive(q[b], k[b], v[b], mode=mode, **options) for b in range(BATCH)]
    expected = [np.stack(x) for x in zip(*expected)]
    for layout in LAYOUTS:
        got = flash_attention_score(
            *(lay_out(x, layout) for x in (q, k, v)), N1, scalar_value=0.7, input_layout=layout,
            sparse_mode=mode, **arguments,
        )  # fmt: skip
        check(got, [lay_out(expected[0], layout), *expected[1:]])


SEQ_Q, SEQ_KV = [0, 3, 3, 8, 8, 10, 10], [2, 6, 7, 10, 10, 15, 15]


def packed_problem(seed=0):
    rng = np.random.default_rng(seed)
    lengths = zip(np.diff([0, *SEQ_Q]), np.diff([0, *SEQ_KV]))
    parts = [[x[0] for x in tensors(rng, s1, s2, 1)] for s1, s2 in lengths]
    q, k, v = (pack(x, seq) for x, seq in zip(zip(*parts), (SEQ_Q, SEQ_KV, SEQ_KV)))
    lists = {"actual_seq_qlen": SEQ_Q, "actual_seq_kvlen": SEQ_KV, "input_layout": "TND"}
    return rng, parts, q, k, v, lists


def packed_naive(parts, **options):
    """`naive` of every segment; options hold a list with one value per segment."""
    rows = []
    for b, part in enumerate(parts):
        rows.append(naive(*part, **{name: values[b] for name, values in options.items()}))
    out = pack([r[0] for r in rows], SEQ_Q)
    statistics = (np.concatenate([r[place].T for r in rows]) for place in (1, 2))
    return [out, *statistics]


@pytest.mark.parametrize("mode", [0, 2, 3, 4, 7, 8])
def test_modes_of_packed_segments(mode):
    _, parts, q, k, v, lists = packed_problem()
    got = flash_attention_score(
        q, k, v, N1, scalar_value=0.7, sparse_mode=mode, pre_tokens=2, next_tokens=1, **lists
    )
    # Segments 1, 3 and 5 have queries: 7 makes a band of the last of them, 8 of the first.
    banded = [b == {7: 5, 8: 1}.get(mode) for b in range(len(parts))]
    count = len(parts)
    check(got, packed_naive(parts, mode=[mode] * count, pre=[2] * count, next_tokens=[1] * count,
                            banded=banded))  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 6), (1, 1, 4, 6), (BATCH, 1, 4, 6), (BATCH, N1, 4, 6)])
@pytest.mark.parametrize("mode", [0, 1])
def test_mask_tensors(shape, mode):
    rng = np.random.default_rng(1)
    q, k, v = tensors(rng, 4, 6)
    mask = (rng.random(shape) < 0.5).astype(np.uint8)
    each = np.broadcast_to(mask, (BATCH, N1, 4, 6))
    got = flash_attention_score(q, k, v, N1, scalar_value=0.7, attn_mask=mask, sparse_mode=mode,
                                next_tokens=0, input_layout="BNSD")  # fmt: skip
    # Mode 1 knows the mask alone.
    band = {"next_tokens": 0} if mode == 0 else {}
    rows = [naive(q[b], k[b], v[b], mode=mode, mask=each[b], **band) for b in range(BATCH)]
    check(got, [np.stack(x) for x in zip(*rows)])


@pytest.mark.parametrize("packed", [False, True])
def test_mask_of_packed_segments(packed):
    rng, parts, q, k, v, lists = packed_problem(2)
    longest = (5, 5)
    mask = rng.random((SEQ_Q[-1], SEQ_KV[-1]) if packed else longest) < 0.5
    masks = []
    for b, (query, key, _) in enumerate(parts):
        s1, s2 = query.shape[1], key.shape[1]
        row, column = ([0, *SEQ_Q][b], [0, *SEQ_KV][b]) if packed else (0, 0)
        masks.append(mask[None, row : row + s1, column : column + s2])
    got = flash_attention_score(q, k, v, N1, scalar_value=0.7, attn_mask=mask, sparse_mode=1,
                                **lists)  # fmt: skip
    check(got, packed_naive(parts, mode=[1] * len(parts), mask=masks))


def test_the_content_of_a_mask_is_not_read_in_analytic_modes():
    q, k, v = tensors(np.random.default_rng(3), 4, 4)
    arguments = dict(head_num=N1, input_layout="BNSD", sparse_mode=3)
    everything = np.ones((2048, 2048), np.uint8)
    for got, expected in zip(
        flash_attention_score(q, k, v, attn_mask=everything, **arguments),
        flash_attention_score(q, k, v, **arguments),
    ):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("pse_type", [0, 1])
@pytest.mark.parametrize("rows", [4, 1])
@pytest.mark.parametrize("batch", [BATCH, 1])
def test_bias_tensors(pse_type, rows, batch):
    rng = np.random.default_rng(4)
    q, k, v = tensors(rng, 4, 6)
    bias = rng.standard_normal((batch, N1, rows, 6))
    bias[:, 1, 0, 2] = -np.inf
    got = flash_attention_score(q, k, v, N1, scalar_value=0.7, real_shift=bias, pse_type=pse_type,
                                input_layout="BNSD")  # fmt: skip
    rows = [naive(q[b], k[b], v[b], bias=bias[b % batch], pse_type=pse_type) for b in range(BATCH)]
    check(got, [np.stack(x) for x in zip(*rows)])


@pytest.mark.parametrize("full", [True, False])
def test_flat_bias_of_packed_segments(full):
    rng, parts, q, k, v, lists = packed_problem(5)
    biases = [rng.standard_normal((N1, x.shape[1] if full else 1, y.shape[1]))
              for x, y, _ in parts]  # fmt: skip
    flat = np.concatenate([bias.ravel() for bias in biases])
    got = flash_attention_score(q, k, v, N1, scalar_value=0.7, real_shift=flat, pse_type=0, **lists)
    check(got, packed_naive(parts, bias=biases, pse_type=[0] * len(parts)))


@pytest.mark.parametrize("pse_type", [2, 3])
@pytest.mark.parametrize("per_batch", [False, True])
def test_slopes(pse_type, per_batch):
    rng = np.random.default_rng(6)
    q, k, v = tensors(rng, 4, 6)
    slopes = rng.random((BATCH, N1) if per_batch else N1)
    i, j = np.arange(4)[:, None], np.arange(6)
    d = np.abs(j + 1 - i - 3).astype(float)
    bias = -np.broadcast_to(slopes, (BATCH, N1))[..., None, None] * (
        d if pse_type == 2 else np.sqrt(d)
    )
    got = flash_attention_score(q, k, v, N1, scalar_value=0.7, real_shift=slopes,
                                pse_type=pse_type, q_start_idx=3, kv_start_idx=1,
                                input_layout="BNSD")  # fmt: skip
    rows = [naive(q[b], k[b], v[b], bias=bias[b], pse_type=pse_type) for b in range(BATCH)]
    check(got, [np.stack(x) for x in zip(*rows)])


def test_slopes_from_positions_of_each_entry():
    """Entries computed one by one, with their own positions, give the same."""
    rng, _, q, k, v, lists = packed_problem(6)
    slopes, starts = rng.random(N1), rng.integers(-4, 9, (2, len(SEQ_Q)))
    options = {"real_shift": slopes, "pse_type": 3, "scalar_value": 0.7}
    got = flash_attention_score(
        q, k, v, N1, q_start_idx=starts[0], kv_start_idx=starts[1], **options, **lists
    )
    for b, ends in enumerate(zip([0, *SEQ_Q], SEQ_Q, [0, *SEQ_KV], SEQ_KV)):
        rows, columns = slice(*ends[:2]), slice(*ends[2:])
        alone = flash_attention_score(
            q[rows], k[columns], v[columns], N1, input_layout="TND",
            actual_seq_qlen=[ends[1] - ends[0]], actual_seq_kvlen=[ends[3] - ends[2]],
            q_start_idx=int(starts[0, b]), kv_start_idx=int(starts[1, b]), **options,
        )  # fmt: skip
        for ours, expected in zip(got, alone):
            np.testing.assert_allclose(ours[rows], expected, rtol=1e-12, atol=1e-15)


def toeplitz(diagonals, rows, columns):
    """bias[h, i, j] = diagonals[h, i - j] for j <= i; what lies above is NaN."""
    i, j = np.arange(rows)[:, None], np.arange(columns)
    return np.where(j <= i, diagonals[:, np.clip(i - j, 0, None)], np.nan)


@pytest.mark.parametrize("size", [5, 1023, 1024, 1040, 2100])
def test_compressed_alibi(size):
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((1, 1, size, 2)) for _ in range(3))
    full = toeplitz(rng.standard_normal((1, size + 1024)), size, size)
    # Its last 1024 rows, with whatever above them where there are fewer.
    stored = np.full((1, 1, 1024, size), np.nan)
    kept = min(size, 1024)
    if size < 1024:
        stored[0, :, :kept] = full  # row i >= S1 - H reads stored row i - (S1 - H)
        stored[0] = np.roll(stored[0], 1024 - size, axis=1)
    else:
        stored[0] = full[:, size - 1024 :]
    arguments = dict(head_num=1, input_layout="BNSD", sparse_mode=3, pse_type=0)
    got = flash_attention_score(q, k, v, real_shift=np.nan_to_num(stored), **arguments)
    expected = flash_attention_score(q, k, v, real_shift=np.nan_to_num(full)[None], **arguments)
    for x, y in zip(got, expected):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("rows, width", [(3, 3), (1024, 1024), (2500, 2600)])
def test_which_row_of_the_compressed_alibi_is_read(rows, width):
    stored = np.random.default_rng(7).standard_normal((1, 1, 1024, width))
    for layout, shift in (("BNSD", 0), ("TND", width - rows)):
        bias = alibi_bias(stored, 0, rows, rows, layout)
        for i in range(0, rows, 37):
            above = rows - 1024
            for j in range(0, i + 1, 41):
                if i >= above:
                    expected = stored[0, 0, i - above, j + shift]
                else:
                    r = i % 1024
                    expected = stored[0, 0, r, j + shift + above + r - i]
                assert bias[0, i, j] == expected


def test_compressed_alibi_of_packed_segments():
    rng = np.random.default_rng(8)
    seq = [13, 14, 81]
    diagonals = rng.standard_normal((N1, 2000))
    q, k, v = (rng.standard_normal((81, n, d)) for n, d in ((N1, D), (N2, D), (N2, DV)))
    # The stored form belongs to the longest segment (67) and serves the shorter ones.
    stored = np.nan_to_num(toeplitz(diagonals, 67, 67))
    stored = np.concatenate([np.zeros((N1, 1024 - 67, 67)), stored], axis=1)[None]
    arguments = dict(head_num=N1, input_layout="TND", sparse_mode=3, pse_type=0,
                     actual_seq_qlen=seq, actual_seq_kvlen=seq)  # fmt: skip
    full = [np.nan_to_num(toeplitz(diagonals, n, n)).ravel() for n in (13, 1, 67)]
    got = flash_attention_score(q, k, v, real_shift=stored, **arguments)
    expected = flash_attention_score(q, k, v, real_shift=np.concatenate(full), **arguments)
    for x, y in zip(got, expected):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_dropout_in_batches_and_segments():
    rng = np.random.default_rng(9)
    q, k, v = tensors(rng, 4, 6)
    bits = dropout_mask(0.6, BATCH * N1 * 24 + 50, 1)
    keep = np.unpackbits(bits, bitorder="little")[: BATCH * N1 * 24].reshape(BATCH, N1, 4, 6) / 0.6
    got = flash_attention_score(q, k, v, N1, drop_mask=bits, keep_prob=0.6, scalar_value=0.7,
                                input_layout="BNSD")  # fmt: skip
    rows = [naive(q[b], k[b], v[b], keep=keep[b]) for b in range(BATCH)]
    check(got, [np.stack(x) for x in zip(*rows)])

    _, parts, q, k, v, lists = packed_problem(9)
    sizes = [N1 * x.shape[1] * y.shape[1] for x, y, _ in parts]
    bits = dropout_mask(0.6, sum(sizes), 2)
    flat = np.split(np.unpackbits(bits, bitorder="little")[: sum(sizes)], np.cumsum(sizes)[:-1])
    keep = [part.reshape(N1, x.shape[1], y.shape[1]) for part, (x, y, _) in zip(flat, parts)]
    # keep_prob = 1 with a mask: the mask counts, nothing is scaled.
    got = flash_attention_score(q, k, v, N1, drop_mask=bits, scalar_value=0.7, **lists)
    check(got, packed_naive(parts, keep=keep))
    with pytest.raises(ValueError, match="drop_mask"):
        flash_attention_score(q, k, v, N1, keep_prob=0.5, **lists)


def test_rows_that_see_nothing_or_only_a_sink():
    rng = np.random.default_rng(10)
    q, k, v = tensors(rng, 4, 4)
    mask = np.zeros((4, 4), bool)
    mask[1] = True
    arguments = dict(head_num=N1, attn_mask=mask, input_layout="BNSD", scalar_value=0.7)
    out, row_max, row_sum = flash_attention_score(q, k, v, **arguments)
    assert not out[:, :, 1].any() and out[:, :, 2].all()
    assert (row_max[:, :, 1] == -FLT_MAX).all() and (row_sum[:, :, 1] == FLT_MAX).all()
    gradients = flash_attention_score_grad(
        q, k, v, out, softmax_max=row_max, softmax_sum=row_sum, attention_in=out, **arguments
    )
    assert not gradients.dq[:, :, 1].any() and np.isfinite(gradients.dk).all()

    sink = rng.standard_normal(N1)
    out, row_max, row_sum = flash_attention_score(q, k, v, sink=sink, **arguments)
    assert not out[:, :, 1].any()
    np.testing.assert_array_equal(row_max[0, :, 1], np.repeat(sink[:, None], 8, 1))
    assert (row_sum[:, :, 1] == 1).all()
    rows = [naive(q[b], k[b], v[b], mask=mask[None], sink=sink) for b in range(BATCH)]
    check((out, row_max, row_sum), [np.stack(x) for x in zip(*rows)])


def test_no_keys_at_all():
    q, k, v = tensors(np.random.default_rng(11), 3, 0)
    out, row_max, row_sum = flash_attention_score(q, k, v, N1, input_layout="BNSD")
    assert not out.any() and (row_max == -FLT_MAX).all() and (row_sum == FLT_MAX).all()


def test_nan_does_not_pass_a_mask():
    q, k, v = tensors(np.random.default_rng(12), 4, 4)
    k[0, 0, 3] = v[1, 1, 3] = np.nan
    arguments = dict(head_num=N1, input_layout="BNSD", sparse_mode=2)
    out, row_max, row_sum = flash_attention_score(q, k, v, **arguments)
    assert np.isfinite(out[:, :, :3]).all()
    touched = np.isnan(out[:, :, 3]).all(axis=-1)
    np.testing.assert_array_equal(touched, [[1, 1, 0, 0], [0, 0, 1, 1]])
    clean = np.nan_to_num(out)
    gradients = flash_attention_score_grad(
        q, k, v, np.ones_like(out), softmax_max=row_max, softmax_sum=row_sum, attention_in=clean,
        **arguments,
    )  # fmt: skip
    assert np.isfinite(gradients.dq[:, :, :3]).all()


def test_unknown_layout():
    q, k, v = tensors(np.random.default_rng(13), 3, 3)
    with pytest.raises(ValueError, match="input_layout"):
        flash_attention_score(q, k, v, N1, input_layout="NBSD")


def check_all_gradients(q, k, v, rng, **arguments):
    def forward():
        return flash_attention_score(q, k, v, **arguments)

    out, row_max, row_sum = forward()
    dy = rng.standard_normal(out.shape)
    gradients = flash_attention_score_grad(
        q, k, v, dy, softmax_max=row_max, softmax_sum=row_sum, attention_in=out, **arguments
    )

    def loss():
        return (forward()[0] * dy).sum()

    check_gradient(loss, q, gradients.dq, rng)
    check_gradient(loss, k, gradients.dk, rng)
    check_gradient(loss, v, gradients.dv, rng)
    if gradients.dpse is not None:
        check_gradient(loss, arguments["real_shift"], gradients.dpse, rng)
    if gradients.dsink is not None:
        check_gradient(loss, arguments["sink"], gradients.dsink, rng, places=N1)
    return gradients


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("pse_type, shape", [(0, (1, N1, 1, 7)), (1, (BATCH, N1, 5, 7)),
                                             (1, (1, N1, 5, 7)), (2, (N1,)),
                                             (3, (BATCH, N1))])  # fmt: skip
def test_gradients(layout, mode, pse_type, shape):
    rng = np.random.default_rng(14)
    q, k, v = (lay_out(x, layout) for x in tensors(rng, 5, 7))
    gradients = check_all_gradients(
        q, k, v, rng, head_num=N1, input_layout=layout, sparse_mode=mode, scalar_value=0.7,
        pre_tokens=2 if mode in (0, 4) else 2147483647,
        next_tokens=1 if mode in (0, 4) else 2147483647,
        attn_mask=rng.random((5, 7)) < 0.3 if mode < 2 else None,
        prefix=[3, 5] if mode in (5, 6) else None,
        keep_prob=0.8, drop_mask=dropout_mask(0.8, BATCH * N1 * 35, 3),
        real_shift=rng.random(shape), pse_type=pse_type, sink=rng.standard_normal(N1),
    )  # fmt: skip
    assert (gradients.dpse is None) == (pse_type > 1)


@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("full", [True, False])
def test_gradients_of_packed_segments(mode, full):
    rng, parts, q, k, v, lists = packed_problem(15)
    pairs = sum(x.shape[1] * y.shape[1] for x, y, _ in parts)
    check_all_gradients(
        q, k, v, rng, head_num=N1, sparse_mode=mode, scalar_value=0.7, pre_tokens=2, next_tokens=1,
        attn_mask=rng.random((5, 5)) < 0.3 if mode < 2 else None,
        real_shift=rng.random(N1 * (pairs if full else SEQ_KV[-1])), pse_type=int(full),
        keep_prob=0.8, drop_mask=dropout_mask(0.8, N1 * pairs, 4), **lists,
    )  # fmt: skip


def test_the_alibi_form_has_no_gradient():
    rng = np.random.default_rng(16)
    q, k, v = tensors(rng, 5, 5)
    alibi = rng.standard_normal((1, N1, 1024, 5))
    gradients = check_all_gradients(q, k, v, rng, head_num=N1, input_layout="BNSD", sparse_mode=3,
                                    real_shift=alibi, pse_type=0)  # fmt: skip
    assert gradients.dpse is None


def test_a_dropped_pair_does_not_touch_its_row():
    q, k, v = tensors(np.random.default_rng(17), 2, 3, batch=1)
    keep = np.ones((N1, 2, 3), np.uint8)
    keep[:, 0, 1] = 0
    bits = np.packbits(keep.ravel(), bitorder="little")
    v[0, :, 1] = np.nan
    out = flash_attention_score(q, k, v, N1, drop_mask=bits, input_layout="BNSD")[0]
    assert np.isfinite(out[0, :, 0]).all() and np.isnan(out[0, :, 1]).all()
