"""Random cases of the operators that read a cache."""

import numpy as np

from mindspore_nsa.reference.rows import windows
from mindspore_nsa.testing.case import Case
from mindspore_nsa.testing.dtypes import encode

from .draw import DIMS, GROUPS


def _empty(*shape):
    """A cache that holds nothing yet: reading any of it shows."""
    return np.full(shape, np.nan, np.float32)


def _paged(draw, rows, capacity, page):
    """(cache, table) with the rows [B] of tokens [n, N2, D] in shuffled pages, NaN elsewhere."""
    heads, dim = rows[0].shape[1:]
    places = -(-capacity // page)
    used = [-(-len(row) // page) for row in rows]
    pages = sum(used) + draw.between(0, 2)
    cache = _empty(max(pages, 1), page, heads, dim)
    # Places past a row's tokens hold anything.
    table = draw.rng.integers(-(2**31), 2**31 - 1, (len(rows), max(places, 1))).astype(np.int32)
    free = draw.rng.permutation(len(cache))
    for b, row in enumerate(rows):
        for i in range(used[b]):
            table[b, i], free = free[0], free[1:]
            part = row[i * page : (i + 1) * page]
            cache[table[b, i], : len(part)] = part
    return cache, table


def _contiguous(rows, capacity):
    heads, dim = rows[0].shape[1:]
    cache = _empty(len(rows), max(capacity, 1), heads, dim)
    for b, row in enumerate(rows):
        cache[b, : len(row)] = row
    return cache


def _ring(rows, size):
    heads, dim = rows[0].shape[1:]
    cache = _empty(len(rows), size, heads, dim)
    for b, row in enumerate(rows):
        t = np.arange(max(0, len(row) - size), len(row))
        cache[b, t % size] = row[t]
    return cache


def _tokens(draw, lengths, heads, dim):
    return [draw.floats(n, heads, dim) for n in lengths]


class _Batch:
    """Rows of different lengths, their newest tokens being queries."""

    def __init__(self, draw, longest, most_queries=4, dims=DIMS, groups=GROUPS, lengths=None):
        self.draw = draw
        group = draw.pick(groups)
        self.kv_heads = draw.between(1, 3 if group < 8 else 2)
        self.heads = group * self.kv_heads
        self.dim = draw.pick(dims)
        self.value_dim = self.dim if draw.chance(0.5) else draw.pick(dims)
        self.layout = draw.pick(("TND", "BSND"))
        rows = draw.between(1, 3)
        self.counts = [draw.between(1, most_queries)] * rows
        self.given = self.layout == "TND" and draw.chance(0.6)
        if self.given:
            self.counts = [draw.between(0, most_queries) for _ in range(rows)]
            self.counts[-1] = max(1, self.counts[-1])
        self.lengths = [n + draw.between(0, longest) for n in self.counts]
        if lengths:  # with one query each
            self.given, self.counts, self.lengths = False, [1] * len(lengths), list(lengths)
        self.paged = draw.chance(0.6)
        self.page = draw.pick((1, 3, 16, 64, 128))

    def query(self):
        shape = (sum(self.counts),)
        if self.layout == "BSND":
            shape = (len(self.counts), self.counts[0])
        return self.draw.query(*shape, self.heads, self.dim)

    def packed(self, x):
        """An array over all queries in the layout of the query."""
        if self.layout == "TND":
            return x
        return x.reshape(len(self.counts), self.counts[0], *x.shape[1:])

    def q_lengths(self):
        return self.draw.int_list(self.counts) if self.given else None

    def caches(self, lengths):
        """Keys, values and table of rows of these lengths."""
        draw = self.draw
        capacity = max(lengths) + draw.between(0, 5)
        keys = _tokens(draw, lengths, self.kv_heads, self.dim)
        values = _tokens(draw, lengths, self.kv_heads, self.value_dim)
        if not self.paged:
            key, value = (_contiguous(rows, capacity) for rows in (keys, values))
            return key, value, None
        state = draw.rng.bit_generator.state
        key, table = _paged(draw, keys, capacity, self.page)
        draw.rng.bit_generator.state = state  # the same pages
        value, _ = _paged(draw, values, capacity, self.page)
        return key, value, table

    def encode(self, cache, flat=False):
        if flat:
            cache = cache.reshape(*cache.shape[:2], -1)
        return encode(cache, self.draw.dtype)

    def attrs(self):
        return {"scale_value": self.draw.scale(self.dim), "head_num": self.heads}


def _selection(draw):
    s = draw.pick((1, 2, 4, 16, 16))
    n = draw.between(1, 3)
    m = n + draw.between(0, 3)
    count = draw.pick((1, 2, 5, 16))
    return {
        "compress_block_size": n * s,
        "compress_stride": s,
        "select_block_size": m * s,
        "select_block_count": count,
    }


def _forced(draw, count):
    init = draw.between(0, min(2, count))
    return {"init_blocks": init, "local_blocks": draw.between(0, min(3, count - init))}


def nsa_compress_with_cache(draw, dims=DIMS, most_heads=5):
    s = draw.pick((1, 2, 5, 16))
    l = s * draw.between(1, 3) + (draw.between(0, s - 1) if draw.chance(0.3) else 0)  # noqa: E741
    rows, heads, dim = draw.between(1, 5), draw.between(1, most_heads), draw.pick(dims)
    pool = (0, l - 1, l, l + 1, l + s, l + 3 * s, 97)
    lengths = [draw.pick(pool) for _ in range(rows)]
    tokens = _tokens(draw, lengths, heads, dim)
    page, table = draw.pick((1, 7, 16, 128)), None
    if draw.chance(0.5):
        cache, table = _paged(draw, tokens, max(lengths) + draw.between(0, 5), page)
    else:
        cache = np.concatenate([*tokens, _empty(draw.between(1, 3), heads, dim)])
    slots = rows + draw.between(0, 3)
    mapping = draw.rng.permutation(slots)[:rows]
    for b, n in enumerate(lengths):  # the slot of a row that fills no window is not read
        if (n < l or (n - l) % s) and draw.chance(0.5):
            mapping[b] = draw.pick((-1, slots, 2**31 - 1))
    inputs = {
        "input": encode(cache, draw.dtype),
        "weight": draw.tensor(l, heads),
        "slot_mapping": draw.int_list(mapping),
        "block_table": table,
        "actual_seq_len": draw.int_list(lengths),
        "cache": draw.tensor(slots, heads, dim),
    }
    attrs = {"compress_block_size": l, "compress_stride": s, "page_block_size": page}
    return Case.of("NsaCompressWithCache", inputs, attrs, draw.dtype)


def nsa_compress_attention_infer(draw, longest=(5, 100, 400), rule=None, **sizes):
    rule = rule or _selection(draw)
    l, s = rule["compress_block_size"], rule["compress_stride"]  # noqa: E741
    causal = draw.chance(0.6)
    batch = _Batch(draw, draw.pick(longest) * s, most_queries=4 if causal else 1, **sizes)
    compressed = [windows(n, l, s) for n in batch.lengths]
    if not causal:
        compressed = [draw.between(0, c + 2) for c in compressed]
    key, value, table = batch.caches(compressed)
    flat = draw.chance(0.5)
    inputs = {
        "query": batch.query(),
        "key": batch.encode(key, flat),
        "value": batch.encode(value, flat),
        "block_table": table,
        "actual_seq_qlen": batch.q_lengths(),
        "actual_cmp_seq_kvlen": draw.int_list(compressed),
        "actual_sel_seq_kvlen": draw.int_list(batch.lengths) if causal else None,
    }
    attrs = {
        **batch.attrs(),
        "key_value_head_num": batch.kv_heads,
        **rule,
        "page_block_size": key.shape[1],
        "layout": batch.layout,
        "importance": draw.pick(("cann", "overlap")),
        **(_forced(draw, rule["select_block_count"]) if causal else {}),
    }
    return Case.of("NsaCompressAttentionInfer", inputs, attrs, draw.dtype)


def nsa_selected_attention_infer(draw, every=None, **sizes):
    """Random blocks; `every`: all blocks of that size."""
    select, count = draw.pick((1, 3, 16, 64, 64, 100, 300)), draw.pick((1, 2, 4, 16))
    if every:
        select, count = every, -(-max(sizes["lengths"]) // every)
    batch = _Batch(draw, draw.pick((3, 200, 800)), **sizes)
    key, value, table = batch.caches(batch.lengths)
    chosen = []
    for queries, length in zip(batch.counts, batch.lengths, strict=True):
        blocks = -(-length // select)
        shape = (queries, batch.kv_heads, count)
        some = draw.rng.integers(0, max(blocks, 1), shape)
        strange = np.array([-1, -1, -7, blocks, 2**31 - 1, -(2**31)])
        where = draw.rng.random(shape) < draw.pick((0, 0.3, 1 if draw.chance(0.1) else 0))
        some = np.where(where, strange[draw.rng.integers(0, len(strange), shape)], some)
        if every:
            some = draw.rng.permuted(np.broadcast_to(np.arange(count), shape), axis=-1)
        chosen.append(some.astype(np.int32))
    chosen = batch.packed(np.concatenate(chosen))
    if batch.layout == "BSND" and chosen.shape[1] == 1 and draw.chance(0.5):
        chosen = chosen[:, 0]
    flat = draw.chance(0.5)
    inputs = {
        "query": batch.query(),
        "key": batch.encode(key, flat),
        "value": batch.encode(value, flat),
        "topk_indices": chosen,
        "block_table": table,
        "actual_seq_qlen": batch.q_lengths(),
        "actual_seq_kvlen": draw.int_list(batch.lengths),
    }
    attrs = {
        **batch.attrs(),
        "key_value_head_num": batch.kv_heads,
        "select_block_size": select,
        "select_block_count": count,
        "page_block_size": key.shape[1],
        "layout": batch.layout,
    }
    return Case.of("NsaSelectedAttentionInfer", inputs, attrs, draw.dtype)


def nsa_decode(draw, rule=None, window=None, **sizes):
    rule = dict(rule) if rule else _selection(draw)
    l, s = rule["compress_block_size"], rule["compress_stride"]  # noqa: E741
    batch = _Batch(draw, draw.pick((5, 40, 150)) * draw.between(1, 3), **sizes)
    # All blocks are chosen, so that the output does not hang on scores that tie within rounding.
    longest = max(batch.lengths)
    rule["select_block_count"] = -(-longest // rule["select_block_size"]) + draw.between(0, 3)
    window = window or draw.pick((1, 2, 7, 64, 512))
    reach = max(min(n, window + c - 1) for n, c in zip(batch.lengths, batch.counts, strict=True))
    ring = max(1, reach) + draw.between(0, 9)
    cmp_key, cmp_value, cmp_table = batch.caches([windows(n, l, s) for n in batch.lengths])
    key, value, table = batch.caches(batch.lengths)
    win_key, win_value = (
        _ring(_tokens(draw, batch.lengths, batch.kv_heads, d), ring)
        for d in (batch.dim, batch.value_dim)
    )
    cache_layout = draw.pick(("BSND", "BNSD"))
    caches = {
        **{"key_cmp": cmp_key, "value_cmp": cmp_value, "key_slc": key, "value_slc": value},
        **{"key_win": win_key, "value_win": win_value},
    }
    if cache_layout == "BNSD":
        caches = {name: np.ascontiguousarray(x.swapaxes(1, 2)) for name, x in caches.items()}
    gates = batch.packed(draw.rng.random((sum(batch.counts), 3, batch.heads), np.float32))
    inputs = {
        "query": batch.query(),
        "gates": gates,
        **{name: batch.encode(x) for name, x in caches.items()},
        "block_table": table,
        "cmp_block_table": cmp_table,
        "actual_seq_qlen": batch.q_lengths(),
        "actual_seq_kvlen": draw.int_list(batch.lengths),
    }
    attrs = {
        **batch.attrs(),
        **rule,
        "window_size": window,
        "layout": batch.layout,
        "cache_layout": cache_layout,
        "importance": draw.pick(("cann", "overlap")),
        **_forced(draw, rule["select_block_count"]),
    }
    return Case.of("NsaDecode", inputs, attrs, draw.dtype)


__all__ = [
    "nsa_compress_attention_infer",
    "nsa_compress_with_cache",
    "nsa_decode",
    "nsa_selected_attention_infer",
]
