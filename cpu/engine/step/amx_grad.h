// The five products of the attention gradient on AMX tiles, with keys as rows and (query, head)
// rows as lanes:
//   S^T = K Q^T,  dP^T = V dO^T,  dV += P^T dO,  dK += dS^T Q,  dQ^T += K^T dS^T
// Neighbouring lanes of P^T and dS^T, rounded, are the words in which dV and dK contract over rows,
// and neighbouring rows of dS^T those in which dQ contracts over keys: nothing is transposed
// between the products, and what is loaded of a row is transposed once for all keys it meets. dK
// and dQ are without scale. Included by the unit for AMX only.
#pragma once

#include "cpu/engine/step/ahead.h"
#include "cpu/engine/step/amx_steps.h"
#include "cpu/engine/step/grad_buffers.h"
#include "cpu/engine/step/grad_tile.h"

namespace nsa::cpu {
namespace {

// Whether a loaded tile holds numbers only.
inline bool tile_is_finite(const GroupTile& tile) { return finite_bf16(load(tile.top)); }

// The 32 rows of a pair, each where it begins in memory.
struct PairRows {
  const char* q[kPairLanes];
  const char* dy[kPairLanes];
};

// Loads a tile in small steps, which fit between the products of another one. describe(n, rows,
// lanes) tells the rows of pair n, and gives whether they have moderate maxima. D and Dv are
// multiples of 32.
template <class Describe>
class GroupLoader {
 public:
  GroupLoader(const AttentionGradPlan& plan, GroupTile& tile, int64_t groups,
              const Describe& describe)
      : tile_(tile),
        describe_(describe),
        q_steps_(plan.D / (2 * W) * kSlices),
        steps_(q_steps_ + plan.Dv / (2 * W) * kSlices),
        D_(plan.D),
        Dv_(plan.Dv) {
    tile.groups = groups;
    tile.usual = true;
    store(tile.top, zero());
  }

  bool done() const { return n_ == tile_.pairs(); }

  [[gnu::noinline]] void next() {
    if (done()) return;
    if (at_ == 0) tile_.usual = describe_(n_, rows_, tile_.lanes[n_]) && tile_.usual;
    if (at_ < q_steps_) {
      slice(rows_.q, D_, at_, tile_.q_t, tile_.q_pairs);
    } else {
      slice(rows_.dy, Dv_, at_ - q_steps_, tile_.dy_t, tile_.dy_pairs);
    }
    if (++at_ < steps_) return;
    at_ = 0;
    ++n_;
  }

 private:
  // Of 16 words of all rows: both squares of the transpose, and the words of two rows by halves.
  static constexpr int64_t kSlices = 4;

  void slice(const char* const* rows, int64_t width, int64_t at, float* t, float* pairs) const {
    const int64_t d = at / kSlices * W, part = at % kSlices;
    const auto words = [&](int64_t r) { return load_words<true>(rows[r] + 4 * d, 2 * W); };
    if (part < 2) {
      t += (n_ * width / 2 + d) * kPairLanes + part * W;
      return transpose_square([&](int r) { return words(part * W + r); }, t, kPairLanes);
    }
    V top = load(tile_.top);
    const int64_t k0 = (part - 2) * (W / 2), ld = padded_row(width);
    pairs += n_ * W * ld + 2 * d;
    for (int64_t k = k0; k < k0 + W / 2; ++k) {
      const V even = words(2 * k), odd = words(2 * k + 1);
      V first, second;
      top = largest_bf16(largest_bf16(top, even), odd);
      pair_columns(even, odd, first, second);
      store(pairs + k * ld, first);
      store(pairs + k * ld + W, second);
    }
    store(tile_.top, top);
  }

  GroupTile& tile_;
  const Describe& describe_;
  int64_t q_steps_, steps_, D_, Dv_;
  int64_t n_ = 0, at_ = 0;
  PairRows rows_;
};

// P and dS of a block of keys and a pair's lanes, two keys at a time. kCut: some are not visible.
template <bool kCut>
class PairBlock {
 public:
  PairBlock(float scale, const PairLanes& lanes) : scale_(set1(scale)) {
    for (int h = 0; h < 2; ++h) {
      max_[h] = load(lanes.max + h * W);
      inv_[h] = load(lanes.inv + h * W);
      delta_[h] = load(lanes.delta + h * W);
      if (!kCut) continue;
      lo_[h] = load(lanes.lo + h * W);
      hi_[h] = load(lanes.hi + h * W);
    }
  }

  // Keys j and j + 1 of the block, whose first is key `from` of the segment.
  [[gnu::always_inline]] void two_keys(int64_t j, int64_t from, const float* s, const float* dp,
                                       float* p, float* ds, float* ds_keys) const {
    V words[2];
#pragma GCC unroll 2
    for (int64_t e = 0; e < 2; ++e) {
      V x[2], y[2];
#pragma GCC unroll 2
      for (int64_t h = 0; h < 2; ++h) {
        const int64_t at = (j + e) * kPairLanes + h * W;
        x[h] = mul(exp_beside(mul(load(s + at), scale_), max_[h]), inv_[h]);
        if (kCut) {
          const V key = set1(static_cast<float>(from + j + e));
          x[h] = where_lt(key, lo_[h], zero(), where_lt(key, hi_[h], x[h], zero()));
        }
        y[h] = score_grad(x[h], load(dp + at), delta_[h]);
      }
      store_bf16_pair(p + (j + e) * kRowWords, x[0], x[1]);
      words[e] = bf16_pair(y[0], y[1]);
      store(ds + (j + e) * kRowWords, words[e]);
    }
    V low, high;
    interleave_bf16(words[0], words[1], low, high);
    store(ds_keys + j / 2 * GroupBuffers::kLanes, low);
    store(ds_keys + j / 2 * GroupBuffers::kLanes + W, high);
  }

