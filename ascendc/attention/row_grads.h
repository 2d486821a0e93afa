// The rows of a gradient: Dvec = rowsum(dO O) - sum * its gradient, P and dS of some rows of
// scores.
#pragma once

#include "ascendc/attention/row_store.h"

namespace nsa::ascend {

// to[row] = a[row, :] b[row, :]. x and y hold [rows, width] floats each.
template <typename T>
__aicore__ inline void DotRows(const AscendC::LocalTensor<float>& to,
                               const AscendC::LocalTensor<T>& a, const AscendC::LocalTensor<T>& b,
                               const AscendC::LocalTensor<float>& x,
                               const AscendC::LocalTensor<float>& y,
                               const AscendC::LocalTensor<float>& folded, int32_t folded_rows,
                               const PassRows& g) {
  ForRepeats(g.keys, [&](uint32_t at, uint64_t lanes) __aicore__ {
    RowsToFloat(x[at], a[at], lanes, g);
    RowsToFloat(y[at], b[at], lanes, g);
  });
  AscendC::PipeBarrier<PIPE_V>();
  ForRepeats(g.keys, [&](uint32_t at, uint64_t lanes) __aicore__ {
    AscendC::Mul(x[at], x[at], y[at], lanes, g.repeats(),
                 AscendC::BinaryRepeatParams(1, 1, 1, g.pitch(), g.pitch(), g.pitch()));
  });
  AscendC::PipeBarrier<PIPE_V>();
  FillTail(x, 0.0f, g);
  ReduceRows<false>(to, x, folded, folded_rows, g);
}

// to[row] = the first number of a row's data block. `twos` holds two numbers for each row.
__aicore__ inline void FirstOfBlocks(const AscendC::LocalTensor<float>& to,
                                     const AscendC::LocalTensor<float>& blocks,
                                     const AscendC::LocalTensor<float>& twos, int32_t rows) {
  constexpr uint8_t kFirstOfTwo = 1, kFirstOfFour = 3;
  const AscendC::GatherMaskParams in_a_row(1, 1, 0, 0);
  uint64_t kept = 0;
  AscendC::GatherMask(twos, blocks, kFirstOfFour, true, static_cast<uint32_t>(rows * kBlockFloats),
                      in_a_row, kept);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::GatherMask(to, twos, kFirstOfTwo, true, static_cast<uint32_t>(2 * rows), in_a_row, kept);
  AscendC::PipeBarrier<PIPE_V>();
}

// dvec[row] -= sums[row] * the sum of a row's data block of `grads`, of softmax_sum's gradient.
// `scratch` holds `rows` numbers.
__aicore__ inline void SubtractSumGrads(const AscendC::LocalTensor<float>& dvec,
                                        const AscendC::LocalTensor<float>& sums,
                                        const AscendC::LocalTensor<float>& grads,
                                        const AscendC::LocalTensor<float>& scratch, int32_t rows) {
  // The sum of a row that sees nothing is FLT_MAX, and its P is 0, which an infinity would spoil.
  constexpr float kMost = 3e38f;
  const int32_t whole = rows / kRowMultiple, rest = rows % kRowMultiple;
  if (whole > 0) AscendC::BlockReduceSum(scratch, grads, whole, kRepeatFloats, 1, 1, 8);
  if (rest > 0) {
    const auto at = static_cast<uint32_t>(whole * kRowMultiple);
    AscendC::BlockReduceSum(scratch[at], grads[at * kBlockFloats], 1, rest * kBlockFloats, 1, 1, 8);
  }
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Mul(scratch, scratch, sums, rows);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Mins(scratch, scratch, kMost, rows);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Maxs(scratch, scratch, -kMost, rows);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Sub(dvec, dvec, scratch, rows);
  AscendC::PipeBarrier<PIPE_V>();
}

// x = exp(x - max) / sum, max and sum a data block for each row.
__aicore__ inline void Probabilities(const AscendC::LocalTensor<float>& x,
                                     const AscendC::LocalTensor<float>& max,
                                     const AscendC::LocalTensor<float>& sum, const PassRows& g) {
  WithRowValue<false>(x, max, g.rows, g.width, g.width);
  AscendC::Exp(x, x, g.floats());
  AscendC::PipeBarrier<PIPE_V>();
  DivideRows(x, sum, g.rows, g.width);
}

// dp = p (dp - dvec), dvec a data block for each row.
__aicore__ inline void ScoreGrads(const AscendC::LocalTensor<float>& dp,
                                  const AscendC::LocalTensor<float>& p,
                                  const AscendC::LocalTensor<float>& dvec, const PassRows& g) {
  WithRowValue<false>(dp, dvec, g.rows, g.width, g.width);
  AscendC::Mul(dp, dp, p, g.floats());
  AscendC::PipeBarrier<PIPE_V>();
}

}  // namespace nsa::ascend
