"""Shards computed one after another in one process, by the lists of plan.py, equal the whole."""

from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa as nsa
from mindspore_nsa.nn.parallel.collectives import _around_difference
from mindspore_nsa.nn.parallel.plan import ORDERS, Documents, Layout, halo, neighbours, row_limits

C = SimpleNamespace(size=8, stride=4, block=8, count=4, window=10, heads=4, kv_heads=2, dim=8, dv=4)


@pytest.fixture(scope="module", autouse=True)
def pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)


def draw(rng, tokens):
    """Queries, and keys and values of the three branches; float32."""
    shapes = [(tokens, C.heads, C.dim), *[(tokens, C.kv_heads, d) for d in (C.dim, C.dv)] * 3]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def compress(x, weight, ends, rows=None):
    out = nsa.nsa_compress(
        Tensor(x), Tensor(weight), C.size, C.stride, actual_seq_len=ends, num_windows=rows
    )
    return out.asnumpy()


def compressed_attention(q, k, v, queries, keys, offset):
    out, blocks, _, _ = nsa.nsa_compress_attention(
        *map(Tensor, (q, k, v)),
        *(0.3, C.heads, C.size, C.stride, C.block, C.count),
        actual_seq_qlen=queries,
        actual_cmp_seq_kvlen=keys,
        causal=True,
        init_blocks=1,
        local_blocks=1,
        importance="overlap",
        q_offset=offset,
    )
    return out.asnumpy(), blocks.asnumpy()


def selected_attention(q, k, v, blocks, queries, keys, offset):
    out, _, _ = nsa.nsa_selected_attention(
        *map(Tensor, (q, k, v, blocks)),
        *(0.3, C.heads, C.block, C.count),
        actual_seq_qlen=queries,
        actual_seq_kvlen=keys,
        causal=True,
        q_offset=offset,
    )
    return out.asnumpy()


def flash(q, k, v, queries, keys, window):
    out = nsa.flash_attention_score(
        *map(Tensor, (q, k, v)),
        C.heads,
        actual_seq_qlen=queries,
        actual_seq_kvlen=keys,
        scalar_value=0.3,
        pre_tokens=window - 1,
        next_tokens=0,
        input_layout="TND",
        sparse_mode=4,
    )
    return out.asnumpy()


UNBOUNDED = 2**31


def whole(arrays, weight, ends):
    """Compressed keys, outputs of the branches and of dense attention, and the blocks."""
    q, k_cmp, v_cmp, k_slc, v_slc, k_win, v_win = arrays
    rows = nsa.compressed_seq_len(ends, C.size, C.stride)
    k_cmp, v_cmp = (
        compress(x, weight, ends) if rows[-1] else x[:1] * np.nan for x in (k_cmp, v_cmp)
    )
    compressed, blocks = compressed_attention(q, k_cmp, v_cmp, ends, rows, None)
    selected = selected_attention(q, k_slc, v_slc, blocks, ends, ends, None)
    window = flash(q, k_win, v_win, ends, ends, C.window)
    return (
        k_cmp,
        compressed,
        selected,
        window,
        flash(q, k_slc, v_slc, ends, ends, UNBOUNDED),
        blocks,
    )


def gathered(parts, order):
    joined = np.concatenate(parts)
    return joined if order is None else joined[order]


