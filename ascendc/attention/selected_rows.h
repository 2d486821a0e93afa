// The rows of a tile of queries on a vector core: the heads of a query's group one below the other,
// each with the scores of the blocks that the query selects, in ascending order.
#pragma once

#include "ascendc/attention/pass_rows.h"
#include "ascendc/attention/selection.h"
#include "ascendc/attention/work_items.h"

namespace nsa::ascend {

// body(query, row after `begin`, rows) for the queries whose rows, `group` each, are among those
// from `begin` on.
template <typename Body>
__aicore__ inline void ForQueryRows(int32_t group, int32_t begin, int32_t rows, Body body) {
  for (int32_t at = begin, end = begin + rows; at < end;) {
    const int32_t query = at / group;
    const auto here = static_cast<int32_t>(Min((query + 1) * group, end)) - at;
    body(query, at - begin, here);
    at += here;
  }
}

// x[:, column ...] = value
__aicore__ inline void FillFrom(const AscendC::LocalTensor<float>& x, int32_t column, float value,
                                int32_t rows, const PassRows& g) {
  const int32_t whole = RoundUp(column, kRepeatFloats);
  if (whole > column) {
    const int32_t begin = whole - kRepeatFloats;
    uint64_t lanes[2] = {~uint64_t{0} << (column - begin), 0};
    AscendC::Duplicate(x[static_cast<uint32_t>(begin)], value, lanes, static_cast<uint8_t>(rows), 1,
                       g.pitch());
  }
  for (int32_t at = whole; at < g.width; at += kRepeatFloats) {
    AscendC::Duplicate(x[static_cast<uint32_t>(at)], value, static_cast<uint64_t>(kRepeatFloats),
                       static_cast<uint8_t>(rows), 1, g.pitch());
  }
}

// x *= factor where a row has something, `value` where it has nothing. columns(query): how many a
// query's rows have.
template <typename Columns>
__aicore__ inline void ScaleAndFill(const AscendC::LocalTensor<float>& x, float factor, float value,
                                    int32_t group, int32_t begin, const PassRows& g,
                                    Columns columns) {
  ForQueryRows(group, begin, g.rows, [&](int32_t query, int32_t row, int32_t rows) __aicore__ {
    const int32_t used = columns(query);
    const auto mine = x[static_cast<uint32_t>(row * g.width)];
    if (used == g.width) {
      if (factor != 1.0f) AscendC::Muls(mine, mine, factor, rows * g.width);
      return;
    }
    const AscendC::UnaryRepeatParams strides(1, 1, g.pitch(), g.pitch());
    if (factor != 1.0f) {
      ForRepeats(used, [&](uint32_t at, uint64_t lanes) __aicore__ {
        AscendC::Muls(mine[at], mine[at], factor, lanes, static_cast<uint8_t>(rows), strides);
      });
    }
    FillFrom(mine, used, value, rows, g);
  });
  AscendC::PipeBarrier<PIPE_V>();
}

// Rows and columns that are computed at a time.
struct SelectedPart {
  int32_t begin, rows;      // of the tile
  int32_t column, columns;  // of what the rows' queries see; 0 columns: nothing at all
};

// Selected blocks of one tile; a core needs those of its own rows.
class SelectedRows {
 public:
  __aicore__ inline void Init(const SelectionTiling* selection, GM_ADDR lists) {
    s_ = selection;
    group_ = static_cast<int32_t>(s_->group);
    lists_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(lists));
  }

  __aicore__ inline void Start(const WorkItem& item, int32_t begin, int32_t rows) {
    item_ = item;
    ForQueries(begin, rows, [&](int32_t query, int32_t, int32_t) __aicore__ {
      SelectedBlocks blocks;
      columns_[query] = 0;
      repeated_[query] = false;
      for (StartBlocks(query, &blocks); !blocks.ended(); blocks.Next()) {
        columns_[query] = blocks.slot() * static_cast<int32_t>(s_->block_size) + blocks.keys();
        repeated_[query] |= blocks.times() > 1;
      }
    });
  }

