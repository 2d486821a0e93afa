// Forwards on AMX tiles: of many keys in sweeps, of queries that see few keys one query after the
// other, and of gathered rows where they lie in memory. Included by the translation unit for AMX
// only.
//
// In the last two a tile of rows is heads of a query, and meets a few KV blocks at a time,
// wherever they are. Keys and values are best in the second-level cache and are loaded past the
// first, where there is just room for the rest: two 16-row tiles' scores, which become
// probabilities in place, and the rows. Exponentials are computed between the products of the
// 16-row tile after and those of the one before.
#pragma once

#include "cpu/engine/step/amx.h"
#include "cpu/engine/step/amx_buffers.h"
#include "cpu/engine/step/forward.h"
#include "cpu/engine/step/online_softmax.h"

namespace nsa::cpu {
namespace {

// Words of bf16: keys [depth, kKvBlockKeys], values [words(kKvBlockKeys), padded_row(Dv)], as
// pack_kv_block() leaves them.
struct BFloat16Gathered {
  static constexpr WordForm kForm = AmxVariant::kForm;
  // Between rows of scores, which become rows of words.
  static constexpr int64_t kRow = kKvBlockKeys;

  // Outputs are so many times too large, raw products the square of it.
  static constexpr float kScale = 1.0f;

  static V exponential(V score, V base) { return exp_beside(score, base); }
  static int64_t value_row(int64_t Dv) { return padded_row(Dv); }

  template <class Between>
  [[gnu::always_inline]] static void scores(int64_t depth, const float* q, int64_t ldq,
                                            const float* keys, const Between& between) {
    amx_wide(depth, q, ldq, keys, kKvBlockKeys, between);
  }
  // Four tiles of columns from d on.
  template <class Between>
  [[gnu::always_inline]] static void values(const float* p, const float* v, int64_t ldv, int64_t d,
                                            const Between& between) {
    amx_wide(kKvBlockKeys / 2, p, kRow, v + d, ldv, between);
  }
  // One tile of them, of o.
  static void one_value(const float* p, const float* v, int64_t ldv, int64_t d, float* o,
                        int64_t ldo) {
    amx_tiles<1, 1>(kKvBlockKeys / 2, AmxRows::together(p, kRow, o + d, ldo), v + d, ldv, true);
  }
  // A row of probabilities, in fours of vectors.
  [[gnu::always_inline]] static void put(float* row, V a, V b, V c, V d) {
    store_joined_bf16(row, a, b);
    store_joined_bf16(row + W, c, d);
  }
};

template <class Form>
inline void take_gathered(const AttentionPlan& plan, const GatheredStates& states, int64_t rows,
                          float* o, SoftmaxState* state) {
  const int64_t lanes = round_up(plan.Dv, kLanePad);
  for (int64_t r = 0; r < rows; ++r, o += padded_row(plan.Dv)) {
    if (Form::kScale != 1.0f) scale_row(o, lanes, 1.0f / Form::kScale);
    state[r] = states.row(r, o, lanes);
  }
}

// Form: BFloat16Gathered, or that of bf16x3.
template <class Form>
class GatheredSteps {
 public:
  GatheredSteps(const AttentionPlan& plan, int64_t ldq, const GatheredStates& states,
                const GatheredBuffers& b, PrefetchQueue* prefetch)
      : states_(states),
        b_(b),
        prefetch_(prefetch),
        ldq_(ldq),
        depth_(Form::kForm.words(plan.D)),
        scale_(plan.scale / (Form::kScale * Form::kScale)) {
    ldo_ = padded_row(plan.Dv);
    ldv_ = Form::value_row(plan.Dv);
    lanes_v_ = round_up(plan.Dv, kLanePad);
  }

  // Rows of the KV blocks that are added next, of one query: q words and o as in a 16-row tile.
  void rows(const float* q, float* o, int64_t row) {
    if (next().count > 0) run();
    open(q, o, row);
  }

