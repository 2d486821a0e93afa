// Which splits of the attention of new tokens over a cache a core computes, and what a kernel has
// to say about the keys of a decode row.
#pragma once

#include "ascendc/decoding/split_tiling.h"

namespace nsa::ascend {

// A split of one decode row, or of several: those of neighbouring queries that have the very same
// keys in it share it.
struct Split {
  int64_t decode_row;  // of all; further ones are those of the queries behind, of the same key head
  int32_t decode_rows;  // how many share it
  int64_t slot;   // of the wave's outputs and statistics; further decode rows have those behind
  int64_t line;   // of the first one, in numbers of the wave that lie in the order of its splits
  int64_t first;  // key of the decode row
  int32_t keys;
};

// Queries whose splits the workspace holds at the same time.
struct Wave {
  int64_t query, queries;
  int64_t slots;     // that the splits take of the workspace
  int64_t splits;    // of all decode rows, at most
  int64_t products;  // the same, those once that queries share
};

// `Keys` says which keys a decode row has and where they stand:
//   Arguments             of the kernel: query, key, value, output, workspace, and what Init reads
//   Init(tiling, g)
//   MaxSplits(query)      splits of each of the query's decode rows, at most; slots are counted by
//   it Start(decode_row, runs)     `runs`: ForRuns will be called row(), total()        of the
//   decode row: its row, how many keys ForRuns(first, keys, body)  the keys [first, first + keys),
//   as runs that follow each other in
//                         memory: body(which key of the split, where in memory, keys)
//   kHasFresh             whether new tokens are not in the cache: -1, -2, ... are then those of
//                         fresh_key and fresh_value [T, N2, ...], which the arguments have
//   kShared               whether queries of a row may have the same splits. If so:
//   QueriesFrom(query)    queries of its row from this one on, at least 1
//   SharedSplits(query)   how many of its splits, the first ones, are those of the query before,
//                         which is of the same row and has no more of them
// Queries and decode rows come in ascending order, but for those of one row.

// Splits that two queries share of which one sees the first `before` keys and the next one the
// first `keys`, no fewer.
__aicore__ inline int64_t SharedPrefix(int64_t before, int64_t keys, int32_t split_keys) {
  return before == keys ? (keys + split_keys - 1) / split_keys : before / split_keys;
}

// Queries of a row that may share splits: in a wave, up to SplitTiling::shared from its first or
// from where the ones before end.
template <typename Keys>
struct QueryTile {
  int64_t query;
  int32_t count;
  int32_t each;  // the most splits of a decode row
  int32_t splits[kMostShared];
  int32_t shared[kMostShared];  // of the splits, those of the query before

  // Loads the first of the queries [first, end).
  __aicore__ inline void Load(Keys& keys, const SplitTiling& t, int64_t first, int64_t end) {
    query = first;
    splits[0] = each = static_cast<int32_t>(keys.MaxSplits(first));
    shared[0] = 0;
    count = 1;
    if constexpr (Keys::kShared) {
      const int64_t most = Min(t.shared, Min(end - first, keys.QueriesFrom(first)));
      for (; count < most; ++count) {
        shared[count] = static_cast<int32_t>(keys.SharedSplits(first + count));
        splits[count] = static_cast<int32_t>(keys.MaxSplits(first + count));
        each = static_cast<int32_t>(Max(each, splits[count]));
      }
    }
  }
};

// The waves of all queries, as every core counts them.
template <typename Keys>
class Waves {
 public:
  __aicore__ inline void Init(const SplitTiling* tiling, const typename Keys::Arguments& g) {
    t_ = tiling;
    keys_.Init(tiling, g);
  }
  __aicore__ inline bool Next(Wave* wave) {
    *wave = Wave{wave->query + wave->queries, 0, 0, 0, 0};
    for (bool fits = true; fits && wave->query + wave->queries < t_->queries;) {
      tile_.Load(keys_, *t_, wave->query + wave->queries, t_->queries);
      fits = Add(wave);
    }
    return wave->queries > 0;
  }
  __aicore__ inline bool IsLast(const Wave& wave) const {
    return wave.query + wave.queries == t_->queries;
  }

 private:
  // The queries of the tile for which there is room; whether that is all of them.
  __aicore__ inline bool Add(Wave* wave) {
    int64_t slots = 0, each = 0;
    int32_t taken = 0;
    for (; taken < tile_.count; ++taken) {
      each = Max(each, tile_.splits[taken]);
      const int64_t more = (taken + 1) * each * t_->heads;
      if (wave->queries > 0 && wave->slots + more > t_->wave_splits) break;
      slots = more;
      ++wave->queries;
      wave->splits += int64_t{tile_.splits[taken]} * t_->heads;
      wave->products += int64_t{tile_.splits[taken] - tile_.shared[taken]} * t_->heads;
    }
    wave->slots += slots;
    return taken == tile_.count;
  }

