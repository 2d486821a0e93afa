// The five products of the attention gradient on AMX tiles, with keys as rows and (query, head)
// rows as lanes:
//   S^T = K Q^T,  dP^T = V dO^T,  dV += P^T dO,  dK += dS^T Q,  dQ^T += K^T dS^T
// Neighbouring lanes of P^T and dS^T, rounded, are the words in which dV and dK contract over rows,
// and neighbouring rows of dS^T those in which dQ contracts over keys: nothing is transposed
// between the products, and what is loaded of a row is transposed once for all keys it meets. dK
// and dQ are without scale. Included by the translation unit for AMX only.
#pragma once

#include "cpu/engine/step/amx.h"
#include "cpu/engine/step/grad_tile.h"
#include "cpu/engine/step/gradient.h"
#include "cpu/engine/step/tile_matmul.h"

namespace nsa::cpu {
namespace {

// Whether a loaded tile is all finite.
inline bool tile_is_finite(const Tile16Rows& tile) { return finite_bf16(load(tile.top)); }

// The 32 rows of a 32-row tile, each where it begins in memory.
struct Tile32Rows {
  const char* q[kTile32Lanes];
  const char* dy[kTile32Lanes];
};

// Loads a tile in small steps, which fit between the products of another one. describe(n, rows,
// lanes) tells the rows of 32-row tile n, and gives whether they have maxima in the range of exp. D
// and Dv are multiples of 32.
template <class Describe>
class Tile16Loader {
 public:
  Tile16Loader(const AttentionGradPlan& plan, Tile16Rows& tile, int64_t tile16s,
               const Describe& describe)
      : tile_(tile),
        describe_(describe),
        q_steps_(plan.D / (2 * W) * kSlices),
        steps_(q_steps_ + plan.Dv / (2 * W) * kSlices),
        D_(plan.D),
        Dv_(plan.Dv) {
    tile.tile16s = tile16s;
    tile.in_range = true;
    store(tile.top, zero());
  }

  bool done() const { return n_ == tile_.tile32s(); }

  [[gnu::noinline]] void next() {
    if (done()) return;
    if (at_ == 0) tile_.in_range = describe_(n_, rows_, tile_.lanes[n_]) && tile_.in_range;
    if (at_ < q_steps_) {
      slice(rows_.q, D_, at_, tile_.q_t, tile_.q_words);
    } else {
      slice(rows_.dy, Dv_, at_ - q_steps_, tile_.dy_t, tile_.dy_words);
    }
    if (++at_ < steps_) return;
    at_ = 0;
    ++n_;
  }

 private:
  // Slices of 16 words of all rows: two 16 x 16 transposes, and two halves of the row words.
  static constexpr int64_t kSlices = 4;

  void slice(const char* const* rows, int64_t width, int64_t at, float* t, float* two_rows) const {
    const int64_t d = at / kSlices * W, quarter = at % kSlices;
    const auto words = [&](int64_t r) { return load_words<true>(rows[r] + 4 * d, 2 * W); };
    if (quarter < 2) {
      t += (n_ * width / 2 + d) * kTile32Lanes + quarter * W;
      return transpose_16x16([&](int r) { return words(quarter * W + r); }, t, kTile32Lanes);
    }
    V top = load(tile_.top);
    const int64_t k0 = (quarter - 2) * (W / 2), ld = padded_row(width);
    two_rows += n_ * W * ld + 2 * d;
    for (int64_t k = k0; k < k0 + W / 2; ++k) {
      const V even = words(2 * k), odd = words(2 * k + 1);
      V first, second;
      top = largest_bf16(largest_bf16(top, even), odd);
      word_columns(even, odd, first, second);
      store(two_rows + k * ld, first);
      store(two_rows + k * ld + W, second);
    }
    store(tile_.top, top);
  }

