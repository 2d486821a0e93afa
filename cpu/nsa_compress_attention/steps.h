// NsaCompressAttention where a variant computes beside its products (Variant::tiles). A batch is a
// few whole queries with all their scores: its exponentials are computed between the products of
// the values of the batch before and those of the scores of the batch after.
#pragma once

#include "cpu/nsa_compress_attention/tile.h"

namespace nsa::cpu {
namespace {

// Whole queries of a tile: rows [first, first + rows).
struct CompressBatch {
  int64_t first = 0, rows = 0;
  int64_t n = 0;        // keys that one of them sees, in whole words
  float* s;             // [rows, lds]
  SoftmaxState* state;  // [rows]
  bool summed = false;  // the exponentials, in the states
};

// The queries of a tile, from their scores to their outputs and chosen blocks.
template <class Variant>
class CompressSteps {
 public:
  // Whether nothing but the interval hides a key, rows are tiles, and values are finite.
  static bool fit(const AttentionPlan& plan, const TileContext& c, const PackedPair& packed) {
    if (plan.bias.changes_scores() || !(plan.scale > 0.0f)) return false;
    return heads_are_tiles(plan) &&
           packed.all_finite(0, c.seg.range.hi(c.query(c.tile.rows() - 1)));
  }

  CompressSteps(const AttentionPlan& plan, const ImportancePlan& imp, const TileContext& c,
                const PackedPair& packed, CompressTileBuffers& b)
      : plan_(plan),
        imp_(imp),
        c_(c),
        packed_(packed),
        b_(b),
        depth_(words<Variant>(plan.D)),
        ldv_(padded_row(plan.Dv)),
        lanes_v_(round_up(plan.Dv, kLanePad)),
        lds_(compress_score_row(imp)) {
    const int64_t rows = compress_batch_rows(plan.G);
    for (int64_t n = 0; n < 2; ++n) {
      batch_[n].s = b.s + n * rows * lds_;
      batch_[n].state = b.state + n * rows;
    }
  }

  void run() {
    const int64_t rows = c_.tile.rows(), step = compress_batch_rows(plan_.G);
    CompressBatch *now = batch_, *before = batch_ + 1;
    for (int64_t first = 0; first < rows; first += step) {
      now->first = first;
      now->rows = min64(step, rows - first);
      now->n = round_up(c_.seg.range.hi(c_.query(first + now->rows - 1)), key_step<Variant>());
      each_row(first, first + now->rows, [&](int64_t r, int64_t i, int64_t head) {
        pack_row<Variant>(plan_.dtype, plan_.query,
                          c_.seg.q + i * plan_.q.row + head * plan_.q.head, plan_.D,
                          b_.q + r * depth_);
      });
      prefetch_ahead(*now);
      exponentials_beside([&](const auto& work) NSA_INLINE { scores(*now, work); });
      settle(*before);
      begin(*now);
      exponentials_beside([&](const auto& work) NSA_INLINE { values(*before, work); });
      finish(*before);
      CompressBatch* const done = before;
      before = now;
      now = done;
    }
    settle(*before);
    values(*before, Nothing{});
    finish(*before);
  }

 private:
  // f(n, query, head) for row number n of rows [first, past) of the tile, whole queries: dividing
  // for each row would take longer than most that is done with it.
  template <class F>
  [[gnu::always_inline]] void each_row(int64_t first, int64_t past, const F& f) const {
    int64_t n = 0;
    for (int64_t i = c_.query(first); n < past - first; ++i)
      for (int64_t head = c_.first_head; head < c_.first_head + plan_.G; ++head) f(n++, i, head);
  }

  // The next batch's queries, and lines of this one's results, which are written when its values
  // have been multiplied.
  void prefetch_ahead(const CompressBatch& u) {
    PrefetchQueue& prefetch = b_.prefetch;
    prefetch.clear();
    each_row(u.first + u.rows, min64(u.first + 2 * u.rows, c_.tile.rows()),
             [&](int64_t, int64_t i, int64_t head) {
               prefetch.add(plan_.dtype, plan_.query,
                            c_.seg.q + i * plan_.q.row + head * plan_.q.head, plan_.D);
             });
    each_row(u.first, u.first + u.rows, [&](int64_t, int64_t i, int64_t head) {
      const int64_t stat = c_.seg.stat + i * plan_.stat.row + head * plan_.stat.head;
      prefetch.add(plan_.dtype, plan_.out, c_.seg.o + i * plan_.o.row + head * plan_.o.head,
                   plan_.Dv);
      prefetch.add(ElemType::kFloat32, plan_.softmax_max, stat, kSoftmaxLanes);
      prefetch.add(ElemType::kFloat32, plan_.softmax_sum, stat, kSoftmaxLanes);
    });
    prefetch.over(u.rows / kAmxTile * ceil_div(u.n, 2 * kAmxTile) * (depth_ / kAmxTile));
  }