  // body(query of the tile, row after `begin`, rows) for the rows from `begin` on.
  template <typename Body>
  __aicore__ inline void ForQueries(int32_t begin, int32_t rows, Body body) const {
    ForQueryRows(group_, begin, rows, body);
  }

  // Scores of a query, 0 where it sees nothing.
  __aicore__ inline int32_t Columns(int32_t query) const { return columns_[query]; }
  __aicore__ inline int32_t MostColumns(int32_t begin, int32_t rows) const {
    int32_t most = 0;
    ForQueries(begin, rows, [&](int32_t query, int32_t, int32_t) __aicore__ {
      most = static_cast<int32_t>(Max(most, columns_[query]));
    });
    return most;
  }

  // A part's values from rows in global memory that are those of the tile.
  __aicore__ inline void Load(const AscendC::LocalTensor<float>& to,
                              const AscendC::GlobalTensor<float>& from,
                              const SelectedPart& p) const {
    const PassRows g(p.rows, p.columns);
    ForQueries(p.begin, p.rows, [&](int32_t query, int32_t row, int32_t rows) __aicore__ {
      const int32_t columns = Here(query, p);
      if (columns == 0) return;
      CopyRowsIn(to[static_cast<uint32_t>(row * g.width)],
                 from[(p.begin + row) * s_->columns + p.column], s_->columns, rows, columns,
                 g.width);
    });
  }

  // x *= factor where a row has something, `value` where it has nothing.
  __aicore__ inline void ScaleAndFill(const AscendC::LocalTensor<float>& x, float factor,
                                      float value, const SelectedPart& p) const {
    nsa::ascend::ScaleAndFill(x, factor, value, group_, p.begin, PassRows(p.rows, p.columns),
                              [&](int32_t query) __aicore__ { return Here(query, p); });
  }

  // x *= how often a query's list has the block.
  __aicore__ inline void CountRepeated(const AscendC::LocalTensor<float>& x,
                                       const SelectedPart& p) const {
    const PassRows g(p.rows, p.columns);
    bool any = false;
    ForQueries(p.begin, p.rows, [&](int32_t query, int32_t row, int32_t rows) __aicore__ {
      if (!repeated_[query]) return;
      any = true;
      SelectedBlocks blocks;
      for (StartBlocks(query, &blocks); !blocks.ended(); blocks.Next()) {
        if (blocks.times() == 1) continue;
        // Blocks may begin in one part and end in the next.
        const auto slot = static_cast<int32_t>(blocks.slot() * s_->block_size - p.column);
        const auto begin = static_cast<int32_t>(Max(0, slot));
        const auto end = static_cast<int32_t>(Min(slot + blocks.keys(), p.columns));
        ForRepeats(end - begin, [&](uint32_t at, uint64_t lanes) __aicore__ {
          const auto part = x[static_cast<uint32_t>(row * g.width + begin) + at];
          AscendC::Muls(part, part, static_cast<float>(blocks.times()), lanes,
                        static_cast<uint8_t>(rows),
                        AscendC::UnaryRepeatParams(1, 1, g.pitch(), g.pitch()));
        });
      }
    });
    if (any) AscendC::PipeBarrier<PIPE_V>();
  }

 private:
  // Columns of a part that a query's rows have.
  __aicore__ inline int32_t Here(int32_t query, const SelectedPart& p) const {
    return static_cast<int32_t>(Max(0, Min(columns_[query] - p.column, p.columns)));
  }

  __aicore__ inline void StartBlocks(int32_t query, SelectedBlocks* blocks) const {
    const int64_t row = item_.row + query;
    blocks->Start(lists_, (item_.query_start + row) * s_->heads + item_.head,
                  item_.visible.High(row), *s_);
  }

  const SelectionTiling* s_ = nullptr;
  int32_t group_ = 1;
  AscendC::GlobalTensor<int32_t> lists_;
  WorkItem item_{};
  int32_t columns_[kMostStripes] = {};
  bool repeated_[kMostStripes] = {};
};

}  // namespace nsa::ascend