 private:
  V scale_, max_[2], inv_[2], delta_[2], lo_[2], hi_[2];
};

// Where a tile's sums are.
struct GroupSums {
  float *dk, *dv;  // [lanes, D], [lanes, Dv]: rows ld_dk and ld_dv apart
  int64_t ld_dk, ld_dv;
  float* dq[2 * kTilePairs];  // [D, kGroupRows] each
};

// A tile against a block of keys.
class GroupStep {
 public:
  GroupStep(const AttentionGradPlan& plan, const GroupKeys& keys, const GroupTile& tile,
            const GroupBuffers& b, Ahead& ahead)
      : plan_(plan), keys_(keys), tile_(tile), b_(b), ahead_(ahead) {}

  // How often it calls ahead.step().
  static int64_t asked(const AttentionGradPlan& plan, int64_t pairs, int64_t lanes) {
    const int64_t blocks = lanes / kBlockRows;
    return blocks * (2 * pairs + (plan.D + plan.Dv) / kPairLanes) + pairs * plan.D / kBlockRows;
  }

  // P and dS of pairs [n0, n1). cut(n): not all lanes of pair n see all keys. One operand after the
  // other: its keys then stay in the first-level cache while the pairs pass.
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

  // What P and dS of pairs [n0, n1) add to. other(): what is done beside it, in steps.
  template <class Other>
  void sums(int64_t n0, int64_t n1, const GroupSums& to, const Other& other) const {
    const int64_t row = n0 * kAmxTile, words = (n1 - n0) * kAmxTile;
    key_sums(words, b_.p + row, tile_.dy_pairs + row * padded_row(plan_.Dv), plan_.Dv, to.dv,
             to.ld_dv, other);
    key_sums(words, b_.ds + row, tile_.q_pairs + row * padded_row(plan_.D), plan_.D, to.dk,
             to.ld_dk, other);
    for (int64_t n = n0; n < n1; ++n) query_sums(n, to, other);
  }

 private:
  // Blocks of a pair follow each other in to [pairs, lanes, kPairLanes].
  void products(int64_t n0, int64_t n1, const float* rows, int64_t ld, const float* t,
                int64_t words, float* to) const {
    for (int64_t n = n0; n < n1; ++n) {
      for (int64_t j = 0; j < keys_.lanes; j += kBlockRows) {
        ahead_.step();
        amx_block<2, 2>(words,
                        AmxRows::together(rows + j * ld, ld,
                                          to + (n * keys_.lanes + j) * kPairLanes, kPairLanes),
                        t + n * words * kPairLanes, kPairLanes, false);
      }
    }
  }

  template <bool kCut>
  void probabilities(int64_t n) const {
    const PairBlock<kCut> block(plan_.scale, tile_.lanes[n]);
    const int64_t at = n * keys_.lanes * kPairLanes;
    for (int64_t j = 0; j < keys_.lanes; j += 2)
      block.two_keys(j, keys_.j0, b_.scores + at, b_.products + at, b_.p + n * kAmxTile,
                     b_.ds + n * kAmxTile, b_.ds_keys + n * kPairLanes);
  }

  // sums [lanes, width] += a, words of rows, times b.
  template <class Other>
  void key_sums(int64_t words, const float* a, const float* b, int64_t width, float* sums,
                int64_t ld, const Other& other) const {
    const auto between = [&](int at) NSA_INLINE {
      if (at % 2 == 1) other();
    };
    for (int64_t d = 0; d < width; d += kPairLanes) {
      for (int64_t j = 0; j < keys_.lanes; j += kBlockRows) {
        ahead_.step();
        amx_block<2, 2>(words,
                        AmxRows::together(a + j * kRowWords, kRowWords, sums + j * ld + d, ld),
                        b + d, padded_row(width), true, between);
      }
    }
  }

  // dQ of a pair.
  template <class Other>
  void query_sums(int64_t pair, const GroupSums& sums, const Other& other) const {
    const auto between = [&](int at) NSA_INLINE {
      if (at % 2 == 1) other();
    };
    const int64_t words = keys_.lanes / 2;
    float *even = sums.dq[2 * pair], *odd = sums.dq[2 * pair + 1];
    for (int64_t d = 0; d < plan_.D; d += kBlockRows) {
      ahead_.step();
      AmxRows rows = AmxRows::together(keys_.kt + d * keys_.ld_kt, keys_.ld_kt,
                                       even + d * kGroupRows, kGroupRows);
      rows.next = odd - even;
      amx_block<2, 2>(words, rows, b_.ds_keys + pair * kPairLanes, GroupBuffers::kLanes, true,
                      between);
    }
  }

  const AttentionGradPlan& plan_;
  const GroupKeys& keys_;
  const GroupTile& tile_;
  const GroupBuffers& b_;
  Ahead& ahead_;
};

}  // namespace
}  // namespace nsa::cpu