  void meet(const GatheredKvBlock& kv_block) {
    GatheredTile16& tile16 = next();
    tile16.kv_blocks[tile16.count++] = kv_block;
    if (tile16.count < GatheredTile16::kMost) return;
    run();
    open(tile16.q, tile16.o, tile16.row);
  }

  // After it all rows have their states and outputs.
  void finish() {
    if (next().count > 0) run();
    settle();
    const GatheredTile16& last = tile16_[(count_ + 1) % 2];
    values(last, last.kv_blocks, last.count, scores_of(last), Nothing{});
  }

 private:
  static constexpr int64_t kRow = Form::kRow, kKvBlockScores = kAmxTile * kRow;

  GatheredTile16& next() { return tile16_[count_ % 2]; }

  void open(const float* q, float* o, int64_t row) {
    GatheredTile16& tile16 = next();
    tile16.q = q;
    tile16.o = o;
    tile16.row = row;
    tile16.count = 0;
  }

  // The 16-row tile's scores are there at the end, some of its exponentials, and all of the 16-row
  // tile before.
  void run() {
    const GatheredTile16 &now = tile16_[count_ % 2], &before = tile16_[(count_ + 1) % 2];
    exponentials_beside([&](const auto& work) NSA_INLINE { scores(now, work); });
    settle();
    begin();
    exponentials_beside([&](const auto& work) NSA_INLINE {
      values(before, before.kv_blocks, before.count, scores_of(before), work);
    });
    ++count_;
  }

  float* scores_of(const GatheredTile16& u) const {
    return b_.scores + (&u - tile16_) * GatheredTile16::kMost * kKvBlockScores;
  }

  template <class Between>
  [[gnu::always_inline]] void scores(const GatheredTile16& u, const Between& between) const {
    float* s = scores_of(u);
    for (int64_t n = 0; n < u.count; ++n, s += kKvBlockScores) {
      amx_wide_zero();
      Form::scores(depth_, u.q, ldq_, u.kv_blocks[n].keys, between);
      amx_wide_store(s, kRow);
    }
  }

  // Adds the values of `count` KV blocks of a 16-row tile; its probabilities are at p.
  template <class Between>
  [[gnu::always_inline]] void values(const GatheredTile16& u, const GatheredKvBlock* kv_blocks,
                                     int64_t count, const float* p, const Between& between) const {
    int64_t d = 0;
    for (; d + kAmxWide <= lanes_v_ && count > 0; d += kAmxWide) {
      amx_wide_load(u.o + d, ldo_);
      for (int64_t n = 0; n < count; ++n)
        Form::values(p + n * kKvBlockScores, kv_blocks[n].values, ldv_, d, between);
      amx_wide_store(u.o + d, ldo_);
    }
    for (; d < lanes_v_; d += kAmxTile) {
      for (int64_t n = 0; n < count; ++n)
        Form::one_value(p + n * kKvBlockScores, kv_blocks[n].values, ldv_, d, u.o, ldo_);
    }
  }

  // Calls beside(work), whose products call work(n), which does rows of exponentials as long as
  // there are any.
  template <class Beside>
  [[gnu::always_inline]] void exponentials_beside(const Beside& beside) {
    float* s = next_;
    float* const past = past_;
    const V by = set1(scale_);
    const auto work = [&](int n) NSA_INLINE {
      if (n % 2 == 0 || s == past) return;
      prefetch_->step();
      exponentials(s, by);
      s += kRow;
    };
    beside(work);
    next_ = s;
  }

  // Exponentials of one row of a KV block's scores.
  [[gnu::always_inline]] void exponentials(float* s, V by) const {
    const int64_t r = (s - b_.scores) / kRow % kAmxTile;
    const V base = set1(b_.base[r]);
    float *sum = b_.sum + r * W, *top = b_.top + r * W;
    const V a = load(s), b = load(s + W), c = load(s + 2 * W), d = load(s + 3 * W);
    // The second operand is what max() gives where one of both is NaN.
    store(top, max(d, max(c, max(b, max(a, load(top))))));
    const V x = Form::exponential(mul(a, by), base), y = Form::exponential(mul(b, by), base);
    const V z = Form::exponential(mul(c, by), base), w = Form::exponential(mul(d, by), base);
    Form::put(s, x, y, z, w);
    store(sum, add(load(sum), add(add(x, y), add(z, w))));
  }