  const SplitTiling* t_ = nullptr;
  Keys keys_;
  QueryTile<Keys> tile_;
};

// Goes over the decode rows of waves. A tile's slots are those of a key head, of its splits in the
// order of the keys, and there of the tile's queries.
template <typename Keys>
class DecodeRowWalk {
 public:
  __aicore__ inline void Init(const SplitTiling* tiling, const typename Keys::Arguments& g,
                              bool runs) {
    t_ = tiling;
    runs_ = runs;
    keys.Init(tiling, g);
  }
  __aicore__ inline void StartWave(const Wave& wave) {
    base_ = 0;
    end_ = wave.query + wave.queries;
    place_ = 0;
    tile_.Load(keys, *t_, wave.query, end_);
  }
  __aicore__ inline void NextQuery() {
    if (++place_ < tile_.count) return;
    base_ += int64_t{t_->heads} * tile_.each * tile_.count;
    place_ = 0;
    tile_.Load(keys, *t_, tile_.query + tile_.count, end_);
  }
  // Splits of the query's decode rows, and how many of them it shares with the query before.
  __aicore__ inline int32_t splits() const { return tile_.splits[place_]; }
  __aicore__ inline int32_t shared() const { return tile_.shared[place_]; }
  // Queries from this one on that have its split.
  __aicore__ inline int32_t Sharing(int64_t split) const {
    int32_t end = place_ + 1;
    while (end < tile_.count && tile_.shared[end] > split) ++end;
    return end - place_;
  }

  __aicore__ inline void SeekDecodeRow(int64_t decode_row) {
    while (query() < decode_row / t_->heads) NextQuery();
    OpenHead(decode_row % t_->heads);
  }
  __aicore__ inline void OpenHead(int64_t head) {
    const int64_t decode_row = query() * t_->heads + head;
    if (decode_row != decode_row_) keys.Start(decode_row, runs_);
    decode_row_ = decode_row;
    head_ = head;
  }
  __aicore__ inline int64_t decode_row() const { return decode_row_; }
  __aicore__ inline int64_t Slot(int64_t split) const {
    return base_ + (head_ * tile_.each + split) * tile_.count + place_;
  }
  // Slots from a split to the next.
  __aicore__ inline int32_t pitch() const { return tile_.count; }
  // Where the numbers of the decode row are that lie in the order of its splits.
  __aicore__ inline int64_t line() const {
    return base_ + (place_ * int64_t{t_->heads} + head_) * tile_.each;
  }

  Keys keys;  // of the decode row

 private:
  __aicore__ inline int64_t query() const { return tile_.query + place_; }

  const SplitTiling* t_ = nullptr;
  bool runs_ = false;
  QueryTile<Keys> tile_;
  int32_t place_ = 0;           // in the tile
  int64_t base_ = 0, end_ = 0;  // the tile's first slot, the wave's last query
  int64_t decode_row_ = -1, head_ = 0;
};

// One core's splits of a wave, of as many as there are `cores`, without those that have no keys.
template <typename Keys>
class Splits {
 public:
  // `once`: those once that queries share.
  __aicore__ inline void Init(const SplitTiling* tiling, const typename Keys::Arguments& g,
                              int64_t core, int64_t cores, bool runs, bool once) {
    t_ = tiling;
    core_ = core;
    cores_ = cores;
    once_ = once;
    decode_rows.Init(tiling, g, runs);
  }
  __aicore__ inline void StartWave(const Wave& wave) {
    const int64_t all = once_ ? wave.products : wave.splits;
    at_ = all * core_ / cores_;
    end_ = all * (core_ + 1) / cores_;
    begin_ = 0;
    if (at_ < end_) decode_rows.StartWave(wave);
  }
  __aicore__ inline bool Next(Split* split) {
    while (at_ < end_) {
      for (; at_ - begin_ >= OfDecodeRow() * t_->heads; decode_rows.NextQuery())
        begin_ += OfDecodeRow() * t_->heads;
      const int64_t of_decode_row = OfDecodeRow(), place = (at_ - begin_) % of_decode_row;
      decode_rows.OpenHead((at_ - begin_) / of_decode_row);
      const int64_t which = First() + place;
      split->decode_row = decode_rows.decode_row();
      split->decode_rows = once_ ? decode_rows.Sharing(which) : 1;
      split->slot = decode_rows.Slot(which);
      split->line = decode_rows.line() + which;
      split->first = which * t_->split_keys;
      split->keys =
          static_cast<int32_t>(Min(t_->split_keys, decode_rows.keys.total() - split->first));
      at_ += split->keys > 0 ? 1 : of_decode_row - place;
      if (split->keys > 0) return true;
    }
    return false;
  }

  DecodeRowWalk<Keys> decode_rows;

 private:
  // The first split of a decode row that counts here, and how many do.
  __aicore__ inline int64_t First() const { return once_ ? decode_rows.shared() : 0; }
  __aicore__ inline int64_t OfDecodeRow() const { return decode_rows.splits() - First(); }

  const SplitTiling* t_ = nullptr;
  bool once_ = true;
  int64_t core_ = 0, cores_ = 1, at_ = 0, end_ = 0;
  int64_t begin_ = 0;  // those of the queries before
};

}  // namespace nsa::ascend