  Tile16Rows& tile_;
  const Describe& describe_;
  int64_t q_steps_, steps_, D_, Dv_;
  int64_t n_ = 0, at_ = 0;
  Tile32Rows rows_;
};

// P and dS of a KV block and a 32-row tile's lanes, two keys at a time. kCut: some are not visible.
template <bool kCut>
class Tile32Scores {
 public:
  Tile32Scores(float scale, const Tile32Lanes& lanes) : scale_(set1(scale)) {
    for (int h = 0; h < 2; ++h) {
      max_[h] = load(lanes.max + h * W);
      inv_[h] = load(lanes.inv + h * W);
      delta_[h] = load(lanes.delta + h * W);
      if (!kCut) continue;
      lo_[h] = load(lanes.lo + h * W);
      hi_[h] = load(lanes.hi + h * W);
    }
  }

  // Keys j and j + 1 of the KV block, whose first is key `from` of the segment.
  [[gnu::always_inline]] void two_keys(int64_t j, int64_t from, const float* s, const float* dp,
                                       float* p, float* ds, float* ds_keys) const {
    V words[2];
#pragma GCC unroll 2
    for (int64_t e = 0; e < 2; ++e) {
      V x[2], y[2];
#pragma GCC unroll 2
      for (int64_t h = 0; h < 2; ++h) {
        const int64_t at = (j + e) * kTile32Lanes + h * W;
        x[h] = mul(exp_beside(mul(load(s + at), scale_), max_[h]), inv_[h]);
        if (kCut) {
          const V key = set1(static_cast<float>(from + j + e));
          x[h] = where_lt(key, lo_[h], zero(), where_lt(key, hi_[h], x[h], zero()));
        }
        y[h] = score_grad(x[h], load(dp + at), delta_[h]);
      }
      store_joined_bf16(p + (j + e) * kRowWords, x[0], x[1]);
      words[e] = join_bf16(y[0], y[1]);
      store(ds + (j + e) * kRowWords, words[e]);
    }
    V low, high;
    interleave_bf16(words[0], words[1], low, high);
    store(ds_keys + j / 2 * Tile16Buffers::kLanes, low);
    store(ds_keys + j / 2 * Tile16Buffers::kLanes + W, high);
  }

 private:
  V scale_, max_[2], inv_[2], delta_[2], lo_[2], hi_[2];
};

// Where a tile's sums are.
struct Tile16Sums {
  float *dk, *dv;  // [lanes, D], [lanes, Dv]: rows ld_dk and ld_dv apart
  int64_t ld_dk, ld_dv;
  float* dq[2 * kMostTile32];  // [D, kTile16Rows] each
};

// A tile against a KV block, or two of them.
class Tile16Step {
 public:
  Tile16Step(const AttentionGradPlan& plan, const Tile16Keys& keys, const Tile16Rows& tile,
             const Tile16Buffers& b, PrefetchQueue& prefetch)
      : plan_(plan), keys_(keys), tile_(tile), b_(b), prefetch_(prefetch) {}

  // How often it calls ahead.step().
  static int64_t prefetch_steps(const AttentionGradPlan& plan, int64_t tile32s, int64_t lanes) {
    const int64_t products = lanes / kProductKeys;
    return products * (2 * tile32s + (plan.D + plan.Dv) / kTile32Lanes) +
           tile32s * plan.D / kProductKeys;
  }

  // P and dS of 32-row tiles [n0, n1). cut(n): not all lanes of 32-row tile n see all keys. One
  // operand after the other: its keys then stay in the first-level cache while the 32-row tiles
  // pass.
  template <class Cut>
  void scores(int64_t n0, int64_t n1, const Cut& cut) const {
    products(n0, n1, keys_.k, keys_.ld_k, tile_.q_t, plan_.D / 2, b_.scores);
    products(n0, n1, keys_.v, keys_.ld_v, tile_.dy_t, plan_.Dv / 2, b_.products);
    for (int64_t n = n0; n < n1; ++n) {
      if (cut(n)) {
        probabilities<true>(n);
      } else {
        probabilities<false>(n);
      }
    }
  }

