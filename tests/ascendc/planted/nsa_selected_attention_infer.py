"""Faults planted in copies of NsaSelectedAttentionInfer's kernel."""

from functools import partial

from .. import test_nsa_selected_attention_infer as tests
from ..cache_cases import make_selected_infer
from .judge import random_checks

KEYS = "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_keys.h"
SPLITS = "ascendc/decoding/splits.h"
CUBE = "ascendc/decoding/split_cube.h"
VECTOR = "ascendc/decoding/split_vector.h"
QUERIES = "ascendc/decoding/row_queries.h"
TOKENS = "ascendc/decoding/row_tokens.h"

# name: (file, what is replaced, by what)
FAULTS = {
    "causal": (QUERIES, "length - (end_ - query) + 1", "length"),
    "rows of no queries": (QUERIES, "while (query >= end_ &&", "if (query >= end_ &&"),
    "sorted": (KEYS, "blocks_[at - 1] > block; --at", "false; --at"),
    "blocks of the row": (KEYS, "block < 0 || block * block_size_", "block * block_size_"),
    "pages that there are": (KEYS, "if (!tokens_.Has(", "if (false && !tokens_.Has("),
    "first key of a split": (KEYS, "Max(0, first - before)", "0"),
    "place of a split": (SPLITS, "split->slot = decode_rows.Slot(which);", "split->slot = 0;"),
    "slot of the scores": (CUBE, "step % kSlots * slot_elements_;", "0;"),
    "head of the keys": (CUBE, "head * strides.head", "0"),
    "panel of the output": (CUBE, "output_elements_ + v.column]", "output_elements_]"),
    "cores wait": (
        CUBE,
        "      if (t_->ranked != 0 || !waves_.IsLast(wave)) AscendC::SyncAll<false>();\n",
        "",
    ),
    "half of the heads": (
        VECTOR,
        "slot_elements_ + int64_t{share.begin} * t_->split_keys;",
        "slot_elements_;",
    ),
    "both hand over": (
        VECTOR,
        "    HandOver<Handover::kProbabilities>(step);",
        "    if (share.rows > 0) HandOver<Handover::kProbabilities>(step);",
    ),
    "maximum of the splits": (
        VECTOR,
        "AscendC::Max(now, max, statistics, count);",
        "AscendC::Adds(now, max, 0.0f, count);",
    ),
    "splits in turn": (
        VECTOR,
        "outputs_[(slot * t_->group",
        "outputs_[(decode_row.Slot(0) * t_->group",
    ),
    "end of a block": (
        KEYS,
        "Min(queries_.seen(), (block + 1) * block_size_)",
        "(block + 1) * block_size_",
    ),
    "blocks behind": (KEYS, "block < 0 || block * block_size_ >= queries_.seen()", "block < 0"),
    "list of the decode row": (KEYS, "decode_row * block_count_ + i", "i"),
    "first token of a row": (KEYS, "queries_.row() * t_->row_tokens", "0"),
    "last key of a split": (KEYS, "end = Min(length, first + keys - before);", "end = length;"),
    "place in a split": (KEYS, "before + at - first", "before + at"),
    "page of a run": (KEYS, "begin_, start + at), static", "begin_, start) + at, static"),
    "runs of a page": (KEYS, "tokens_.Run(start + at, end - at)", "end - at"),
    "page of a row": (TOKENS, "row * t_.places + place) * t_", "place) * t_"),
    "rest of a page": (TOKENS, "t_.page - token % t_.page", "t_.page"),
    "pages behind the last": (TOKENS, "page < 0 || page >= t_.pages", "page < 0"),
    "pages before the first": (TOKENS, "page < 0 || page >= t_.pages", "page >= t_.pages"),
    "tokens of the cache": (
        QUERIES,
        "Min(lengths_.GetValue(row_), capacity_)",
        "lengths_.GetValue(row_)",
    ),
    "keys of the last split": (
        SPLITS,
        "Min(t_->split_keys, decode_rows.keys.total() - split->first)",
        "t_->split_keys",
    ),
    "first key of a decode row's split": (
        SPLITS,
        "split->first = which * t_->split_keys;",
        "split->first = 0;",
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
    "queries of the decode row": (
        CUBE,
        "query_[split.decode_row * t_->group * t_->dim]",
        "query_[0]",
    ),
    "slot of the probabilities": (
        CUBE,
        "probabilities_[step % kSlots * slot_elements_]",
        "probabilities_[0]",
    ),
    "sums of the other half": (
        VECTOR,
        "StatisticsAt(which, split.slot, share.begin)",
        "StatisticsAt(0, split.slot, share.begin + which * share.rows)",
    ),
    "statistics of a split": (VECTOR, "which, split.slot, share.begin)", "which, 0, share.begin)"),
    "rows that are added up": (VECTOR, "static_cast<int32_t>(i % chunks) * merged_rows_", "0"),
    "sum of a split": (
        VECTOR,
        "AscendC::MulAddDst(total, statistics[blocks], now, count);",
        "AscendC::Add(total, total, statistics[blocks], count);",
    ),
    "rows of the output": (
        VECTOR,
        "out_[(decode_row.decode_row() * t_->group + row) * t_->value_dim]",
        "out_[decode_row.decode_row() * t_->group * t_->value_dim]",
    ),
    "rows without keys": (
        VECTOR,
        "    MarkEmptyRows(total, old.template ReinterpretCast<uint8_t>(), merged_rows_);\n",
        "",
    ),
}

# Faults that change nothing, and why.
HARMLESS = {}

SEEDS = range(0, tests.CONFIGURATIONS, 2)


def checks(dtype):
    """Checks that find the faults."""
    pages = {f"pages of {n}": partial(tests.test_pages_change_no_bit, page=n) for n in (16, 48, 7)}
    wrong = {
        f"wrong {x}": partial(tests.test_nothing_is_read_out_of_bounds, name=x) for x in tests.WRONG
    }
    return {
        **random_checks(make_selected_infer, SEEDS, dtype),
        **pages,
        **wrong,
        "a length behind the cache": tests.test_a_length_behind_the_cache,
        "NaN": tests.test_a_nan_reaches_what_sees_it,
        "bytes": tests.test_traffic,
    }