  template <class Between>
  [[gnu::always_inline]] void scores(const CompressBatch& u, const Between& between) {
    for (int64_t r = 0; r < u.rows; r += 2 * kAmxTile) {
      const int64_t left = u.rows - r;
      auto rows = Variant::TileRows::together(b_.q + r * depth_, depth_, u.s + r * lds_, lds_);
      for (int64_t k = 0; k < u.n; k += 2 * kAmxTile) {
        const float* keys =
            packed_.keys + k / kKvBlockKeys * depth_ * kKvBlockKeys + k % kKvBlockKeys;
        if (left > kAmxTile) {
          Variant::template tiles<2, 2>(depth_, rows, keys, kKvBlockKeys, false, between);
        } else {
          Variant::template tiles<1, 2>(depth_, rows, keys, kKvBlockKeys, false, between);
        }
        rows.c += 2 * kAmxTile;
        rows.lower_c += 2 * kAmxTile;
      }
    }
  }

  template <class Between>
  [[gnu::always_inline]] void values(const CompressBatch& u, const Between& between) {
    for (int64_t r = 0; r < u.rows; r += 2 * kAmxTile) {
      const bool two = u.rows - r > kAmxTile;
      auto rows = Variant::TileRows::together(u.s + r * lds_, lds_, b_.o + r * ldv_, ldv_);
      int64_t d = 0;
      for (; d + 2 * kAmxTile <= lanes_v_; d += 2 * kAmxTile) {
        if (two) {
          Variant::template tiles<2, 2>(u.n / 2, rows, packed_.values + d, ldv_, false, between);
        } else {
          Variant::template tiles<1, 2>(u.n / 2, rows, packed_.values + d, ldv_, false, between);
        }
        rows.c += 2 * kAmxTile;
        rows.lower_c += 2 * kAmxTile;
      }
      if (d == lanes_v_) continue;
      if (two) {
        Variant::template tiles<2, 1>(u.n / 2, rows, packed_.values + d, ldv_, false);
      } else {
        Variant::template tiles<1, 1>(u.n / 2, rows, packed_.values + d, ldv_, false);
      }
    }
  }

  // Calls beside(work), whose products call work(n), which computes exponentials as long as there
  // are any.
  template <class Beside>
  [[gnu::always_inline]] void exponentials_beside(const Beside& beside) {
    Exponentials e = exponentials_;
    const V by = set1(plan_.scale);
    const auto work = [&](int n) NSA_INLINE {
      if (n == 3) b_.prefetch.step();
      if (e.s != e.past) e.step(by);
    };
    beside(work);
    exponentials_ = e;
  }

  // Walks a batch's rows in order: two vectors of a row at a time become exponentials in place.
  struct Exponentials {
    float *s = nullptr, *past = nullptr;  // in a row
    int64_t rows = 0;                     // after it
    int64_t n, rest;                      // of a row, from its end to the next one
    const float* base;                    // of the row
    float* sum;                           // [rows, W] lane by lane

    [[gnu::always_inline]] void step(V by) {
      const V from = set1(*base);
      const V x = exp_from(mul(load(s), by), from), y = exp_from(mul(load(s + W), by), from);
      store(s, x);
      store(s + W, y);
      // In the order of softmax_step_rows(): a query's bits do not tell how its batch was computed.
      store(sum, add(add(load(sum), x), y));
      s += 2 * W;
      if (s != past || rows == 0) return;
      --rows;
      ++base;
      sum += W;
      s += rest;
      past = s + n;
    }
  };