  // Accumulates dV, dK and dQ of 32-row tiles [n0, n1). Calls other() between the products.
  template <class Other>
  void sums(int64_t n0, int64_t n1, const Tile16Sums& to, const Other& other) const {
    const int64_t row = n0 * kAmxTile, words = (n1 - n0) * kAmxTile;
    key_sums(words, b_.p + row, tile_.dy_words + row * padded_row(plan_.Dv), plan_.Dv, to.dv,
             to.ld_dv, other);
    key_sums(words, b_.ds + row, tile_.q_words + row * padded_row(plan_.D), plan_.D, to.dk,
             to.ld_dk, other);
    for (int64_t n = n0; n < n1; ++n) query_sums(n, to, other);
  }

 private:
  // Products of a 32-row tile follow each other in to [32-row tiles, lanes, kTile32Lanes].
  void products(int64_t n0, int64_t n1, const float* rows, int64_t ld, const float* t,
                int64_t words, float* to) const {
    for (int64_t n = n0; n < n1; ++n) {
      for (int64_t j = 0; j < keys_.lanes; j += kProductKeys) {
        prefetch_.step();
        amx_tiles<2, 2>(words,
                        AmxRows::together(rows + j * ld, ld,
                                          to + (n * keys_.lanes + j) * kTile32Lanes, kTile32Lanes),
                        t + n * words * kTile32Lanes, kTile32Lanes, false);
      }
    }
  }

  template <bool kCut>
  void probabilities(int64_t n) const {
    const Tile32Scores<kCut> tile32(plan_.scale, tile_.lanes[n]);
    const int64_t at = n * keys_.lanes * kTile32Lanes;
    for (int64_t j = 0; j < keys_.lanes; j += 2)
      tile32.two_keys(j, keys_.j0, b_.scores + at, b_.products + at, b_.p + n * kAmxTile,
                      b_.ds + n * kAmxTile, b_.ds_keys + n * kTile32Lanes);
  }

  // sums [lanes, width] += a, words of rows, times b.
  template <class Other>
  void key_sums(int64_t words, const float* a, const float* b, int64_t width, float* sums,
                int64_t ld, const Other& other) const {
    const auto between = [&](int at) NSA_INLINE {
      if (at % 2 == 1) other();
    };
    for (int64_t d = 0; d < width; d += kTile32Lanes) {
      for (int64_t j = 0; j < keys_.lanes; j += kProductKeys) {
        prefetch_.step();
        amx_tiles<2, 2>(words,
                        AmxRows::together(a + j * kRowWords, kRowWords, sums + j * ld + d, ld),
                        b + d, padded_row(width), true, between);
      }
    }
  }

  // dQ of a 32-row tile.
  template <class Other>
  void query_sums(int64_t tile32, const Tile16Sums& sums, const Other& other) const {
    const auto between = [&](int at) NSA_INLINE {
      if (at % 2 == 1) other();
    };
    const int64_t words = keys_.lanes / 2;
    float *even = sums.dq[2 * tile32], *odd = sums.dq[2 * tile32 + 1];
    for (int64_t d = 0; d < plan_.D; d += kProductKeys) {
      prefetch_.step();
      AmxRows rows = AmxRows::together(keys_.kt + d * keys_.ld_kt, keys_.ld_kt,
                                       even + d * kTile16Rows, kTile16Rows);
      rows.next = odd - even;
      amx_tiles<2, 2>(words, rows, b_.ds_keys + tile32 * kTile32Lanes, Tile16Buffers::kLanes, true,
                      between);
    }
  }

