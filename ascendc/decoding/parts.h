// Which parts of the attention of new tokens over a cache a core computes, and what a kernel has to
// say about the keys of a cell.
#pragma once

#include "ascendc/decoding/parts_tiling.h"

namespace nsa::ascend {

struct Part {
  int64_t cell;   // of all
  int64_t slot;   // of the outputs and statistics of the wave
  int64_t first;  // key of the cell
  int32_t keys;
};

// Queries whose parts the workspace holds at the same time.
struct Wave {
  int64_t query, queries;
  int64_t slots;  // parts of them, at most
};

// `Keys` says which keys a cell has and where they stand:
//   Arguments             of the kernel: query, key, value, output, workspace, and what Init reads
//   Init(tiling, g)
//   MostParts(query)      parts of each of the query's cells, at most; the slots are counted by it
//   Start(cell, runs)     `runs`: ForRuns will be called
//   row(), total()        of the cell: its row, how many keys
//   ForRuns(first, keys, body)  the keys [first, first + keys), as runs that follow each other in
//                         memory: body(which key of the part, where in memory, keys)
//   kHasFresh             whether new tokens are not in the cache: -1, -2, ... are then those of
//                         fresh_key and fresh_value [T, N2, ...], which the arguments have
// Queries and cells come in ascending order.

// The waves of all queries, as every core counts them.
template <typename Keys>
class Waves {
 public:
  __aicore__ inline void Init(const PartsTiling* tiling, const typename Keys::Arguments& g) {
    t_ = tiling;
    keys_.Init(tiling, g);
  }
  __aicore__ inline bool Next(Wave* wave) {
    wave->query += wave->queries;
    wave->queries = wave->slots = 0;
    for (int64_t query = wave->query; query < t_->queries; ++query) {
      const int64_t slots = keys_.MostParts(query) * t_->heads;
      if (wave->queries > 0 && wave->slots + slots > t_->wave_parts) break;
      wave->slots += slots;
      ++wave->queries;
    }
    return wave->queries > 0;
  }
  __aicore__ inline bool IsLast(const Wave& wave) const {
    return wave.query + wave.queries == t_->queries;
  }

 private:
  const PartsTiling* t_ = nullptr;
  Keys keys_;
};

// Goes over the cells of waves.
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
    Enter(wave.query);
  }
  __aicore__ inline void SeekCell(int64_t cell) {
    while (query_ < cell / t_->heads) Advance();
    Open(cell);
  }
  __aicore__ inline void SeekSlot(int64_t slot) {
    while (base_ + t_->heads * each_ <= slot) Advance();
    Open(query_ * t_->heads + (slot - base_) / each_);
  }
  __aicore__ inline int64_t cell() const { return cell_; }
  // Of the cell's first part, and of the part behind its last possible one.
  __aicore__ inline int64_t slot() const { return base_ + (cell_ - query_ * t_->heads) * each_; }
  __aicore__ inline int64_t end_slot() const { return slot() + each_; }

  Keys keys;  // of the cell

 private:
  __aicore__ inline void Enter(int64_t query) {
    query_ = query;
    each_ = keys.MostParts(query);
  }
  __aicore__ inline void Advance() {
    base_ += t_->heads * each_;
    Enter(query_ + 1);
  }
  __aicore__ inline void Open(int64_t cell) {
    if (cell != cell_) keys.Start(cell, runs_);
    cell_ = cell;
  }

  const PartsTiling* t_ = nullptr;
  bool runs_ = false;
  int64_t query_ = 0, base_ = 0, each_ = 0;  // first slot of the query, slots of each of its cells
  int64_t cell_ = -1;
};

// One core's parts of a wave, of as many as there are `cores`, without those that have no keys.
template <typename Keys>
class Parts {
 public:
  __aicore__ inline void Init(const PartsTiling* tiling, const typename Keys::Arguments& g,
                              int64_t core, int64_t cores, bool runs) {
    t_ = tiling;
    core_ = core;
    cores_ = cores;
    cells.Init(tiling, g, runs);
  }
  __aicore__ inline void StartWave(const Wave& wave) {
    at_ = wave.slots * core_ / cores_;
    end_ = wave.slots * (core_ + 1) / cores_;
    if (at_ < end_) cells.StartWave(wave);
  }
  __aicore__ inline bool Next(Part* part) {
    while (at_ < end_) {
      cells.SeekSlot(at_);
      part->cell = cells.cell();
      part->slot = at_;
      part->first = (at_ - cells.slot()) * t_->part_keys;
      part->keys = static_cast<int32_t>(Min(t_->part_keys, cells.keys.total() - part->first));
      at_ = part->keys > 0 ? at_ + 1 : cells.end_slot();
      if (part->keys > 0) return true;
    }
    return false;
  }

  CellWalk<Keys> cells;

 private:
  const PartsTiling* t_ = nullptr;
  int64_t core_ = 0, cores_ = 1, at_ = 0, end_ = 0;
};

}  // namespace nsa::ascend