  // Scores of a KV block become -inf where the rows do not see the key.
  static void hide(const GatheredKvBlock& kv_block, float* s) {
    if (kv_block.lo == 0 && kv_block.hi == kKvBlockKeys) return;
    const V lo = set1(static_cast<float>(kv_block.lo)), hi = set1(static_cast<float>(kv_block.hi));
    const V hidden = set1(-kInfinity);
    for (int64_t j = 0; j < kKvBlockKeys; j += W) {
      if (kv_block.lo <= j && kv_block.hi >= j + W) continue;
      const V key = add(iota(), set1(static_cast<float>(j)));
      for (float* row = s + j; row < s + kKvBlockScores; row += kRow)
        store(row, where_lt(key, lo, hidden, where_lt(key, hi, load(row), hidden)));
    }
  }

  // Sets the base of the exponents of the next 16-row tile: the one of its rows so far, or the
  // largest score of the first KV block.
  void begin() {
    const GatheredTile16& u = tile16_[count_ % 2];
    float* s = scores_of(u);
    for (int64_t n = 0; n < u.count; ++n) hide(u.kv_blocks[n], s + n * kKvBlockScores);
    V base = load(states_.base + u.row);
    if (hmax(sub(zero(), base)) == kInfinity) {
      V each[W];
      for (int r = 0; r < W; ++r) {
        each[r] = set1(-kInfinity);
        for (int64_t j = 0; j < kKvBlockKeys; j += W)
          each[r] = max(load(s + r * kRow + j), each[r]);
      }
      base = where_lt(base, set1(-kFloatMax), mul(max_rows(each), set1(scale_)), base);
    }
    store(b_.base, base);
    fill(b_.sum, kAmxTile * W, 0.0f);
    fill(b_.top, kAmxTile * W, -kInfinity);
    next_ = s;
    past_ = s + u.count * kKvBlockScores;
  }

  // Ends the exponentials of the last 16-row tile; its rows then have their new states.
  void settle() {
    for (; next_ != past_; next_ += kRow) exponentials(next_, set1(scale_));
    GatheredTile16& u = tile16_[(count_ + 1) % 2];
    if (u.count == 0) return;
    V each[W];
    for (int r = 0; r < W; ++r) each[r] = load(b_.top + r * W);
    const V top = mul(max_rows(each), set1(scale_)), base = load(b_.base);
    if (!(hmax(sub(top, base)) <= kSlack && in_exp_range(hmax(max(base, sub(zero(), base))))))
      return exactly(u);
    for (int r = 0; r < W; ++r) each[r] = load(b_.sum + r * W);
    store(states_.sum + u.row, add(load(states_.sum + u.row), sum_rows(each)));
    store(states_.base + u.row, base);
    store(states_.top + u.row, max(top, load(states_.top + u.row)));
  }

  // The general code for a 16-row tile, block by block: a score is far above the others of its row,
  // or NaN or infinity.
  [[gnu::noinline]] void exactly(GatheredTile16& u) {
    SoftmaxState state[kAmxTile];
    float factor[kAmxTile];
    float* s = scores_of(u);
    for (int64_t r = 0; r < kAmxTile; ++r)
      state[r] = {states_.base[u.row + r], states_.sum[u.row + r]};
    for (int64_t n = 0; n < u.count; ++n) {
      amx_wide_zero();
      Form::scores(depth_, u.q, ldq_, u.kv_blocks[n].keys, Nothing{});
      amx_wide_store(s, kRow);
      hide(u.kv_blocks[n], s);
      if (!softmax_step_rows<FloatVariant>(s, kRow, kKvBlockKeys, scale_, state, factor)) {
        for (int64_t r = 0; r < kAmxTile; ++r)
          factor[r] = softmax_step<FloatVariant>(s + r * kRow, kKvBlockKeys, scale_, state[r]);
      }
      for (int64_t r = 0; r < kAmxTile; ++r) {
        float* row = s + r * kRow;
        Form::put(row, load(row), load(row + W), load(row + 2 * W), load(row + 3 * W));
        if (factor[r] != 1.0f) scale_row(u.o + r * ldo_, lanes_v_, factor[r]);
      }
      values(u, u.kv_blocks + n, 1, s, Nothing{});
    }
    for (int64_t r = 0; r < kAmxTile; ++r) {
      states_.base[u.row + r] = state[r].max;
      states_.sum[u.row + r] = state[r].sum;
      float& top = states_.top[u.row + r];
      top = state[r].max > top ? state[r].max : top;
    }
    u.count = 0;
  }

