"""Faults planted in copies of NsaDecode's kernel."""

from functools import partial

from .. import test_nsa_decode as tests
from ..cache_cases import make_decode
from .judge import random_checks

KERNEL = "ascendc/nsa_decode/op_kernel/nsa_decode.cpp"
WINDOW = "ascendc/nsa_decode/op_kernel/nsa_decode_window.h"
SIZES = "ascendc/nsa_decode/op_kernel/nsa_decode_tiling.h"
MIX = "ascendc/decoding/branch_mix.h"
KEYS = "ascendc/nsa_compress_attention_infer/op_kernel/nsa_compress_attention_infer_keys.h"
TOKENS = "ascendc/decoding/row_tokens.h"
QUERIES = "ascendc/decoding/row_queries.h"

# name: (file, what is replaced, by what)
FAULTS = {
    "output of the selection": (KERNEL, "outputs + w_.branch,", "outputs,"),
    "output of the window": (KERNEL, "outputs + 2 * w_.branch", "outputs + w_.branch"),
    "table of the selection": (KERNEL, "blocks, g_.block_table", "blocks, g_.cmp_block_table"),
    "room of the blocks": (SIZES, "return BlocksBegin() + blocks;", "return BlocksBegin();"),
    "room of the outputs": (SIZES, "return kBranches * branch;", "return branch;"),
    "window": (WINDOW, "Min(queries_.seen(), window_)", "queries_.seen()"),
    "first token of the window": (
        WINDOW,
        "queries_.seen() - total_ + first",
        "queries_.seen() + first",
    ),
    "keys of a split": (WINDOW, "queries_.seen() - total_ + first", "queries_.seen() - total_"),
    "end of the ring": (WINDOW, "Min(keys - at, ring_ - place)", "keys - at"),
    "ring of the row": (WINDOW, "queries_.row() * t_->row_tokens", "0"),
    "lengths that a row holds": (WINDOW, "length <= most_ && ", ""),
    "tokens that the ring has lost": (WINDOW, " && length - queries_.seen() + seen <= ring_", ""),
    "gate of the branch": (
        MIX,
        "query * kBranches + branch) * s_.heads",
        "query * kBranches) * s_.heads",
    ),
    "gate of the query": (MIX, "query * kBranches + branch) * s_.heads", "branch) * s_.heads"),
    "gates of the heads": (MIX, "+ branch) * s_.heads + head]", "+ branch) * s_.heads]"),
    "heads of the branch": (
        MIX,
        "(query * s_.heads + head) * s_.dim],\n",
        "query * s_.heads * s_.dim],\n",
    ),
    "branch": (MIX, "branches_[branch * branch_ +", "branches_["),
    "length in compressed tokens": (KEYS, ": Windows(tokens);", ": tokens;"),
    "tokens that a row holds": (KEYS, "tokens >= 0 && tokens <= rule_->most_tokens", "tokens >= 0"),
    "page of heads": (TOKENS, "* t_.stride + token", "* t_.page + token"),
    "keys of the selection": (
        KERNEL,
        "g_.key_slc, g_.value_slc, blocks",
        "g_.value_slc, g_.value_slc, blocks",
    ),
    "values of the window": (KERNEL, "g_.key_win, g_.value_win", "g_.key_win, g_.key_win"),
    "table of the compressed tokens": (
        KERNEL,
        "g_.value_cmp, g_.cmp_block_table",
        "g_.value_cmp, g_.block_table",
    ),
    "room of the splits": (
        KERNEL,
        "g_.workspace + w_.SplitsBegin()",
        "g_.workspace + w_.BlocksBegin()",
    ),
    "elements of a branch": (KERNEL, "w_.branch / static_cast<int64_t>(sizeof(T))", "w_.branch"),
    "value dimension": (SIZES, "t.window.value_dim * 2", "t.window.value_dim"),
    "bytes of the blocks": (SIZES, "t.selected.block_count * 4", "t.selected.block_count"),
    "place in the ring": (WINDOW, "total_ + first) % ring_;", "total_ + first + 1) % ring_;"),
    "row that is left out": (WINDOW, "return there ? seen : 0;", "return seen;"),
    "splits of a query": (
        WINDOW,
        "(Seen(query) + t_->split_keys - 1) / t_->split_keys",
        "Seen(query) / t_->split_keys",
    ),
    "first head of a tile": (MIX, "static_cast<int32_t>(at % tiles) * kMixedRows", "0"),
    "heads of the last tile": (MIX, "Min(kMixedRows, s_.heads - head)", "kMixedRows"),
    "heads of the output": (
        MIX,
        "out_[(query * s_.heads + head) * s_.dim]",
        "out_[query * s_.heads * s_.dim]",
    ),
    "sum of the branches": (MIX, "branch == 0 ? sum : x", "x"),
    "page of a row": (TOKENS, "row * t_.places + place) * t_", "place) * t_"),
    "rest of a page": (TOKENS, "t_.page - token % t_.page", "t_.page"),
    "pages that there are": (TOKENS, "page < 0 || page >= t_.pages", "page < 0"),
    "causal": (QUERIES, "length - (end_ - query) + 1", "length"),
    "rows of no queries": (QUERIES, "while (query >= end_ &&", "if (query >= end_ &&"),
    "queries of no row": (QUERIES, "query >= end_ ? 0 : ", ""),
    "negative numbers of queries": (
        QUERIES,
        "Max(0, counts_.GetValue(row))",
        "counts_.GetValue(row)",
    ),
}

# Faults that change nothing, and why.
HARMLESS = {}

SEEDS = range(0, tests.CONFIGURATIONS, 2)


def checks(dtype):
    """Checks that find the faults."""
    return {
        **random_checks(make_decode, SEEDS, dtype),
        **{f"pages of {n}": partial(tests.test_pages_change_no_bit, page=n) for n in (16, 48)},
        **{f"wrong {x}": partial(tests.check_wrong, name=x) for x in tests.WRONG},
        "NaN": tests.test_a_nan_reaches_what_sees_it,
        "lost tokens": tests.check_lost,
        "bytes": tests.test_traffic,
    }