  // Maxima of two rows, lane by lane, ignoring NaN. Four at once, because a chain of maxima would
  // wait for each one.
  void raw_maxima(const float* row, int64_t n, V* top) const {
    V m[4];
    for (V& x : m) x = set1(-kInfinity);
    for (int64_t j = 0; j < n; j += 2 * W) {
      m[0] = max(load(row + j), m[0]);
      m[1] = max(load(row + j + W), m[1]);
      m[2] = max(load(row + lds_ + j), m[2]);
      m[3] = max(load(row + lds_ + j + W), m[3]);
    }
    top[0] = max(m[0], m[1]);
    top[1] = max(m[2], m[3]);
  }

  // The exponentials of a batch whose scores are there: against the largest of a row.
  void begin(CompressBatch& u) {
    float* top = b_.base;
    exponentials_ = {};
    bool fit = u.n > 0;
    u.summed = false;
    for (int64_t r = 0; r < u.rows; r += plan_.G) {
      const int64_t seen = c_.seg.range.hi(c_.query(u.first + r));
      for (int64_t g = r; g < r + plan_.G && seen < u.n; ++g)
        fill(u.s + g * lds_ + seen, u.n - seen, -kInfinity);
    }
    for (int64_t r0 = 0; r0 < u.rows; r0 += W) {
      V each[W];
      for (int64_t r = 0; r < W; r += 2) raw_maxima(u.s + (r0 + r) * lds_, u.n, each + r);
      const V m = mul(max_rows(each), set1(plan_.scale));
      fit = fit && in_exp_range(hmax(max(m, sub(zero(), m))));
      store(top + r0, m);
    }
    if (!fit) return exactly(u);
    for (int64_t r = 0; r < u.rows; ++r) u.state[r] = {top[r], 0.0f};
    fill(b_.sum, u.rows * W, 0.0f);
    exponentials_ = {u.s, u.s + u.n, u.rows - 1, u.n, lds_ - u.n, top, b_.sum};
  }

  // The general code for a batch's exponentials and sums, whatever its scores are.
  void exactly(CompressBatch& u) {
    RowTile tile = c_.tile;
    tile.i0 = c_.query(u.first);
    tile.queries = u.rows / plan_.G;
    const TileContext c{plan_, c_.seg, tile, c_.first_head};
    CompressTileBuffers b = b_;
    b.s = u.s;
    b.state = u.state;
    raw_scores<Variant>(plan_, c, packed_, u.n, lds_, b);
    softmax_of_rows(
        plan_, c, 0, u.rows, u.n, lds_,
        [&](int64_t r) { product_rows<Variant>(plan_, packed_, r, 1, u.n, lds_, b); }, b);
    u.summed = true;
  }

  // Ends the exponentials of the batch: sums of its rows, chosen blocks, and probabilities as
  // words.
  void settle(CompressBatch& u) {
    const V by = set1(plan_.scale);
    while (exponentials_.s != exponentials_.past) exponentials_.step(by);
    if (!u.summed) {
      bool finite = true;
      for (int64_t r0 = 0; r0 < u.rows; r0 += W) {
        V each[W];
        float sum[W];
        for (int64_t r = 0; r < W; ++r) each[r] = load(b_.sum + (r0 + r) * W);
        store(sum, sum_rows(each));
        for (int64_t r = 0; r < W; ++r) {
          u.state[r0 + r].sum = sum[r];
          finite = finite && sum[r] == sum[r];
        }
      }
      if (!finite) exactly(u);
    }
    for (int64_t r = 0; r < u.rows; r += plan_.G) {
      sum_and_pack<Variant>(u.s + r * lds_, lds_, plan_.G, u.n, u.state + r, b_.inverse, b_.prob);
      choose_for_query(plan_, imp_, c_, c_.query(u.first + r), u.n, c_.first_head / plan_.G, b_);
    }
  }

  void finish(const CompressBatch& u) {
    each_row(u.first, u.first + u.rows, [&](int64_t r, int64_t i, int64_t head) {
      finish_row(plan_, c_.seg, i, head, b_.o + r * ldv_, u.state[r]);
    });
  }

  const AttentionPlan& plan_;
  const ImportancePlan& imp_;
  const TileContext& c_;
  const PackedPair& packed_;
  CompressTileBuffers& b_;
  int64_t depth_, ldv_, lanes_v_, lds_;
  CompressBatch batch_[2];
  Exponentials exponentials_;
};

}  // namespace
}  // namespace nsa::cpu