def shards(arrays, weight, ends, layout):
    """The same, from what each worker computes of its own rows."""
    q, k_cmp, v_cmp, k_slc, v_slc, k_win, v_win = arrays
    workers = range(layout.workers)
    lists = [Documents(layout, worker, ends) for worker in workers]
    own = [layout.rows(worker) for worker in workers]
    everything = [gathered([x[rows] for rows in own], layout.text_order) for x in (k_slc, v_slc)]
    for x, y in zip(everything, (k_slc, v_slc)):
        assert np.array_equal(x, y)

    def received(x, worker, **sides):
        """Results of an exchange in which every worker sends to each what it says."""
        found = []
        for w in workers:
            other = neighbours(layout, w, **sides)
            assert other.sent[worker] == neighbours(layout, worker, **sides).received[w]
            first = sum(other.sent[:worker])
            found.append(x[own[w]][other.given[first : first + other.sent[worker]]])
        return np.concatenate(found)

    def extended(x, worker, **sides):
        """Own rows and their neighbours; NaN where a row must not be read."""
        halos = [halo(layout, w, **sides) for w in workers]
        given = [x[own[w]][halos[w].given] for w in workers]
        pool = np.concatenate([x[own[worker]], *given])
        rows = pool[halos[worker].readable]
        mine, came = neighbours(layout, worker, **sides), received(x, worker, **sides)
        assert np.array_equal(mine.taken < 0, halos[worker].taken < 0)
        direct = np.concatenate([x[own[worker]], came])[mine.readable]
        assert np.array_equal(direct[mine.taken >= 0], rows[mine.taken >= 0])
        return np.where((halos[worker].taken < 0)[:, None, None], np.nan, rows).astype(x.dtype)

    most = lists[0].most_windows(C.size, C.stride)
    own_rows, all_rows = row_limits(layout, C.size, C.stride)
    assert most <= own_rows and lists[0].compressed_ends(C.size, C.stride)[-1] <= all_rows
    parts = {"k": [], "v": []}
    for worker in workers:
        compressed = lists[worker].compressed(C.size, C.stride)
        for name, x in (("k", k_cmp), ("v", v_cmp)):
            # Rows beyond the text are in no window: zeros, because 0 times NaN would be NaN.
            rows = np.nan_to_num(extended(x, worker, after=C.size - 1))
            parts[name].append(compress(rows, weight, tuple(compressed.list), most))
        starts = np.repeat(lists[worker].starts, np.diff(lists[worker].ends, prepend=0))
        assert np.array_equal(compressed.starts - starts[compressed.starts], compressed.positions)
    order = lists[0].compressed_order(C.size, C.stride, most)
    k_cmp, v_cmp = (
        gathered(parts[n], order) if len(order) else parts[n][0][:1] for n in ("k", "v")
    )
    cmp_ends = tuple(lists[0].compressed_ends(C.size, C.stride))

    outputs = [np.full((layout.tokens, C.heads, C.dv), np.nan, np.float32) for _ in range(4)]
    blocks = np.full((layout.tokens, C.kv_heads, C.count), -2)
    for worker in workers:
        per_pass = np.split(own[worker], layout.passes)
        for rows, at in zip(per_pass, lists[worker].passes, strict=True):
            queries, offset = tuple(at.queries), tuple(at.offsets)
            outputs[0][rows], blocks[rows] = compressed_attention(
                q[rows], k_cmp, v_cmp, queries, cmp_ends, offset
            )
            outputs[1][rows] = selected_attention(
                q[rows], k_slc, v_slc, blocks[rows].astype(np.int32), queries, ends, offset
            )
            dense = tuple(at.dense_queries), tuple(at.dense_keys)
            outputs[3][rows] = flash(q[rows], k_slc, v_slc, *dense, UNBOUNDED)
        queries, keys = lists[worker].window(C.window)
        k, v = (extended(x, worker, before=C.window - 1) for x in (k_win, v_win))
        outputs[2][own[worker]] = flash(q[own[worker]], k, v, tuple(queries), tuple(keys), C.window)
    return k_cmp, *outputs, blocks


def agree(arrays, weight, ends, layout):
    one = whole(arrays, weight, ends)
    parts = shards(arrays, weight, ends, layout)
    for kind, a, b in zip(
        "compressed rows,compressed,selected,window,dense".split(","), one, parts
    ):
        if kind == "compressed rows" and nsa.compressed_seq_len(ends, C.size, C.stride)[-1] == 0:
            continue
        assert a.shape == b.shape, kind
        assert np.abs(a - b).max() <= 1e-6, kind
        if kind in ("compressed rows", "compressed"):
            assert np.array_equal(a, b), kind
    assert np.array_equal(one[-1], parts[-1])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("workers", range(1, 9))
def test_random_documents(workers, order):
    rng = np.random.default_rng((workers, len(order)))
    passes = 2 if order == "head_tail" else 1
    for chunk in (1, 5, 12, 33):
        layout = Layout(chunk * passes * workers, workers, order)
        cuts = rng.integers(0, layout.length + 1, int(rng.integers(0, 12)))
        ends = (*sorted(cuts.tolist()), layout.length)
        agree(draw(rng, layout.tokens), rng.random((C.size, C.kv_heads), np.float32), ends, layout)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "ends",
    [
        (96,),
        (0, 0, 24, 24, 48, 96, 96),  # empty ones, and ends at borders
        (7, 14, 21, 28, 35, 42, 49, 56, 63, 96),  # shorter than a window of the compression
        (*range(1, 90), 96),  # of one token
        (23, 25, 47, 49, 71, 73, 96),
        (20, 32, 44, 56, 96),  # borders inside a window
        (*range(7, 96, 7), 96),  # no window at all
    ],
    ids=lambda ends: f"{len(ends)} documents",
)
def test_borders(ends, order):
    rng = np.random.default_rng(1)
    arrays, weight = draw(rng, 96), rng.random((C.size, C.kv_heads), np.float32)
    for workers in (2, 4):
        agree(arrays, weight, ends, Layout(96, workers, order))


