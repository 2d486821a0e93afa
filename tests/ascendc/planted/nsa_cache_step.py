"""Faults planted in copies of NsaCacheStep's kernel."""

from functools import partial

from .. import test_nsa_cache_step as tests
from ..attention_checks import calls_of
from ..cache_step_cases import check_steps, make_cache_step

FOLDER = "ascendc/nsa_cache_step/op_kernel/nsa_cache_step"
KERNEL, ROWS, WRITE = FOLDER + ".cpp", FOLDER + "_rows.h", FOLDER + "_write.h"
COMPRESS, FINISH, ROPE = FOLDER + "_compress.h", FOLDER + "_finish.h", FOLDER + "_rope.h"
KEYS, SIZES = FOLDER + "_keys.h", FOLDER + "_tiling.h"
CUBE, RANKING = "ascendc/decoding/split_cube.h", "ascendc/decoding/decode_row_ranking.h"
MIX = "ascendc/decoding/branch_mix.h"

# name: (file, what is replaced, by what)
FAULTS = {
    # The stages and what they hand to each other.
    "cores wait between stages": (KERNEL, "    if (wait) AscendC::SyncAll<false>();\n", ""),
    "lengths before the rings": (
        KERNEL,
        "      OnVectors<StepRing<T>>();\n    }\n",
        "      OnVectors<StepState>();\n      OnVectors<StepRing<T>>();\n    }\n",
    ),
    "output of the selection": (KERNEL, "compressed_out + w_.output", "compressed_out"),
    "output of the last tokens": (
        KERNEL,
        "t_.selected_places, window_out)",
        "t_.selected_places, selected_out)",
    ),
    "output of the ring": (
        KERNEL,
        "t_.window_places, window_out)",
        "t_.window_places, selected_out)",
    ),
    "new keys of the window": (
        KERNEL,
        "g_.step_workspace + w_.window_keys",
        "g_.step_workspace + w_.raw_keys",
    ),
    "new values of the window": (
        KERNEL,
        "g_.step_workspace + w_.window_values",
        "g_.step_workspace + w_.raw_values",
    ),
    "keys of a branch": (KERNEL, "cache + places.keys_begin *", "cache + 0 *"),
    "values of a branch": (KERNEL, "cache + places.values_begin *", "cache + places.keys_begin *"),
    "room of the outputs": (
        SIZES,
        "AlignedAfter(outputs, 3 * output)",
        "AlignedAfter(outputs, 2 * output)",
    ),
    "room of the indices": (
        SIZES,
        "splits(AlignedAfter(indices, NewTokenRows(t, t.sparse != 0) * t.ranking.count * 4))",
        "splits(indices)",
    ),
    "room of the new keys": (
        SIZES,
        "raw_values(AlignedAfter(raw_keys, NewTokenRows(t, t.sparse != 0) * t.selected.dim * 2))",
        "raw_values(raw_keys)",
    ),
    # Which row a token is of.
    "rows without tokens": (ROWS, "while (token >= end_ &&", "if (token >= end_ &&"),
    "lists that fall": (ROWS, "Max(begin_, ends_.GetValue(row_))", "ends_.GetValue(row_)"),
    "lists behind the tokens": (
        ROWS,
        "Min(splits().queries, Max(begin_, ends_.GetValue(row_)))",
        "Max(begin_, ends_.GetValue(row_))",
    ),
    "rows of the same number": (ROWS, ": begin_ + splits().per_row", ": splits().per_row"),
    "length below 0": (ROWS, "length >= 0 && length <=", "length <="),
    "room for the new tokens": (ROWS, "splits().capacity - count()", "splits().capacity"),
    "tokens of no row": (ROWS, "token_ < end_ && Fits(length_)", "Fits(length_)"),
    "position in the row": (ROWS, "length_ + token_ - begin_", "length_ + token_"),
    "own token": (ROWS, "written() ? position() + 1 : 0", "written() ? position() : 0"),
    "windows that are complete": (
        ROWS,
        "(tokens - t_->block_size) / t_->stride + 1",
        "(tokens - t_->block_size) / t_->stride",
    ),
    "state of the row": (WRITE, "states_[row * t_->state_size +", "states_[t_->state_size +"),
    "length in the state": (ROWS, "g.state + t_->length_place * 8", "g.state"),
    "place of a length": (WRITE, "lengths_[row], lengths", "lengths_[0], lengths"),
    "length of the row": (ROWS, "lengths_.GetValue(row * apart_)", "lengths_.GetValue(0)"),
    # Writes to the cache.
    "set of a branch": (
        WRITE,
        "? 1 : which == Which::kRaw ? 0 : 2;",
        "? 1 : which == Which::kRaw ? 2 : 0;",
    ),
    "one set": (WRITE, "(separate ? token * 3 + set : token)", "(token * 3 + set)"),
    "compressed keys are rotated later": (
        WRITE,
        "Store(Plain(from, h), h, token, which, 0);",
        "Store(Rotated(from, h), h, token, which, 0);",
    ),
    "place of a token": (WRITE, "+ rows_.position() * h.dim;", "+ token * h.dim;"),
    "values behind the keys": (
        WRITE,
        "(value != 0 ? to.values_begin : to.keys_begin)",
        "to.keys_begin",
    ),
    "row of the cache": (WRITE, "rows_.row() * t_->selected.heads + h.begin + i", "h.begin + i"),
    "heads of a tile": (WRITE, "x[static_cast<uint32_t>(i * h.dim)]", "x"),
    "values that wait": (
        WRITE,
        "(which == Which::kRaw ? 0 : 2) + value",
        "which == Which::kRaw ? 0 : 2",
    ),
    "first head of a tile": (WRITE, "begin(tile * StepTileHeads(dim_in))", "begin(0)"),
    "heads of the last tile": (
        WRITE,
        "Min(StepTileHeads(dim_in), heads - begin)",
        "Min(StepTileHeads(dim_in), heads)",
    ),
    "queries of a tile": (
        WRITE,
        "(token * p.heads * p.group + h.begin) * p.dim",
        "token * p.heads * p.group * p.dim",
    ),
    "tokens that are left out": (WRITE, "      if (!rows_.written()) continue;\n", ""),
    "branches that are written": (WRITE, "t_->shared != 0 ? 2 : 3;", "2;"),
    # Angles.
    "angles of the next position": (
        ROPE,
        "if (position == position_) return;",
        "if (position_ >= 0) return;",
    ),
    "angle of a far position": (ROPE, "coarse_[position / kAngleStep * 2 * dim_]", "coarse_[0]"),
    "angle of the rest": (ROPE, "position % kAngleStep * 2", "Min(position, kAngleStep - 1) * 2"),
    "sine of a sum": (
        ROPE,
        "AscendC::Mul(sin_, sin_a, cos_b, dim_)",
        "AscendC::Mul(sin_, sin_a, sin_b, dim_)",
    ),
    "other half of a pair": (
        ROPE,
        "Multiply(scratch, x[half], sin_,",
        "Multiply(scratch, x, sin_,",
    ),
    # Compression windows.
    "windows that were there": (COMPRESS, "first = rows_.Windows(rows_.length());", "first = 0;"),
    "windows of a row left out": (
        COMPRESS,
        "      if (!rows_.Fits(rows_.length())) continue;\n",
        "",
    ),
    "windows of the cores": (
        COMPRESS,
        "at = skipped; at < all; at += cores",
        "at = skipped; at < all; at += 2 * cores",
    ),
    "position of a window": (COMPRESS, "rope_.Seek(window * t_->stride);", "rope_.Seek(window);"),
    "values are not rotated": (COMPRESS, "Store(value, Row(0),", "Store(value, Row(2),"),
    "tokens of a slice": (
        COMPRESS,
        "window * t_->stride + first, count, head);",
        "window * t_->stride, count, head);",
    ),
    "weights of a slice": (
        COMPRESS,
        "LoadWeights(which, first, count, head);",
        "LoadWeights(which, 0, count, head);",
    ),
    "place in the ring": (COMPRESS, "place = token % places;", "place = (token + 1) % places;"),
    "end of the ring": (
        COMPRESS,
        "Min(Min(old, places - place), count - done)",
        "Min(old, count - done)",
    ),
    "tokens of the ring": (
        COMPRESS,
        "Min(Min(old, places - place), count - done)",
        "Min(places - place, count - done)",
    ),
    "new tokens of the row": (COMPRESS, "at = rows_.begin() - old;", "at = -old;"),
    "head of the new tokens": (COMPRESS, "(at * heads + head) * dim", "at * heads * dim"),
    "head of the weights": (COMPRESS, "weight_[first * heads + head]", "weight_[first * heads]"),
    "weights of other heads": (COMPRESS, "(heads - 1) * 4", "0"),
    "head of the encodings": (
        COMPRESS,
        "position_[(first * heads + head) * dim]",
        "position_[first * heads * dim]",
    ),
    "row of a compressed token": (
        COMPRESS,
        "(rows_.row() * t_->selected.heads + head) * t_->others_head + which.to",
        "head * t_->others_head + which.to",
    ),
    "place of a compressed token": (COMPRESS, "others_[at + window * which.dim]", "others_[at]"),
    # Keys that a token sees.
    "window": (KEYS, "Min(rows_.seen(), step_->window_tokens)", "rows_.seen()"),
    "first of the last tokens": (
        KEYS,
        "body(0, rows_.seen() - total_ + first, keys);",
        "body(0, first, keys);",
    ),
    "keys of a split of the ring": (
        KEYS,
        "rows_.seen() - total_ + first + at",
        "rows_.seen() - total_ + at",
    ),
    "place in the window's ring": (
        KEYS,
        "place = token % places;",
        "place = (token + 1) % places;",
    ),
    "end of the window's ring": (
        KEYS,
        "Min(Min(old, places - place), keys - at)",
        "Min(old, keys - at)",
    ),
    "new tokens of the window": (KEYS, "-1 - (rows_.begin() - old)", "-1 + old"),
    "keys of a split": (KEYS, "    body(0, first, keys);", "    body(0, 0, keys);"),
    "candidates": (KEYS, "? 0 : OwnBlock() + 1;", "? 0 : OwnBlock();"),
    "own block": (KEYS, "(rows_.seen() - 1) / step_->", "rows_.seen() / step_->"),
    "empty places of a list": (KEYS, "block < 0 || block * block_size_", "block * block_size_"),
    "list of the decode row": (KEYS, "decode_row * block_count_ + i", "i"),
    "tokens behind": (
        KEYS,
        "Min(rows_.seen(), (block + 1) * block_size_)",
        "(block + 1) * block_size_",
    ),
    "first key of a split": (KEYS, "Max(0, first - before)", "0"),
    # The cube, the choice of blocks and the mix, which other kernels share.
    "row of the keys": (CUBE, " + splits.decode_rows.keys.row() * strides.row", ""),
    "tokens that see their whole row": (
        KEYS,
        "return rows_.seen() > Visible() ? 0 : SharedPrefix",
        "return SharedPrefix",
    ),
    "tokens in common": (
        KEYS,
        "    rows_.Seek(query - 1);\n    const int64_t before = rows_.seen();\n",
        "    rows_.Seek(query);\n    const int64_t before = rows_.seen();\n",
    ),
    "compressed tokens in common": (
        KEYS,
        "    rows_.Seek(query - 1);\n    const int64_t before = rows_.Windows",
        "    rows_.Seek(query);\n    const int64_t before = rows_.Windows",
    ),
    "tokens of another row": (ROWS, "return Max(1, end_ - token);", "return kMostShared;"),
    "new tokens": (CUBE, "Keys::kHasFresh && at < 0", "Keys::kHasFresh && at < -1"),
    "head of a new token": (
        CUBE,
        "((-1 - at) * t_->heads + head) * columns",
        "(-1 - at) * t_->heads * columns",
    ),
    "pitch of the new tokens": (
        CUBE,
        "int64_t{t_->heads} * columns, rows",
        "int64_t{columns}, rows",
    ),
    "list of a decode row": (
        RANKING,
        "indices_[decode_rows_.decode_row() * t_->count]",
        "indices_[0]",
    ),
    "local blocks": (RANKING, "own - t_->local + 1, own + 1", "own - t_->local, own + 1"),
    "gates of the heads": (MIX, "+ branch) * s_.heads + head]", "+ branch) * s_.heads]"),
    # Rings and lengths afterwards.
    "place in a ring": (FINISH, "rows.position() % ring.places * dim", "rows.position() * dim"),
    "tokens that stay": (FINISH, "rows.count() - ring.places;", "rows.count() - 2 * ring.places;"),
    "rows that are left out": (FINISH, "if (!rows.written() || !stays)", "if (!stays)"),
    "row of a ring": (FINISH, "rows.row() * p.heads + h.begin + i", "h.begin + i"),
    "heads of a ring": (FINISH, "x[static_cast<uint32_t>(i * dim)]", "x"),
    "first head of a ring's tile": (
        FINISH,
        "(token * p.heads + h.begin) * dim",
        "token * p.heads * dim",
    ),
    "most tokens": (FINISH, "Max(after, state.GetValue(most))", "after"),
    "most tokens of an empty row": (FINISH, "after == 0 ? 0 : Max", "Max"),
    "number of the layer": (FINISH, "if (after > before) state", "state"),
    "lengths that cannot be": (FINISH, "if (rows_.Fits(before)) {", "{"),
    "state of the next row": (
        FINISH,
        "    // The next row's state comes into the same memory.\n"
        "    Order<AscendC::HardEvent::MTE3_MTE2>();\n",
        "",
    ),
}

# Faults that change nothing, and why.
HARMLESS = {}

SEEDS = range(64)


def checks(dtype):
    """Checks that find the faults."""
    assert dtype == "float16"
    seeds = {f"seed {n}": partial(_check, number=n) for n in SEEDS}
    steps = {
        f"{kind} steps": partial(tests.test_steps_against_the_definition, kind=kind)
        for kind in tests.KINDS
    }
    left_out = {
        f"{kind}, {name}": partial(
            tests.test_a_row_that_cannot_be_is_left_out, kind=kind, name=name
        )
        for kind in ("sparse", "dense")
        for name in tests.WRONG
    }
    lists = {f"ends {x}": partial(tests.test_lists_that_cannot_be, ends=x) for x in tests.LISTS}
    together = {
        f"window of {n}": partial(tests.test_tokens_that_share_products, window=n)
        for n in (2**31, 695)
    }
    traffic = {"bytes": tests.test_traffic, "bytes of several tokens": tests.check_shared_traffic}
    return {**steps, **left_out, **lists, **seeds, **together, **traffic}


def _check(runner, number):
    check_steps(runner, make_cache_step(number, "float16"), calls_of(number))
