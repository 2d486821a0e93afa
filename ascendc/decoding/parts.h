// Which parts of the attention of new tokens over a cache a core computes, and what a kernel has to
// say about the keys of a cell.
#pragma once

#include "ascendc/decoding/parts_tiling.h"

namespace nsa::ascend {

// The cells of some queries that follow each other have the very same keys in the same part.
struct Part {
  int64_t cell;  // of all; further ones are those of the queries behind, of the same key head
  int32_t cells;
  int64_t slot;   // of the outputs and statistics of the wave; further cells have those behind
  int64_t line;   // of the first cell, in numbers of the wave that lie in the order of its parts
  int64_t first;  // key of the cell
  int32_t keys;
};

// Queries whose parts the workspace holds at the same time.
struct Wave {
  int64_t query, queries;
  int64_t slots;     // that the parts take of the workspace
  int64_t parts;     // of all cells, at most
  int64_t products;  // the same, those once that queries share
};

// `Keys` says which keys a cell has and where they stand:
//   Arguments             of the kernel: query, key, value, output, workspace, and what Init reads
//   Init(tiling, g)
//   MaxParts(query)      parts of each of the query's cells, at most; the slots are counted by it
//   Start(cell, runs)     `runs`: ForRuns will be called
//   row(), total()        of the cell: its row, how many keys
//   ForRuns(first, keys, body)  the keys [first, first + keys), as runs that follow each other in
//                         memory: body(which key of the part, where in memory, keys)
//   kHasFresh             whether new tokens are not in the cache: -1, -2, ... are then those of
//                         fresh_key and fresh_value [T, N2, ...], which the arguments have
//   kShared               whether queries of a row may have the same parts. If so:
//   QueriesFrom(query)    queries of its row from this one on, at least 1
//   SharedParts(query)    how many of its parts, the first ones, are those of the query before,
//   which
//                         is of the same row and has no more of them
// Queries and cells come in ascending order, but for those of one row.

// Parts that two queries share of which one sees the first `before` keys and the next one the first
// `keys`, no fewer.
__aicore__ inline int64_t SharedPrefix(int64_t before, int64_t keys, int32_t part_keys) {
  return before == keys ? (keys + part_keys - 1) / part_keys : before / part_keys;
}

// Queries of a row that may share parts: in a wave, up to PartsTiling::shared from its first or
// from where the ones before end.
template <typename Keys>
struct QueryTile {
  int64_t query;
  int32_t count;
  int32_t each;  // the most parts of a cell
  int32_t parts[kMostShared];
  int32_t shared[kMostShared];  // of the parts, those of the query before

  // Loads the first of the queries [first, end).
  __aicore__ inline void Load(Keys& keys, const PartsTiling& t, int64_t first, int64_t end) {
    query = first;
    parts[0] = each = static_cast<int32_t>(keys.MaxParts(first));
    shared[0] = 0;
    count = 1;
    if constexpr (Keys::kShared) {
      const int64_t most = Min(t.shared, Min(end - first, keys.QueriesFrom(first)));
      for (; count < most; ++count) {
        shared[count] = static_cast<int32_t>(keys.SharedParts(first + count));
        parts[count] = static_cast<int32_t>(keys.MaxParts(first + count));
        each = static_cast<int32_t>(Max(each, parts[count]));
      }
    }
  }
};

// The waves of all queries, as every core counts them.
template <typename Keys>
class Waves {
 public:
  __aicore__ inline void Init(const PartsTiling* tiling, const typename Keys::Arguments& g) {
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
      each = Max(each, tile_.parts[taken]);
      const int64_t more = (taken + 1) * each * t_->heads;
      if (wave->queries > 0 && wave->slots + more > t_->wave_parts) break;
      slots = more;
      ++wave->queries;
      wave->parts += int64_t{tile_.parts[taken]} * t_->heads;
      wave->products += int64_t{tile_.parts[taken] - tile_.shared[taken]} * t_->heads;
    }
    wave->slots += slots;
    return taken == tile_.count;
  }

  const PartsTiling* t_ = nullptr;
  Keys keys_;
  QueryTile<Keys> tile_;
};

