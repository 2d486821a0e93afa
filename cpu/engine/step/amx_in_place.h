// Steps on AMX tiles of gathered rows where they lie in memory, sixteen heads of a query each.
#pragma once

#include "cpu/engine/step/amx.h"
#include "cpu/engine/step/forward_wave.h"

namespace nsa::cpu {
namespace {

template <>
struct RowsInPlace<AmxPath> {
  // out(i, head): where the output of a head of a query is summed.
  template <class Rows, class Out>
  RowsInPlace(const AttentionPlan& plan, const Rows& c, const Out& out)
      : plan_(plan), there_(heads_are_tiles(plan)) {
    if (!there_) return;
    const float* words = static_cast<const float*>(plan.query);
    c.each_query([&](int64_t, int64_t heads, int64_t i, int64_t head) {
      for (int64_t n = head; n < head + heads; n += kAmxTile) {
        q_[count_] = words + (c.seg.q + i * plan.q.row + n * plan.q.head) / 2;
        o_[count_++] = out(i, n);
      }
    });
  }

  bool there() const { return there_; }

  // s = Q K^T of the tiles.
  void scores(const float* kt, int64_t lanes, float* s) const {
    each_two(
        plan_.q.head / 2, kScoreRow, [&](int64_t n) { return q_[n]; },
        [&](int64_t n) { return s + n * kAmxTile * kScoreRow; },
        [&](auto count, AmxRows rows) {
          for (int64_t n = 0; n < lanes; n += 2 * kAmxTile) {
            amx_block<decltype(count)::value, 2>(plan_.D / 2, rows, kt + n, lanes, false);
            rows.c += 2 * kAmxTile;
            rows.lower_c += 2 * kAmxTile;
          }
        });
  }

  // O += P V of the tiles, after their rows have been multiplied by factors.
  void add_values(const float* p, int64_t lanes, const float* v, const float* factor) const {
    const int64_t ld = padded_row(plan_.Dv), out_lanes = round_up(plan_.Dv, kLanePad);
    for (int64_t r = 0; r < count_ * kAmxTile; ++r) {
      if (factor[r] != 1.0f) scale_row(o_[r / kAmxTile] + r % kAmxTile * ld, out_lanes, factor[r]);
    }
    each_two(
        kScoreRow, ld, [&](int64_t n) { return p + n * kAmxTile * kScoreRow; },
        [&](int64_t n) { return o_[n]; },
        [&](auto count, AmxRows rows) {
          constexpr int kCount = decltype(count)::value;
          int64_t d = 0;
          for (; d + 2 * kAmxTile <= out_lanes; d += 2 * kAmxTile) {
            amx_block<kCount, 2>(lanes / 2, rows, v + d, ld, true);
            rows.c += 2 * kAmxTile;
            rows.lower_c += 2 * kAmxTile;
          }
          if (d < out_lanes) amx_block<kCount, 1>(lanes / 2, rows, v + d, ld, true);
        });
  }

 private:
  static constexpr int64_t kMost = kTileRows / kAmxTile;

  // block(number of tiles, rows) for all tiles, two at a time, the last one perhaps alone: a(n) and
  // c(n) give where the rows of A and C of tile n begin, lda and ldc apart.
  template <class A, class C, class Block>
  void each_two(int64_t lda, int64_t ldc, const A& a, const C& c, const Block& block) const {
    int64_t n = 0;
    for (; n + 2 <= count_; n += 2)
      block(std::integral_constant<int, 2>{}, AmxRows{a(n), a(n + 1), lda, c(n), c(n + 1), ldc});
    if (n < count_)
      block(std::integral_constant<int, 1>{}, AmxRows{a(n), a(n), lda, c(n), c(n), ldc});
  }

  const AttentionPlan& plan_;
  bool there_;
  int64_t count_ = 0;
  const float* q_[kMost];
  float* o_[kMost];
};

}  // namespace
}  // namespace nsa::cpu
