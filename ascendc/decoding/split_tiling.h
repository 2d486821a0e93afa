// How the attention of new tokens over a cache is cut into splits for the cores: tiling data, and
// what the splits take of the memories of a core and of the workspace.
#pragma once

#include "ascendc/attention/pass_rows.h"
#include "ascendc/decoding/row_tokens.h"

namespace nsa::ascend {

// Elements of a cache from a token to the next, from a key head to the next, and from a row to the
// next where the tokens of Keys::ForRuns are counted in the row.
struct CacheStrides {
  int64_t token, head, row;
};

// A decode row is one query of one key head, all heads of its group together. Its keys lie side by
// side, in the order of the sequence, and are cut into splits of a size that depends on the call
// alone. Queries of a row that have the same split share its products, as further rows of them.
// Cores share the splits of a wave of decode rows, then add up what is left of them in the order of
// the keys.
struct SplitTiling {
  PagesTiling pages;
  CacheStrides key, value;
  int64_t row_tokens;   // of memory from row to row, where there is no table
  int64_t capacity;     // tokens of a row, at most
  int64_t batch;        // B
  int64_t per_row;      // queries of a row, where no list says it
  int64_t queries;      // of all rows
  int64_t splits;       // of a decode row, at most
  int64_t wave_splits;  // that the workspace has room for; at least those of a query
  int64_t ranked;       // the scores of a wave stay until they are ranked
  int32_t heads;        // N2
  int32_t group;        // N1 / N2
  int32_t dim, value_dim;
  int32_t split_keys;  // keys of a split, at most
  int32_t shared;      // queries of a product, at most
  int32_t rows;        // of a product, at most: `shared` groups
  float scale;
};
static_assert(sizeof(SplitTiling) <= kMaxTilingBytes);

// Keys of a split: L1 holds those of two splits and their values, L0C the scores of a group.
__aicore__ constexpr int32_t SplitKeys(int32_t group, int32_t dim, int32_t value_dim) {
  return group <= 64 && dim <= 192 && value_dim <= 192 ? 256 : 128;
}

// Queries of a product. A product of 16 rows takes the cube no longer than one of a single row, and
// more of them still spare the transfers of keys and values. They are so few that the depth of a
// product is cut as that of one query's.
constexpr int32_t kMostShared = 16;
__aicore__ constexpr int32_t SharedQueries(int32_t group) {
  return static_cast<int32_t>(Max(1, Min(kMostShared, 64 / group)));
}

// L1, in bytes: two slots of keys and of values, one of queries and of probabilities.
struct SplitL1 {
  uint32_t keys, values, queries, probabilities;

  __aicore__ constexpr SplitL1(int32_t rows, int32_t dim, int32_t value_dim, int32_t split_keys)
      : keys(static_cast<uint32_t>(split_keys * dim) * 2),
        values(static_cast<uint32_t>(split_keys * value_dim) * 2),
        queries(static_cast<uint32_t>(RoundUp(rows, 16) * dim) * 2),
        probabilities(static_cast<uint32_t>(RoundUp(rows, 16) * split_keys) * 2) {}
  __aicore__ constexpr uint32_t Total() const {
    return 2 * (keys + values) + queries + probabilities;
  }
};
static_assert(SplitL1(64, 192, 192, SplitKeys(64, 192, 192)).Total() <= kL1Bytes);
static_assert(SplitL1(128, 256, 256, SplitKeys(128, 256, 256)).Total() <= kL1Bytes);
static_assert(64 * SplitKeys(64, 192, 192) <= kL0cSlotFloats);
static_assert(128 * SplitKeys(128, 256, 256) <= kL0cSlotFloats);

// Columns of the output that L0C holds of so many rows at a time.
__aicore__ constexpr int32_t OutputPanel(int32_t rows, int32_t value_dim) {
  return static_cast<int32_t>(Min(value_dim, RoundDown(kL0cSlotFloats / RoundUp(rows, 16), 16)));
}

// Bytes of the vector core's buffers for products of so many rows.
struct SplitBuffers {
  uint32_t inputs;         // scores, float [rows, split_keys], or splits of the output, twice
  uint32_t probabilities;  // [rows, split_keys], or the output, once
  uint32_t sum;            // of the splits of the output, float [merged rows, Dv]
  uint32_t statistics;     // data blocks of rows: maximum and sum, twice
  uint32_t folded;         // scratch of the reductions, float [rows, 72]
  uint32_t spread;         // data blocks of rows
  uint32_t rows;           // floats of rows: maximum and sum
  uint32_t state;          // data blocks of merged rows: maximum, sum, two factors