  const AttentionGradPlan& plan_;
  const Tile16Keys& keys_;
  const Tile16Rows& tile_;
  const Tile16Buffers& b_;
  PrefetchQueue& prefetch_;
};

// Shared by the gradients on 16-row tiles: packing keys for Tile16Step, describing rows to
// Tile16Loader, and the sums of keys.

// A KV block in the forms of Tile16Keys. kt: where its words of two keys go, ld_kt apart. tmp:
// [lanes / 2, D padded].
inline void pack_tile16_keys(const PairKeys& keys, const GradScratch& s, float* kt, int64_t ld_kt,
                             float* tmp) {
  const AttentionGradPlan& plan = keys.plan;
  const int64_t at = keys.at, lanes = keys.lanes;
  pack_key_rows<AmxVariant>(keys, tmp);
  s.finite[at] = packed_finite<AmxVariant>(tmp, words<AmxVariant>(lanes) * padded_row(plan.D));
  const auto rows = [&](const TensorRows& from, int64_t width, float* dst) {
    const int64_t ld = padded_row(width / 2);
    for (int64_t j = 0; j < lanes; ++j, dst += ld) {
      if (j < from.n) {
        pack_row<AmxVariant>(from.t, from.src, from.at(j), width, dst);
      } else {
        fill(dst, width / 2, 0.0f);
      }
    }
  };
  const int64_t ld = padded_row(plan.D), count = lanes / 2;
  rows(keys_of(plan, keys.rows()), plan.D, s.key_rows + at * lanes * padded_row(plan.D / 2));
  rows(values_of(plan, keys.rows()), plan.Dv, s.value_rows + at * lanes * padded_row(plan.Dv / 2));
  for (int64_t w = 0; w < count; w += W)
    for (int64_t d = 0; d < plan.D; d += W)
      transpose_16x16(tmp + w * ld + d, ld, kt + d * ld_kt + w, ld_kt);
}

// The scratch with a KV block in the forms of GradKeys, which few tiles or none read: those
// that do pack them for themselves, as others may work on the same keys.
inline GradScratch pack_keys_apart(const PairKeys& keys, const GradScratch& s,
                                   const WorkItemBuffers& b) {
  const auto& [plan, pair, at, lanes, j0, n] = keys;
  GradScratch apart = s;
  apart.keys_t = b.tile16s.keys_t - at * words<AmxVariant>(plan.D) * lanes;
  apart.values_t = b.tile16s.values_t - at * words<AmxVariant>(plan.Dv) * lanes;
  apart.keys = b.tile16s.keys - at * words<AmxVariant>(lanes) * padded_row(plan.D);
  pack_grad_keys<AmxVariant>(keys, apart, b.tile.tmp);
  return apart;
}

inline Tile16Keys tile16_keys(const AttentionGradPlan& plan, const GradScratch& s, int64_t at,
                              int64_t lanes, int64_t j0) {
  const int64_t ld_k = padded_row(plan.D / 2), ld_v = padded_row(plan.Dv / 2);
  return {s.key_rows + at * lanes * ld_k,
          s.value_rows + at * lanes * ld_v,
          s.key_words_t + at * plan.D * lanes / 2,
          lanes,
          ld_k,
          ld_v,
          lanes / 2,
          j0};
}

// The first or second 16-row tile of a 32-row tile: `there` rows from query i and head on, the
// others being zeros.
struct Tile16OfRows {
  int64_t turn, there = 0, i = 0, head = 0;
};

// Puts them into the 32-row tile, without the keys that its rows see. False: some row's maximum is
// not in the range of exp.
inline bool put_tile16(const AttentionGradPlan& plan, const GradPair& pair, Tile16OfRows of,
                       const float* zeros, Tile32Rows& rows, Tile32Lanes& lanes) {
  const int64_t turn = of.turn, there = of.there, i = of.i, head = of.head;
  const auto nothing = [&](int64_t lane) {
    rows.q[lane] = rows.dy[lane] = reinterpret_cast<const char*>(zeros);
    lanes.max[lane] = lanes.inv[lane] = lanes.delta[lane] = 0.0f;
    lanes.lo[lane] = lanes.hi[lane] = 0.0f;
  };
  if (there <= 0) {
    for (int64_t r = 0; r < kTile16Rows; ++r) nothing(tile16_lane(turn, r));
    return true;
  }
  const Segment& seg = plan.segments[pair.segment];
  const bool heads = plan.tile16s == GradTile16::kHeads;
  const int64_t q_step = 2 * (heads ? plan.q.head : plan.q.row);
  const int64_t dy_step = 2 * (heads ? plan.o.head : plan.o.row), step = heads ? 1 : plan.G;
  const char* q =
      static_cast<const char*>(plan.query) + 2 * (seg.q + i * plan.q.row + head * plan.q.head);
  const char* dy =
      static_cast<const char*>(plan.dy) + 2 * (seg.o + i * plan.o.row + head * plan.o.head);
  const int64_t at = i * plan.G + head - pair.kv_head * plan.G;
  const float *max = pair.max + at, *inv = pair.inv + at, *delta = pair.delta + at;
  bool in_range = true;
  for (int64_t r = 0; r < kTile16Rows; ++r) {
    const int64_t lane = tile16_lane(turn, r);
    if (r >= there) {
      nothing(lane);
      continue;
    }
    rows.q[lane] = q + r * q_step;
    rows.dy[lane] = dy + r * dy_step;
    lanes.max[lane] = max[r * step];
    lanes.inv[lane] = inv[r * step];
    lanes.delta[lane] = delta[r * step];
    in_range = in_range && in_exp_range(max[r * step]);
  }
  return in_range;
}

// Where dK and dV of a KV block's n keys are summed: in the accumulators, or, where those end
// before its lanes, in the work item's.
inline Tile16Sums tile16_key_sums(const AttentionGradPlan& plan, const GradPair& pair,
                                  const Tile16Keys& keys, int64_t n, const WorkItemBuffers& b) {
  Tile16Sums sums{};
  if (n == keys.lanes) {
    sums.dk = pair.dk + keys.j0 * pair.dk_row;
    sums.dv = pair.dv + keys.j0 * pair.dv_row;
    sums.ld_dk = pair.dk_row;
    sums.ld_dv = pair.dv_row;
    return sums;
  }
  sums.dk = b.dk;
  sums.dv = b.dv;
  sums.ld_dk = padded_row(plan.D);
  sums.ld_dv = padded_row(plan.Dv);
  fill(b.dk, keys.lanes * sums.ld_dk, 0.0f);
  fill(b.dv, keys.lanes * sums.ld_dv, 0.0f);
  return sums;
}

// In the second case they go to the accumulators.
inline void finish_key_sums(const AttentionGradPlan& plan, const GradPair& pair,
                            const Tile16Keys& keys, int64_t n, const WorkItemBuffers& b) {
  if (n == keys.lanes) return;
  for (int64_t j = 0; j < n; ++j) {
    float *dk = pair.dk + (keys.j0 + j) * pair.dk_row, *dv = pair.dv + (keys.j0 + j) * pair.dv_row;
    add_scaled(dk, b.dk + j * padded_row(plan.D), plan.D, 1.0f);
    add_scaled(dv, b.dv + j * padded_row(plan.Dv), plan.Dv, 1.0f);
  }
}

// delta of rows [first, past), at most 16: the diagonal of the product of dO and O^T, whose sums
// have the order of row_dot()'s. In 16-row tiles their statistics as well. Dv is a multiple of 32.
template <class Variant>
inline void prepare_rows(const AttentionGradPlan& plan, const GradPair& pair, int64_t first,
                         int64_t past, GradBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t depth = plan.Dv / 2, count = past - first;
  const char* out[W];
  float *dy = b.dy, *out_t = dy + W * depth;
  alignas(64) float square[W * W];
  for (int64_t n = 0; n < W; ++n) {
    const int64_t r = first + min64(n, count - 1), i = r / plan.G;
    const int64_t head = pair.kv_head * plan.G + r % plan.G;
    const int64_t at = 2 * (seg.o + i * plan.o.row + head * plan.o.head);
    out[n] = static_cast<const char*>(plan.out) + at;
    const char* row = static_cast<const char*>(plan.dy) + at;
    for (int64_t d = 0; d < depth; d += W)
      store(dy + n * depth + d, load_words<true>(row + 4 * d, 2 * W));
    if (!plan.uses_tile16()) continue;
    const int64_t stat = seg.stat + i * plan.stat.row + head * plan.stat.head;
    pair.max[r] = plan.softmax_max[stat];
    pair.inv[r] = SoftmaxState::inverse_of(pair.max[r], plan.softmax_sum[stat]);
  }
  for (int64_t d = 0; d < depth; d += W)
    transpose_16x16([&](int n) { return load_words<true>(out[n] + 4 * d, 2 * W); }, out_t + d * W,
                    W);
  amx_tiles<1, 1>(depth, AmxRows::together(dy, depth, square, W), out_t, W, false);
  for (int64_t n = 0; n < count; ++n) pair.delta[first + n] = square[n * W + n];
  add_sum_grads(plan, pair, first, past);
}

// Scales dq of a 16-row tile, whose first row goes to `at` of the output, and rounds it: `rows` of
// them, `row` apart.
inline void write_dq_tile16(const AttentionGradPlan& plan, const float* tile16, int64_t at,
                            int64_t rows, int64_t row) {
  alignas(64) float square[W * W];
  static_assert(W == kGradTile16);
  for (int64_t d = 0; d < plan.D; d += W) {
    transpose_16x16(tile16 + d * W, W, square, W);
    scale_row(square, W * W, plan.scale);
    for (int64_t n = 0; n < rows; ++n)
      from_float(plan.dtype, square + n * W, W, plan.dq, at + n * row + d);
  }
}

// Writes dq of the 16-row tiles that begin with query i.
template <class Variant>
inline void write_dq_tile16s(const AttentionGradPlan& plan, const GradPair& pair, int64_t i) {
  const Segment& seg = plan.segments[pair.segment];
  const bool heads = plan.tile16s == GradTile16::kHeads;
  if (!heads && i % W != 0) return;
  const int64_t rows = heads ? W : min64(W, seg.q_len - i);
  const int64_t row = heads ? plan.q.head : plan.q.row;
  for (int64_t g = 0; g < plan.G; g += heads ? W : 1) {
    const int64_t at = seg.q + i * plan.q.row + (pair.kv_head * plan.G + g) * plan.q.head;
    write_dq_tile16(plan, dq_tile16(plan, pair, i, g), at, rows, row);
  }
}

// dk and dv of `count` keys from key j0 on, added up from the slots, without scale.
inline void add_slots(const AttentionGradPlan& plan, const GradPair& pair, int64_t j0,
                      int64_t count, float* dk, float* dv) {
  const Segment& seg = plan.segments[pair.segment];
  fill(dk, count * plan.D, 0.0f);
  fill(dv, count * plan.Dv, 0.0f);
  for (int64_t n = 0; n < pair.slots; ++n) {
    const SlotKeys keys(seg, pair, n);
    const int64_t from = max64(j0, keys.first), past = min64(j0 + count, keys.past);
    if (from >= past) continue;
    const int64_t at = n * pair.slot_keys + from - keys.first;
    add_scaled(dk + (from - j0) * plan.D, pair.dk + at * plan.D, (past - from) * plan.D, 1.0f);
    add_scaled(dv + (from - j0) * plan.Dv, pair.dv + at * plan.Dv, (past - from) * plan.Dv, 1.0f);
  }
}

// Rounds dk and dv to the outputs where they are in slots.
template <class Variant>
inline void write_slot_sums(const Member& member, const AttentionGradPlan& plan,
                            const GradPair& pair, WorkItemBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  member.static_for(ceil_div(seg.kv_len, kKvBlockKeys), [&](int64_t n) {
    const int64_t j0 = n * kKvBlockKeys, count = min64(kKvBlockKeys, seg.kv_len - j0);
    add_slots(plan, pair, j0, count, b.dk, b.dv);
    scale_row(b.dk, count * plan.D, plan.scale);
    for (int64_t j = 0; j < count; ++j) {
      from_float(plan.dtype, b.dk + j * plan.D, plan.D, plan.dk,
                 seg.k + (j0 + j) * plan.k.row + pair.kv_head * plan.k.head);
      from_float(plan.dtype, b.dv + j * plan.Dv, plan.Dv, plan.dv,
                 seg.v + (j0 + j) * plan.v.row + pair.kv_head * plan.v.head);
    }
  });
}

template <class Variant>
inline int64_t tile16_steps(const AttentionGradPlan& plan, int64_t rows, int64_t keys) {
  return Tile16Step::prefetch_steps(plan, ceil_div(rows, kTile32Lanes), keys);
}

}  // namespace
}  // namespace nsa::cpu