// Goes over the cells of waves. A tile's slots are those of a key head, of its parts in the order
// of the keys, and there of the tile's queries.
template <typename Keys>
class CellWalk {
 public:
  __aicore__ inline void Init(const PartsTiling* tiling, const typename Keys::Arguments& g,
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
  // Parts of the query's cells, and how many of them it shares with the query before.
  __aicore__ inline int32_t parts() const { return tile_.parts[place_]; }
  __aicore__ inline int32_t shared() const { return tile_.shared[place_]; }
  // Queries from this one on that have its part.
  __aicore__ inline int32_t Sharing(int64_t part) const {
    int32_t end = place_ + 1;
    while (end < tile_.count && tile_.shared[end] > part) ++end;
    return end - place_;
  }

  __aicore__ inline void SeekCell(int64_t cell) {
    while (query() < cell / t_->heads) NextQuery();
    OpenHead(cell % t_->heads);
  }
  __aicore__ inline void OpenHead(int64_t head) {
    const int64_t cell = query() * t_->heads + head;
    if (cell != cell_) keys.Start(cell, runs_);
    cell_ = cell;
    head_ = head;
  }
  __aicore__ inline int64_t cell() const { return cell_; }
  __aicore__ inline int64_t Slot(int64_t part) const {
    return base_ + (head_ * tile_.each + part) * tile_.count + place_;
  }
  // Slots from a part to the next.
  __aicore__ inline int32_t pitch() const { return tile_.count; }
  // Where the numbers of the cell are that lie in the order of its parts.
  __aicore__ inline int64_t line() const {
    return base_ + (place_ * int64_t{t_->heads} + head_) * tile_.each;
  }

  Keys keys;  // of the cell

 private:
  __aicore__ inline int64_t query() const { return tile_.query + place_; }

  const PartsTiling* t_ = nullptr;
  bool runs_ = false;
  QueryTile<Keys> tile_;
  int32_t place_ = 0;           // in the tile
  int64_t base_ = 0, end_ = 0;  // the tile's first slot, the wave's last query
  int64_t cell_ = -1, head_ = 0;
};

// One core's parts of a wave, of as many as there are `cores`, without those that have no keys.
template <typename Keys>
class Parts {
 public:
  // `once`: those once that queries share.
  __aicore__ inline void Init(const PartsTiling* tiling, const typename Keys::Arguments& g,
                              int64_t core, int64_t cores, bool runs, bool once) {
    t_ = tiling;
    core_ = core;
    cores_ = cores;
    once_ = once;
    cells.Init(tiling, g, runs);
  }
  __aicore__ inline void StartWave(const Wave& wave) {
    const int64_t all = once_ ? wave.products : wave.parts;
    at_ = all * core_ / cores_;
    end_ = all * (core_ + 1) / cores_;
    begin_ = 0;
    if (at_ < end_) cells.StartWave(wave);
  }
  __aicore__ inline bool Next(Part* part) {
    while (at_ < end_) {
      for (; at_ - begin_ >= OfCell() * t_->heads; cells.NextQuery())
        begin_ += OfCell() * t_->heads;
      const int64_t of_cell = OfCell(), place = (at_ - begin_) % of_cell;
      cells.OpenHead((at_ - begin_) / of_cell);
      const int64_t which = First() + place;
      part->cell = cells.cell();
      part->cells = once_ ? cells.Sharing(which) : 1;
      part->slot = cells.Slot(which);
      part->line = cells.line() + which;
      part->first = which * t_->part_keys;
      part->keys = static_cast<int32_t>(Min(t_->part_keys, cells.keys.total() - part->first));
      at_ += part->keys > 0 ? 1 : of_cell - place;
      if (part->keys > 0) return true;
    }
    return false;
  }

  CellWalk<Keys> cells;

 private:
  // The first part of a cell that counts here, and how many do.
  __aicore__ inline int64_t First() const { return once_ ? cells.shared() : 0; }
  __aicore__ inline int64_t OfCell() const { return cells.parts() - First(); }

  const PartsTiling* t_ = nullptr;
  bool once_ = true;
  int64_t core_ = 0, cores_ = 1, at_ = 0, end_ = 0;
  int64_t begin_ = 0;  // those of the queries before
};

}  // namespace nsa::ascend
