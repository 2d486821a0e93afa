"""Faults planted in copies of NsaCompressAttentionInfer's kernel."""

from functools import partial

from .. import test_nsa_compress_attention_infer as tests
from ..cache_cases import make_compress_infer
from .judge import random_checks

KEYS = "ascendc/nsa_compress_attention_infer/op_kernel/nsa_compress_attention_infer_keys.h"
RANKING = "ascendc/decoding/decode_row_ranking.h"
SPLITS = "ascendc/decoding/splits.h"
CUBE = "ascendc/decoding/split_cube.h"
VECTOR = "ascendc/decoding/split_vector.h"

# name: (file, what is replaced, by what)
FAULTS = {
    "windows that are complete": (
        KEYS,
        "(tokens - rule_->window_tokens) / rule_->stride + 1",
        "tokens / rule_->stride",
    ),
    "tokens before a window": (
        KEYS,
        "return tokens < rule_->window_tokens ? 0",
        "return tokens < 0 ? 0",
    ),
    "what a query sees": (KEYS, "known_ ? Windows(queries_.seen()) : queries_.seen();", "length_;"),
    "lengths that agree": (KEYS, "fits && length_ == Windows(tokens)", "fits"),
    "lengths below 0": (KEYS, ": length_ >= 0;", ": true;"),
    "pages that there are": (KEYS, "if (!there_) total_ = 0;", ""),
    "pages of a row left out": (
        KEYS,
        "if (!right_ || !there_) return 0;",
        "if (!right_) return 0;",
    ),
    "row whose lengths are wrong": (
        KEYS,
        "if (!right_ || !there_) return 0;",
        "if (!there_) return 0;",
    ),
    "first token of a row": (KEYS, "t_->pages.places > 0 ? 0 : row_ * t_->row_tokens", "0"),
    "own block": (
        KEYS,
        "queries_.seen() == 0 ? 0 : OwnBlock() + 1",
        "queries_.seen() == 0 ? 0 : OwnBlock()",
    ),
    "query that sees no token": (
        KEYS,
        "queries_.seen() == 0 ? 0 : OwnBlock() + 1",
        "OwnBlock() + 1",
    ),
    "block of the last key": (KEYS, "(r.overlap != 0 ? r.overlap_keys - 1 : 0)", "0"),
    "page of a run": (
        KEYS,
        "pages_.At(row_, begin_, first + at)",
        "pages_.At(row_, begin_, first) + at",
    ),
    "page of a row": (
        KEYS,
        "pages_.At(row_, begin_, first + at)",
        "pages_.At(0, begin_, first + at)",
    ),
    "keys of a split": (KEYS, "pages_.At(row_, begin_, first + at)", "pages_.At(row_, begin_, at)"),
    "splits of a query": (
        KEYS,
        "(Seen(query) + t_->split_keys - 1) / t_->split_keys",
        "Seen(query) / t_->split_keys",
    ),
    "decode rows of a core": (
        RANKING,
        "decode_rows * (core + 1) / cores",
        "decode_rows * core / cores + 1",
    ),
    "first decode row of a wave": (
        RANKING,
        "decode_rows_.SeekDecodeRow(first + i);",
        "decode_rows_.SeekDecodeRow(i);",
    ),
    "windows are ranked": (
        RANKING,
        "if (at > 0 && in_window == 0) RankWindow(keys, candidates);",
        "",
    ),
    "keys of a window": (
        RANKING,
        "count = Min(Min(floats, keys - at), t_->Keys() - in_window);",
        "count = Min(floats, keys - at);",
    ),
    "all candidates": (
        RANKING,
        "while (RankWindow(keys, candidates) < candidates) {\n    }",
        "RankWindow(keys, candidates);",
    ),
    "place of a step's keys": (RANKING, "static_cast<int32_t>(in_window) + from)", "from)"),
    "further keys of a step": (
        RANKING,
        "importance_.Add(x[static_cast<uint32_t>(from)],",
        "importance_.Add(x,",
    ),
    "sums of the decode row": (
        RANKING,
        "sums_[decode_rows_.line() * splits_->split_keys + at]",
        "sums_[at]",
    ),
    "sums of the window": (
        RANKING,
        "sums_[decode_rows_.line() * splits_->split_keys + at]",
        "sums_[decode_rows_.line() * splits_->split_keys]",
    ),
    "list of the decode row": (
        RANKING,
        "indices_[decode_rows_.decode_row() * t_->count]",
        "indices_[0]",
    ),
    "first blocks": (RANKING, "-blocks.first, t_->init - blocks.first", "0, t_->init"),
    "local blocks": (RANKING, "own - t_->local + 1, own + 1", "own - t_->local, own + 1"),
    "own block of a window": (
        RANKING,
        "decode_rows_.keys.OwnBlock() - blocks.first;",
        "decode_rows_.keys.OwnBlock();",
    ),
    "heads of the other half": (
        VECTOR,
        "row < t_->group; row += half_rows_)\n",
        "row < half_rows_; row += half_rows_)\n",
    ),
    "sums of a split": (VECTOR, "sums_[split.line * t_->split_keys], sum", "sums_[0], sum"),
    "statistics of each decode row": (
        VECTOR,
        "if (split.decode_row != ranked_decode_row_) DecodeRowStatistics",
        "if (ranked_decode_row_ < 0) DecodeRowStatistics",
    ),
    "what lies behind the keys": (
        VECTOR,
        "    ScaleRows(x, t_->scale, g);\n    FillTail(x, -Infinity(), g);\n",
        "    ScaleRows(x, t_->scale, g);\n",
    ),
    "maximum of the decode row": (
        VECTOR,
        "ForStatistics<1>(",
        "if (false) ForStatistics<1>(",
    ),
    "sums of all splits": (
        VECTOR,
        "StatisticsAt(i, decode_row.Slot(split), 0)",
        "StatisticsAt(i, decode_row.Slot(0), 0)",
    ),
    "statistics of some splits": (
        VECTOR,
        "AscendC::Exp(blocks, blocks, count);",
        "AscendC::Exp(blocks, blocks, t_->group * kBlockFloats);",
    ),
    "scores stay": (CUBE, "t_->ranked != 0 ? split.slot *", "t_->ranked != 0 ? step % kSlots *"),
    "ranked before the next wave": (
        CUBE,
        "t_->ranked != 0 || !waves_.IsLast(wave)",
        "!waves_.IsLast(wave)",
    ),
    "end of a wave": (
        SPLITS,
        "wave->slots + more > t_->wave_splits",
        "wave->slots > t_->wave_splits",
    ),
    "first query of a wave": (
        SPLITS,
        "tile_.Load(keys, *t_, wave.query, end_);",
        "tile_.Load(keys, *t_, 0, end_);",
    ),
    "decode rows without keys": (
        SPLITS,
        "at_ += split->keys > 0 ? 1 : of_decode_row - place;",
        "at_ += of_decode_row - place;",
    ),
    "splits that two queries share": (SPLITS, ": before / split_keys;", ": keys / split_keys;"),
    "splits shared in full": (
        SPLITS,
        "before == keys ? (keys + split_keys - 1) / split_keys : before / split_keys",
        "before / split_keys",
    ),
    "queries of another row": (
        SPLITS,
        "Min(t.shared, Min(end - first, keys.QueriesFrom(first)))",
        "Min(t.shared, end - first)",
    ),
    "queries of a product": (
        SPLITS,
        "Min(t.shared, Min(end - first, keys.QueriesFrom(first)))",
        "Min(kMostShared, Min(end - first, keys.QueriesFrom(first)))",
    ),
    "tile behind the wave": (
        SPLITS,
        "*t_, tile_.query + tile_.count, end_)",
        "*t_, tile_.query + tile_.count, t_->queries)",
    ),
    "the most splits of a tile": (
        SPLITS,
        "      const int64_t more = (taken + 1) * each * t_->heads;",
        "      const int64_t more = (taken + 1) * tile_.splits[0] * t_->heads;",
    ),
    "slot of a query": (SPLITS, "+ split) * tile_.count + place_;", "+ split) * tile_.count;"),
    "slot of a split": (
        SPLITS,
        "* tile_.each + split) * tile_.count",
        "* tile_.each) * tile_.count",
    ),
    "slots of a tile": (SPLITS, "* tile_.each * tile_.count;", "* tile_.each;"),
    "line of a query": (SPLITS, "(place_ * int64_t{t_->heads} + head_)", "head_"),
    "shared splits": (SPLITS, "tile_.shared[end] > split", "tile_.shared[end] >= split"),
    "shared once": (SPLITS, "once_ ? decode_rows.Sharing(which) : 1", "1"),
    "own splits of a decode row": (
        SPLITS,
        "return decode_rows.splits() - First();",
        "return decode_rows.splits();",
    ),
    "queries in a product": (
        CUBE,
        "int64_t{t_->heads} * t_->group * t_->dim, split.decode_rows",
        "int64_t{t_->group} * t_->dim, split.decode_rows",
    ),
    "rows of the scores": (
        CUBE,
        "t_->split_keys, rows, split.keys);\n    HandOver",
        "t_->split_keys, t_->group, split.keys);\n    HandOver",
    ),
    "rows of a vector core": (
        VECTOR,
        "share(core_ % 2, split.decode_rows * t_->group)",
        "share(core_ % 2, t_->group)",
    ),
    "statistics from split to split": (VECTOR, "(decode_row.pitch() - 1) * blocks", "0"),
}

# Faults that change nothing, and why.
HARMLESS = {}

SEEDS = range(0, tests.CONFIGURATIONS, 2)


def checks(dtype):
    """Checks that find the faults."""
    known = {f"wrong {x}": partial(tests.check_left_out, name=x, known=True) for x in tests.WRONG}
    unknown = {
        f"wrong {x} without tokens": partial(tests.check_left_out, name=x, known=False)
        for x in tests.WITHOUT_TOKENS
    }
    return {
        **random_checks(make_compress_infer, SEEDS, dtype),
        **known,
        **unknown,
        "pages": partial(tests.test_pages_change_no_bit, page=48),
        "windows of blocks": tests.test_windows_of_blocks,
        "a large group": tests.test_splits_of_a_large_group,
        "queries before a row": tests.test_queries_before_a_row,
        "NaN": tests.test_a_nan_reaches_what_sees_it,
        **{
            f"{n} heads share": partial(tests.test_queries_that_share_products, n1=n)
            for n in (2, 10, 34)
        },
        "bytes": tests.test_traffic,
        "bytes of several queries": tests.check_shared_traffic,
    }