  GatheredStates states_;
  GatheredBuffers b_;
  PrefetchQueue* prefetch_;
  int64_t ldq_, depth_, ldo_, ldv_, lanes_v_;
  float scale_;
  GatheredTile16 tile16_[2];
  int64_t count_ = 0;
  // Rows of scores that are not exponentials yet.
  float *next_ = nullptr, *past_ = nullptr;
};

// How many steps from k0 on, before key `end`, a 32-row tile of rows from `first` on can do at
// once.
inline int64_t plain_steps(const TileContext& c, int64_t first, int64_t k0, int64_t end,
                           const PackedPair& packed) {
  const AttentionPlan& plan = c.plan;
  const RowRange& range = c.seg.range;
  const int64_t past = first + kTile32Rows;
  if (plan.bias.changes_scores() || plan.bias.drop || !(plan.scale > 0.0f)) return 0;
  if (past > c.tile.rows() || range.lo(c.query(past - 1)) > k0) return 0;
  const int64_t steps = (min64(end, range.hi(c.query(first))) - k0) / kTileKeys;
  return packed.all_finite(k0, k0 + steps * kTileKeys) ? steps : 0;
}

// Rows outside, a sweep's steps inside: a 32-row tile's rows and their output stay in the
// first-level cache.
inline void forward_sweep(const TileContext& c, int64_t begin, int64_t end,
                          const PackedPair& packed, TileBuffers& b) {
  const AttentionPlan& plan = c.plan;
  const int64_t rows = c.tile.rows(), depth = words<AmxVariant>(plan.D), ld = padded_row(plan.Dv);
  for (int64_t first = 0; first < rows; first += kTile32Rows) {
    const Tile32Step tile32 = {
        b.q + first * depth,         packed.keys, packed.values, b.o + first * ld, depth,
        round_up(plan.Dv, kLanePad), ld,          plan.scale,    &b.prefetch};
    for (int64_t k0 = begin; k0 < end; k0 += kTileKeys) {
      const int64_t steps = plain_steps(c, first, k0, end, packed);
      if (steps > 0)
        k0 += kTileKeys * UnmaskedSteps(tile32, k0, b.steps).run(steps, b.state + first);
      if (k0 < end)
        forward_rows<AmxVariant>(c, first, min64(first + kTile32Rows, rows), k0, packed, b);
    }
  }
}

// All keys in sweeps. After the last one another tile of the pair begins with its first keys.
inline void forward_sweeps(const TileContext& c, int64_t begin, int64_t end,
                           const PackedPair& packed, TileBuffers& b) {
  const int64_t steps = ceil_div(c.tile.rows(), kTile32Rows) * (kSweepKeys / kTileKeys);
  for (int64_t k0 = begin; k0 < end; k0 += kSweepKeys) {
    const int64_t then = k0 + kSweepKeys < end ? k0 + kSweepKeys : begin;
    prefetch_keys<AmxVariant>(c.plan, packed, then, min64(then + kSweepKeys, end),
                              steps * UnmaskedSteps::kPrefetchSteps, b.prefetch);
    forward_sweep(c, k0, min64(k0 + kSweepKeys, end), packed, b);
  }
}

// Whether a tile's rows go one query after the other through the few keys that they see: on its
// edges a query's heads see the same keys.
inline bool few_keys(const TileContext& c, int64_t begin, int64_t end, const PackedPair& packed) {
  const AttentionPlan& plan = c.plan;
  if (plan.bias.changes_scores() || plan.bias.drop || !(plan.scale > 0.0f)) return false;
  return c.tile.heads % kAmxTile == 0 && end - begin <= kSweepKeys && packed.all_finite(begin, end);
}

// q: words of the rows, ldq apart.
template <class Form>
inline void forward_few_keys(const TileContext& c, const PackedPair& packed, const float* q,
                             int64_t ldq, TileBuffers& b) {
  const AttentionPlan& plan = c.plan;
  const RowRange& range = c.seg.range;
  const int64_t rows = c.tile.rows(), ld = padded_row(plan.Dv);
  const int64_t depth = Form::kForm.words(plan.D), value_size = words_of_values<Form>(plan.Dv);
  b.states.clear(rows);
  b.prefetch.clear();
  GatheredSteps<Form> steps(plan, ldq, b.states, b.gathered, &b.prefetch);
  for (int64_t r = 0; r < rows; r += kAmxTile) {
    const int64_t lo = range.lo(c.query(r)), hi = range.hi(c.query(r));
    steps.rows(q + r * ldq, b.o + r * ld, r);
    for (int64_t j0 = lo / kKvBlockKeys * kKvBlockKeys; j0 < hi; j0 += kKvBlockKeys) {
      const int64_t kv_block = j0 / kKvBlockKeys;
      steps.meet({packed.keys + kv_block * depth * kKvBlockKeys,
                  packed.values + kv_block * value_size, max64(lo - j0, 0),
                  min64(hi - j0, kKvBlockKeys)});
    }
  }
  steps.finish();
  take_gathered<Form>(plan, b.states, rows, b.o, b.state);
}

template <class Variant>
inline void forward_row_keys(const TileContext& c, const PackedPair& packed, TileBuffers& b) {
  const RowRange& range = c.seg.range;
  const int64_t rows = c.tile.rows(), begin = range.lo(c.tile.i0) / kTileKeys * kTileKeys;
  const int64_t past = range.hi(c.query(rows - 1)), end = round_up(past, kKvBlockKeys);
  if (few_keys(c, range.lo(c.tile.i0), past, packed))
    return forward_few_keys<BFloat16Gathered>(c, packed, b.q, words<Variant>(c.plan.D), b);
  forward_sweeps(c, begin, end, packed, b);
}

// Steps of gathered rows where they lie in memory, sixteen heads of a query each.
template <>
struct RowsInPlace<AmxVariant> {
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
            amx_tiles<decltype(count)::value, 2>(plan_.D / 2, rows, kt + n, lanes, false);
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
            amx_tiles<kCount, 2>(lanes / 2, rows, v + d, ld, true);
            rows.c += 2 * kAmxTile;
            rows.lower_c += 2 * kAmxTile;
          }
          if (d < out_lanes) amx_tiles<kCount, 1>(lanes / 2, rows, v + d, ld, true);
        });
  }

 private:
  static constexpr int64_t kMost = kTileRows / kAmxTile;

  // product(number of tiles, rows) for all tiles, two at a time, the last one perhaps alone: a(n)
  // and c(n) give where the rows of A and C of tile n begin, lda and ldc apart.
  template <class A, class C, class Product>
  void each_two(int64_t lda, int64_t ldc, const A& a, const C& c, const Product& product) const {
    int64_t n = 0;
    for (; n + 2 <= count_; n += 2)
      product(std::integral_constant<int, 2>{}, AmxRows{a(n), a(n + 1), lda, c(n), c(n + 1), ldc});
    if (n < count_)
      product(std::integral_constant<int, 1>{}, AmxRows{a(n), a(n), lda, c(n), c(n), ldc});
  }

  const AttentionPlan& plan_;
  bool there_;
  int64_t count_ = 0;
  const float* q_[kMost];
  float* o_[kMost];
};

}  // namespace
}  // namespace nsa::cpu