@pytest.mark.parametrize("order", ORDERS)
def test_batch(order):
    """Every document is cut, whatever its neighbours in the batch."""
    rng = np.random.default_rng(2)
    for workers, length, batch in ((2, 40, 3), (4, 24, 2), (3, 6, 5), (1, 20, 2)):
        layout = Layout(length, workers, order, batch)
        ends = tuple(range(length, layout.tokens + 1, length))
        weight = rng.random((C.size, C.kv_heads), np.float32)
        agree(draw(rng, layout.tokens), weight, ends, layout)


@pytest.mark.parametrize("order", ORDERS)
def test_every_row_has_one_worker(order):
    layout = Layout(48, 4, order, 2)
    rows = np.concatenate([layout.rows(worker) for worker in range(4)])
    assert np.array_equal(np.sort(rows), np.arange(96))
    assert np.array_equal(rows[layout.places(np.arange(96))], np.arange(96))
    assert layout.own == 24 and layout.chunk == (12 if order == "contiguous" else 6)


def test_order_of_chunks():
    assert Layout(8, 4, "contiguous").rows(1).tolist() == [2, 3]
    assert Layout(8, 2, "head_tail").rows(0).tolist() == [0, 1, 6, 7]
    assert Layout(8, 2, "head_tail").rows(1).tolist() == [2, 3, 4, 5]
    assert Layout(4, 2, "contiguous", 2).rows(1).tolist() == [2, 3, 6, 7]


def test_halo_sends_borders_only():
    """min(m, w - 1) rows of every chunk; those of a row's own document are taken."""
    near = halo(Layout(64, 4, "contiguous"), 1, before=3)
    assert near.given.tolist() == [13, 14, 15]
    assert near.taken.tolist() == [16, 17, 18, *range(16)]
    first = halo(Layout(64, 4, "contiguous"), 0, before=3)
    assert first.taken.tolist() == [-1, -1, -1, *range(16)]
    assert (first.readable[:3] >= 0).all()
    after = halo(Layout(64, 4, "contiguous"), 1, after=3)
    assert after.given.tolist() == [0, 1, 2]
    assert after.taken.tolist() == [*range(16), 22, 23, 24]
    direct = neighbours(Layout(64, 4, "contiguous"), 1, before=3)
    assert direct.given.tolist() == [13, 14, 15]
    assert (direct.sent, direct.received) == ((0, 0, 3, 0), (3, 0, 0, 0))
    assert direct.taken.tolist() == near.taken.tolist()
    # Nothing comes before the first one, and no exchange is empty.
    direct = neighbours(Layout(64, 4, "contiguous"), 0, before=3)
    assert (direct.sent, direct.received) == ((1, 3, 0, 0), (1, 0, 0, 0))
    # The middle worker's chunks lie side by side.
    direct = neighbours(Layout(64, 4, "head_tail"), 3, before=3)
    assert (direct.sent, direct.received) == ((0, 0, 3, 0), (0, 0, 3, 0))
    assert direct.taken.tolist() == [16, 17, 18, *range(8), 5, 6, 7, *range(8, 16)]
    far = halo(Layout(16, 4, "contiguous"), 3, before=9)
    assert far.given.tolist() == [0, 1, 2, 3]
    assert far.taken.tolist() == [*range(4 + 3, 4 + 12), *range(4)]


def test_groups_are_values():
    """A layer keeps its group: nobody changes it behind its back, and equal ones are one key."""
    group, other = (nsa.nn.WorkerGroup("two", (0, 1), 0, False) for _ in range(2))
    assert group == other and len({group, other}) == 1
    with pytest.raises(FrozenInstanceError):
        group.rank = 1


@pytest.mark.parametrize(
    "lengths", [(1000, 1000), (1001, 1001), (1001, 900), (900, 1001), (5, 1001)]
)
def test_texts_that_differ(lengths):
    """Both are whole while neither is long; else both are what is around the place."""
    first, second = ("".join(chr(97 + i * 7 % 26) for i in range(n)) for n in lengths)
    whole = max(lengths) <= 1000
    for place in (0, 39, 40, 41, min(lengths) - 1):
        if place >= min(lengths):
            continue
        other = second[:place] + "#" + second[place + 1 :]
        found = _around_difference(first, other)
        if whole:
            assert found == (first, other)
        else:
            begin = max(0, place - 40)
            assert list(found) == [f"...{text[begin : begin + 120]}..." for text in (first, other)]
    assert _around_difference("a" * 1001, "a" * 1004)[1] == f"...{'a' * 43}..."