  __aicore__ constexpr SplitBuffers(int32_t all, int32_t split_keys, int32_t value_dim)
      : inputs(static_cast<uint32_t>(
                   Max(HalfRows(all) * split_keys, MergedRows(value_dim) * value_dim)) *
               4),
        probabilities(inputs / 2),
        sum(static_cast<uint32_t>(MergedRows(value_dim) * value_dim) * 4),
        statistics(static_cast<uint32_t>(2 * Max(HalfRows(all), MergedRows(value_dim))) *
                   kBlockBytes),
        folded(static_cast<uint32_t>(HalfRows(all) * (kRepeatFloats + kBlockFloats)) * 4),
        spread(static_cast<uint32_t>(HalfRows(all)) * kBlockBytes),
        rows(static_cast<uint32_t>(2 * HalfRows(all)) * 4),
        state(static_cast<uint32_t>(4 * MergedRows(value_dim)) * kBlockBytes) {}

  // UB of the ranking: data blocks of rows of a decode row, maximum and 1 / sum.
  __aicore__ static constexpr uint32_t RankedBytes(int32_t group) {
    return static_cast<uint32_t>(2 * RoundUp(group, kRowMultiple)) * kBlockBytes;
  }
  // Rows of the output that are added up at a time.
  __aicore__ static constexpr int32_t MergedRows(int32_t value_dim) {
    return static_cast<int32_t>(
        Max(kRowMultiple, Min(64, RoundDown(4096 / value_dim, kRowMultiple))));
  }
  __aicore__ constexpr uint32_t Total() const {
    return 2 * (inputs + statistics) + probabilities + sum + folded + spread + rows + state;
  }
};
static_assert(SplitBuffers(64, 256, 192).Total() <= kUbBytes);
static_assert(SplitBuffers(128, 128, 256).Total() <= kUbBytes);

// The workspace: what every block's cores hand to each other, in three slots each; then the outputs
// of the splits of a wave, their maxima, and their sums. Bytes.
// Where they are ranked the scores lie behind that, and the probabilities summed over the group.
struct SplitWorkspace {
  int64_t scores;         // of a product, float [rows, split_keys]
  int64_t probabilities;  // of a product, [rows, split_keys]
  int64_t block;          // of a block
  int64_t output;         // of a split, float [group, Dv]
  int64_t statistics;     // of a split, data blocks [group], of the maxima or of the sums
  int64_t kept;           // scores of a split that stay
  int64_t sums;           // of a split, float [split_keys]

  __aicore__ constexpr SplitWorkspace(const SplitTiling& t)
      : scores(int64_t{t.rows} * t.split_keys * 4),
        probabilities(int64_t{t.rows} * t.split_keys * 2),
        block((kSlots * (scores + probabilities) + 511) / 512 * 512),
        output(int64_t{t.group} * t.value_dim * 4),
        statistics(int64_t{t.group} * kBlockBytes),
        kept(t.ranked != 0 ? int64_t{t.group} * t.split_keys * 4 : 0),
        sums(t.ranked != 0 ? int64_t{t.split_keys} * 4 : 0) {}
  // Workspace of a split in a wave.
  __aicore__ constexpr int64_t Split() const { return output + 2 * statistics + kept + sums; }
  __aicore__ constexpr int64_t OutputsBegin(int64_t blocks) const { return blocks * block; }
  __aicore__ constexpr int64_t StatisticsBegin(int64_t blocks, int64_t splits) const {
    return OutputsBegin(blocks) + splits * output;
  }
  __aicore__ constexpr int64_t KeptBegin(int64_t blocks, int64_t splits) const {
    return StatisticsBegin(blocks, splits) + 2 * splits * statistics;
  }
  __aicore__ constexpr int64_t SumsBegin(int64_t blocks, int64_t splits) const {
    return KeptBegin(blocks, splits) + splits * kept;
  }
  __aicore__ constexpr int64_t Total(int64_t blocks, int64_t splits) const {
    return SumsBegin(blocks, splits) + splits * sums;
  }
};

}  // namespace nsa::ascend
