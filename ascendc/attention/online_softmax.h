// The running maximum and sum of a softmax over rows whose keys come in parts.
#pragma once

#include "ascendc/attention/pass_rows.h"

namespace nsa::ascend {

// Room for the instructions over some rows, a multiple of 8.
struct RowScratch {
  AscendC::LocalTensor<float> folded;  // [rows, 72], all of which held a value before
  AscendC::LocalTensor<float> spread;  // [rows, 8]
  int32_t rows;
};

// x = exp(x - max) of whole rows, with a data block of the maximum and one of the sum of every row.
__aicore__ inline void WholeSoftmax(const AscendC::LocalTensor<float>& x,
                                    const AscendC::LocalTensor<float>& max_blocks,
                                    const AscendC::LocalTensor<float>& sum_blocks,
                                    const RowScratch& scratch, const PassRows& g) {
  const int32_t rows = RoundUp(g.rows, kRowMultiple);
  const auto& spread = scratch.spread;
  ReduceRows<true>(spread, x, scratch.folded, scratch.rows, g);
  AscendC::Maxs(spread, spread, kLowest, rows);
  AscendC::PipeBarrier<PIPE_V>();
  SpreadRows(max_blocks, spread, rows);
  WithRowValue<false>(x, max_blocks, g.rows, g.width, g.width);
  AscendC::Exp(x, x, g.floats());
  AscendC::PipeBarrier<PIPE_V>();
  ReduceRows<false>(spread, x, scratch.folded, scratch.rows, g);
  SpreadRows(sum_blocks, spread, rows);
}

// x = exp(x - max), with max and sum of the rows brought up to date. `factors`: what earlier parts
// count from now on. All three have the value of a row after that of the row before.
__aicore__ inline void UpdateSoftmax(const AscendC::LocalTensor<float>& x,
                                     const AscendC::LocalTensor<float>& max,
                                     const AscendC::LocalTensor<float>& sum,
                                     const AscendC::LocalTensor<float>& factors,
                                     const RowScratch& scratch, const PassRows& g) {
  const int32_t rows = RoundUp(g.rows, kRowMultiple);
  const auto& spread = scratch.spread;
  ReduceRows<true>(spread, x, scratch.folded, scratch.rows, g);
  AscendC::Max(spread, spread, max, rows);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Sub(factors, max, spread, rows);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Exp(factors, factors, rows);
  AscendC::Adds(max, spread, 0.0f, rows);
  AscendC::PipeBarrier<PIPE_V>();
  SpreadRows(spread, max, rows);
  WithRowValue<false>(x, spread, g.rows, g.width, g.width);
  AscendC::Exp(x, x, g.floats());
  AscendC::PipeBarrier<PIPE_V>();
  ReduceRows<false>(spread, x, scratch.folded, scratch.rows, g);
  AscendC::Mul(sum, sum, factors, rows);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Add(sum, sum, spread, rows);
  AscendC::PipeBarrier<PIPE_V>();
}

}  // namespace nsa::ascend
