// Tiling data of NsaCacheStep, written by op_host and read by the kernel, and its use of the UB and
// of the workspace.
#pragma once

#include "ascendc/decoding/ranked_splits.h"

namespace nsa::ascend {

// Keys of a head of a row, and values behind them, in a Tensor that may hold several such parts.
struct StepPlaces {
  int64_t places;
  int64_t keys_begin, values_begin;  // elements of a head before them
};

// `selected` [B, N2, places, D + Dv] has of every row and head first the keys, then the values.
// `others` has likewise the compressed tokens, the ring of the window and that of the tokens of
// open compression windows, one after another. Dense attention has one branch, over `selected`.
struct NsaCacheStepTilingData {
  SplitTiling selected;    // of the selected branch, or of all tokens; queries are the new tokens
  SplitTiling compressed;  // of the other branches
  SplitTiling window;
  RankingTiling ranking;
  StepPlaces selected_places, compressed_places, window_places, raw_places;
  int64_t selected_head;  // elements of a head of a row
  int64_t others_head;
  int64_t window_tokens;       // tokens that a query sees in the last branch, its own included
  int64_t block_size, stride;  // l, s
  int64_t state_size;          // int64 of a row's state
  int64_t layer_place;         // in it: of the layer's number, and of the length, which the most
  int64_t length_place;        // tokens that the row has had follow
  int64_t layer;               // number of the layer
  int32_t sparse;              // three branches
  int32_t shared;              // they have one set of keys and values, which `selected` holds
};
static_assert(sizeof(NsaCacheStepTilingData) <= kMaxTilingBytes);

constexpr int32_t kMostStepBlocks = 128;  // of a query

// An angle is that of a multiple of kAngleStep and that of the rest; the two tables have a row for
// each.
constexpr int64_t kAngleStep = 2048;

// Heads of one token are rotated, rounded and written together.
constexpr int32_t kStepTileFloats = 4096;
__aicore__ constexpr int32_t StepTileHeads(int32_t dim) {
  return static_cast<int32_t>(Min(kStepTileFloats / dim, kMaxRepeats));
}
__aicore__ constexpr int32_t StepTiles(int32_t heads, int32_t dim) {
  return CeilDiv(heads, StepTileHeads(dim));
}

// Rows whose lengths are gathered together.
constexpr int32_t kStepLengths = 64;

// Tokens of a compression window that are loaded together.
constexpr int32_t kStepSlice = 16;

// Bytes of the vector core's buffers while tokens are written, and windows compressed.
struct StepRopeBuffers {
  uint32_t angles;  // a row of both tables: cosines and sines
  uint32_t rope;    // cosines and sines of a position, and scratch

  __aicore__ explicit constexpr StepRopeBuffers(int32_t dim)
      : angles(static_cast<uint32_t>(4 * dim) * 4), rope(static_cast<uint32_t>(3 * dim) * 4) {}
  __aicore__ constexpr uint32_t Total() const { return angles + rope; }
};
struct StepWriteBuffers {
  uint32_t tile;     // heads of a token, float, twice; rotated; rotated the other way
  uint32_t rounded;  // heads of a token, 16-bit, twice
  uint32_t lengths;  // a data block of each row

  __aicore__ constexpr StepWriteBuffers()
      : tile(kStepTileFloats * 4),
        rounded(kStepTileFloats * 2),
        lengths(kStepLengths * kBlockBytes) {}
  __aicore__ constexpr uint32_t Total() const { return 4 * tile + 2 * rounded + lengths; }
};
static_assert(StepRopeBuffers(256).Total() + StepWriteBuffers().Total() <= kUbBytes);
struct StepCompressBuffers {
  uint32_t tokens;     // of a slice, 16-bit, twice
  uint32_t encodings;  // float, twice; and the tokens in float
  uint32_t weights;    // a data block of each, twice; rounded, and on the way there
  uint32_t row;        // float: the sum, that of the encodings, rotated, rotated the other way
  uint32_t rounded;    // 16-bit, twice

  __aicore__ explicit constexpr StepCompressBuffers(int32_t dim)
      : tokens(static_cast<uint32_t>(kStepSlice * dim) * 2),
        encodings(static_cast<uint32_t>(kStepSlice * dim) * 4),
        weights(kStepSlice * kBlockBytes),
        row(static_cast<uint32_t>(dim) * 4),
        rounded(static_cast<uint32_t>(dim) * 2) {}
  __aicore__ constexpr uint32_t Total() const {
    return 2 * tokens + 3 * encodings + 4 * weights + 4 * row + 2 * rounded;
  }
};
static_assert(StepRopeBuffers(256).Total() + StepCompressBuffers(256).Total() <= kUbBytes);

// The workspace in bytes: where each part begins. What the attention takes comes last.
struct StepWorkspace {
  int64_t lengths;               // of the rows before the step, int64 [B]
  int64_t queries;               // rotated, [T, N1, D]
  int64_t raw_keys, raw_values;  // of the new tokens, [T, N2, ...], until the rings get them
  int64_t window_keys, window_values;
  int64_t outputs, output;  // of the three branches, [T, N1, Dv]; bytes of each
  int64_t indices;          // chosen blocks, int32 [T, N2, count]
  int64_t splits;

  __aicore__ explicit constexpr StepWorkspace(const NsaCacheStepTilingData& t)
      : lengths(0),
        queries(AlignedAfter(lengths, t.selected.batch * 8)),
        raw_keys(AlignedAfter(queries, Queries(t) * t.selected.dim * 2)),
        raw_values(AlignedAfter(raw_keys, NewTokenRows(t, t.sparse != 0) * t.selected.dim * 2)),
        window_keys(
            AlignedAfter(raw_values, NewTokenRows(t, t.sparse != 0) * t.selected.value_dim * 2)),
        window_values(AlignedAfter(window_keys, NewTokenRows(t, Separate(t)) * t.selected.dim * 2)),
        outputs(
            AlignedAfter(window_values, NewTokenRows(t, Separate(t)) * t.selected.value_dim * 2)),
        output(t.sparse != 0 ? AlignedAfter(0, Queries(t) * t.selected.value_dim * 2) : 0),
        indices(AlignedAfter(outputs, 3 * output)),
        splits(AlignedAfter(indices, NewTokenRows(t, t.sparse != 0) * t.ranking.count * 4)) {}

 private:
  __aicore__ static constexpr bool Separate(const NsaCacheStepTilingData& t) {
    return t.sparse != 0 && t.shared == 0;
  }
  __aicore__ static constexpr int64_t Queries(const NsaCacheStepTilingData& t) {
    return t.selected.queries * t.selected.heads * t.selected.group;
  }
  __aicore__ static constexpr int64_t NewTokenRows(const NsaCacheStepTilingData& t, bool there) {
    return there ? t.selected.queries * t.selected.heads : 0;
  }
  __aicore__ static constexpr int64_t AlignedAfter(int64_t begin, int64_t bytes) {
    return begin + (bytes + 511) / 512 * 512;
  }
};

}  // namespace nsa::ascend
