// Attention of one token over its caches: scores, softmax and output of every split, the choice of
// blocks, and the sum of the branches.
#pragma once

#include "cpu/engine/plan/topk.h"
#include "cpu/engine/step/online_softmax.h"
#include "cpu/engine/threads/team.h"
#include "cpu/nsa_decode/thread.h"

namespace nsa::cpu {
namespace {

template <class Variant>
class DecodeWorker {
 public:
  DecodeWorker(const DecodePlan& plan, const DecodeWave& wave, const DecodeScratch& scratch,
               int thread)
      : p_(plan),
        wave_(wave),
        x_(scratch),
        lanes_(decode_lanes(plan.G)),
        heads_(round_up(plan.G, W)),
        row_(round_up(plan.Dv, Variant::kLast * W)),
        words_(round_up(ceil_div(plan.D, Variant::kPerWord), Variant::kWordStep)),
        scale_(plan.scale * kLog2e),
        far_(std::is_same_v<Lines, LinesOfPages> || plan.prefetch == Prefetch::kFar) {
    Arena arena{scratch.threads + thread * scratch.thread_size};
    t_ = DecodeThread::carve(arena, plan, wave.max_cmp_keys, wave.max_blocks);
  }

  // Items are taken in their order, and one waits only for items before it: those are finished or
  // in the hands of a thread that waits for none of the later ones.
  //
  // An item is taken while the previous one is in work, so that its memory is prefetched early.
  void run() {
    int64_t later = take();
    while (later < wave_.num_items) {
      const DecodeItem& item = wave_.items[later];
      later = take();
      const DecodeRow& decode_row = wave_.decode_rows[item.decode_row];
      int32_t* done = x_.done + 3 * item.decode_row;
      switch (item.work) {
        case DecodeWork::kPack:
          pack_query(item.decode_row, decode_row);
          finish(done);
          break;
        case DecodeWork::kSplit:
          wait(done, 1);
          if (item.branch == kSelected) wait(done + 2, chosen(decode_row));
          split(item, decode_row, later);
          if (item.branch == kCompressed) finish(done + 1);
          finish(done + 2);
          break;
        case DecodeWork::kChoose:
          if (p_.choose) wait(done + 1, static_cast<int32_t>(decode_row.splits[kCompressed]));
          choose(item.decode_row, decode_row);
          // kChosen exceeds any number of splits, so `done` tells "blocks chosen" from "splits
          // finished".
          __atomic_fetch_add(done + 2, kChosen, __ATOMIC_RELEASE);
          break;
        case DecodeWork::kMerge:
          wait(done + 2, all_of(decode_row));
          merge(item.decode_row, decode_row);
          break;
      }
    }
  }

 private:
  // One lane per head; scores contain the factor log2(e).
  using Lanes = SoftmaxLanes<BinaryExponent>;

  static constexpr int32_t kChosen = 1 << 30;

  int64_t take() { return __atomic_fetch_add(x_.next, int64_t{1}, __ATOMIC_RELAXED); }

  int32_t chosen(const DecodeRow&) const { return kChosen; }
  int32_t all_of(const DecodeRow& decode_row) const {
    int64_t n = 0;
    for (int b = 0; b < kBranches; ++b) n += decode_row.splits[b];
    const bool chooses = p_.choose || p_.has[kSelected];
    return static_cast<int32_t>(n) + (chooses ? kChosen : 0);
  }
  static void finish(int32_t* count) { __atomic_fetch_add(count, 1, __ATOMIC_RELEASE); }
  static void wait(const int32_t* count, int32_t enough) {
    int spins = 0;
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < enough) wait_turn(spins);
  }

  // x_.query[decode row], as query_place() says: heads past the group are zeros.
  void pack_query(int64_t n, const DecodeRow& decode_row) {
    float* dst = x_.query + n * words_ * lanes_;
    float* words = reinterpret_cast<float*>(t_.keys);
    for (int64_t g = 0; g < lanes_; ++g) {
      if (g < p_.G) {
        using Words = std::conditional_t<Variant::kPerWord == 2, Variant, DecodeFloat<float>>;
        Words::copy(p_.dtype, p_.query,
                    (decode_row.token * p_.N1 + decode_row.head * p_.G + g) * p_.D, p_.D, words_,
                    t_.keys);
      } else {
        fill(words, words_, 0.0f);
      }
      constexpr int64_t kBeside = Variant::kQuerySpread;
      float* to = dst + (kBeside == 1 ? g : query_place(g));
      for (int64_t w = 0; w < words_; w += kBeside)
        for (int64_t i = 0; i < kBeside; ++i) to[w * lanes_ + i] = words[w + i];
    }
  }

  // n tokens from `token` on as rows of equal distance: as they are, or copied together where a
  // page or the ring ends between them.
  Rows rows_of(const CacheView& view, const DecodeRow& decode_row, int64_t token, int64_t n,
               int64_t width, char* copy) const {
    const char* data = static_cast<const char*>(view.data);
    const int64_t size = elem_size(p_.dtype);
    if (view.run(token) >= n) {
      return {data + view.offset(decode_row.row, decode_row.head, token) * size,
              view.token_stride * size};
    }
    for (int64_t j = 0; j < n; ++j) {
      __builtin_memcpy(copy + j * width * size,
                       data + view.offset(decode_row.row, decode_row.head, token + j) * size,
                       static_cast<size_t>(width * size));
    }
    return {copy, width * size};
  }

  // Keys as words; a copy where elements are converted, or do not fill their last words.
  Rows key_words(const DecodeRow& decode_row, int branch, int64_t token, int64_t n) const {
    if (Variant::kDirect && p_.D == words_ * Variant::kPerWord && n >= Variant::kLeastKeys)
      return rows_of(p_.key[branch], decode_row, token, n, p_.D, t_.keys);
    const CacheView& view = p_.key[branch];
    const int64_t stride = words_ * Variant::kWordBytes;
    for (int64_t j = 0; j < n; ++j) {
      Variant::copy(p_.dtype, view.data, view.offset(decode_row.row, decode_row.head, token + j),
                    p_.D, words_, t_.keys + j * stride);
    }
    return {t_.keys, stride};
  }

  // Values as the product reads them: a copy where elements are converted, or do not fill their
  // last vector.
  Rows value_rows_of(const DecodeRow& decode_row, int branch, int64_t token, int64_t n) const {
    const CacheView& view = p_.value[branch];
    if (Variant::kPerWord == 2 || (Variant::kDirect && p_.Dv % W == 0))
      return rows_of(view, decode_row, token, n, p_.Dv, t_.values);
    const int64_t stride = row_ * Variant::kWordBytes;
    for (int64_t j = 0; j < n; ++j) {
      Variant::copy(p_.dtype, view.data, view.offset(decode_row.row, decode_row.head, token + j),
                    p_.Dv, row_, t_.values + j * stride);
    }
    return {t_.values, stride};
  }

  // out (+)= P V over n keys.
  void add_values(const DecodeRow& decode_row, int branch, int64_t token, int64_t n,
                  const float* prob, bool first, float* out, Lines& lines) {
    ValueStep x{};
    x.rows = value_rows_of(decode_row, branch, token, n);
    x.n = n;
    x.Dv = p_.Dv;
    x.prob = prob;
    if constexpr (Variant::kPerWord == 2) {
      Variant::word_probabilities(prob, n, lanes_, heads_, t_.p_words);
      if (Variant::kWholeTiles) {
        const int64_t words = ceil_div(n, 2);
        fill(t_.p_words + words * lanes_, (kStepKeys / 2 - words) * lanes_, 0.0f);
      }
      x.prob = t_.p_words;
      x.words = t_.words;
    }
    x.lanes = lanes_;
    x.factor = first ? nullptr : t_.factor;
    x.out = out;
    x.row = row_;
    value_step<Variant>(x, p_.G, lines);
  }

  // Gives the same bits as softmax() for a score.
  float exponential(float s, float max) const {
    float lanes[W];
    store(lanes, exp2(sub(mul(set1(s), set1(scale_)), set1(max))));
    return lanes[0];
  }

  // s = 2^(s scale - max) with the maximum so far of s scale, where the scale has log2(e) in it;
  // t_.factor: what the sums and outputs before are to be multiplied by. A score of +inf or NaN
  // makes the sum NaN. The product is rounded as it was for the maximum: fused, what a score of
  // 1e10 rounds by would become the exponent of the largest one.
  void softmax(float* s, int64_t n, float* max, float* sum, Lines& lines) {
    constexpr int kSums = 4;  // at once, each waiting for its own last addition only
    const V scale = set1(scale_);
    for (int64_t g = 0; g < heads_; g += W) {
      const V old = load(max + g);
      V m[kSums] = {old, old, old, old}, total[kSums] = {zero(), zero(), zero(), zero()};
      const auto raise = [&](int64_t j, int i) {
        m[i] = nsa::cpu::max(mul(load(s + j * lanes_ + g), scale), m[i]);
      };
      int64_t j = 0;
      for (; j + kSums <= n; j += kSums)
#pragma GCC unroll 4
        for (int i = 0; i < kSums; ++i) raise(j + i, i);
      for (; j < n; ++j) raise(j, 0);
      const V top = nsa::cpu::max(nsa::cpu::max(m[0], m[1]), nsa::cpu::max(m[2], m[3]));
      const V base = Lanes::base_of(top);
      const auto exponential = [&](int64_t j, int i) {
        const V e = exp2(sub(mul(load(s + j * lanes_ + g), scale), base));
        store(s + j * lanes_ + g, e);
        total[i] = add(total[i], e);
        lines.prefetch_round_robin(i);
      };
      for (j = 0; j + kSums <= n; j += kSums)
#pragma GCC unroll 4
        for (int i = 0; i < kSums; ++i) exponential(j + i, i);
      for (; j < n; ++j) exponential(j, 0);
      Lanes lanes{old, load(sum + g)};
      const V all = add(add(total[0], total[1]), add(total[2], total[3]));
      store(t_.factor + g, lanes.add(top, all));
      store(max + g, lanes.max);
      store(sum + g, lanes.sum);
    }
  }

  struct Span {
    int64_t token, n;
  };

  // Step `i` of a split; n = 0 past its end.
  Span span(const DecodeItem& item, const DecodeRow& decode_row, int64_t i) const {
    if (item.branch == kSelected) {
      const int64_t per_block = block_steps(decode_row);
      const int64_t blocks = split_blocks(p_.select_block);
      const int64_t at = item.split * blocks + i / per_block;
      if (i / per_block >= blocks || at >= x_.found[item.decode_row]) return {0, 0};
      const int64_t begin = int64_t{x_.blocks[item.decode_row * p_.count + at]} * p_.select_block;
      const int64_t end = min64(begin + p_.select_block, decode_row.kv_len);
      const int64_t token = begin + i % per_block * kStepKeys;
      return {token, max64(0, min64(kStepKeys, end - token))};
    }
    const int64_t first = item.branch == kWindow ? decode_row.win_first : 0;
    const int64_t all = item.branch == kWindow ? decode_row.win_end : decode_row.cmp_keys;
    const int64_t begin = first + item.split * kDecodeSplitKeys,
                  end = min64(begin + kDecodeSplitKeys, all);
    const int64_t token = begin + i * kStepKeys;
    return {token, max64(0, min64(kStepKeys, end - token))};
  }

 public:
  static int64_t split_blocks(int64_t select_block) {
    return max64(1, kDecodeSplitKeys / select_block);
  }

 private:
  // Steps of the longest block that exists: a block may be far longer than all keys.
  int64_t block_steps(const DecodeRow& decode_row) const {
    return ceil_div(max64(1, min64(p_.select_block, decode_row.kv_len)), kStepKeys);
  }

  // Steps of the blocks that were found: a split has room for that many short ones.
  int64_t split_steps(const DecodeItem& item, const DecodeRow& decode_row) const {
    if (item.branch != kSelected) return kDecodeSplitKeys / kStepKeys;
    const int64_t blocks = split_blocks(p_.select_block);
    const int64_t found = x_.found[item.decode_row] - item.split * blocks;
    return max64(0, min64(blocks, found)) * block_steps(decode_row);
  }

  // The values of a step, which its scores come before, and the keys of the next one: the least
  // that can be prefetched in time, so that it stays in the first-level cache until it is used. Far
  // ahead: keys and values of the next one.
  Lines lines_of(const DecodeRow& decode_row, int branch, Span step, Span next,
                 int64_t later) const {
    Run* end = far_ ? t_.runs : add_runs(p_.value[branch], decode_row, step, p_.Dv, t_.runs);
    end = next.n > 0 ? add_next(decode_row, branch, next, end) : add_item(later, end);
    const int64_t calls =
        score_calls<Variant>(step.n, words_, heads_) + value_calls<Variant>(step.n, p_.Dv, p_.G);
    return {t_.runs, end, p_.prefetch, calls};
  }

  Run* add_next(const DecodeRow& decode_row, int branch, Span next, Run* end) const {
    end = add_runs(p_.key[branch], decode_row, next, p_.D, end);
    return far_ ? add_runs(p_.value[branch], decode_row, next, p_.Dv, end) : end;
  }

  Run* add_runs(const CacheView& view, const DecodeRow& decode_row, Span step, int64_t width,
                Run* end) const {
    const int64_t size = elem_size(p_.dtype);
    const char* data = static_cast<const char*>(view.data);
    // Rows without a gap between them are one long one.
    const bool dense = view.token_stride == width;
    for (int64_t j = 0; j < step.n;) {
      const int64_t run = min64(step.n - j, view.run(step.token + j));
      const char* row = data + view.offset(decode_row.row, decode_row.head, step.token + j) * size;
      *end++ = {row, view.token_stride * size, dense ? 1 : run, (dense ? run : 1) * width * size};
      j += run;
    }
    return end;
  }

  // The keys that follow a split's last step: the first ones of the item taken next, if that is
  // known.
  Run* add_item(int64_t at, Run* end) const {
    if (at >= wave_.num_items) return end;
    const DecodeItem& item = wave_.items[at];
    if (item.work != DecodeWork::kSplit) return end;
    if (item.branch == kSelected &&
        __atomic_load_n(x_.done + 3 * item.decode_row + 2, __ATOMIC_ACQUIRE) < kChosen)
      return end;
    const DecodeRow& decode_row = wave_.decode_rows[item.decode_row];
    return add_next(decode_row, item.branch, span(item, decode_row, 0), end);
  }

  void split(const DecodeItem& item, const DecodeRow& decode_row, int64_t later) {
    const int64_t n = decode_row.first_split[item.branch] + item.split;
    float *max = x_.max + n * lanes_, *sum = x_.sum + n * lanes_;
    float* const result = x_.out + n * p_.G * row_;
    float* const out = Variant::kWholeTiles && p_.G < lanes_ ? t_.sums : result;
    const float* query = x_.query + item.decode_row * words_ * lanes_;
    fill(max, lanes_, -kInfinity);
    fill(sum, lanes_, 0.0f);
    const bool kept = item.branch == kCompressed && p_.choose;
    const int64_t steps = split_steps(item, decode_row);
    bool first = true;
    Span now = span(item, decode_row, 0);
    for (int64_t i = 0; i < steps; ++i) {
      const Span next = i + 1 < steps ? span(item, decode_row, i + 1) : Span{0, 0};
      if (now.n > 0) {
        float* s = kept ? x_.exponential + (decode_row.scores + now.token) * lanes_ : t_.s;
        const Rows keys = key_words(decode_row, item.branch, now.token, now.n);
        Lines lines = lines_of(decode_row, item.branch, now, next, later);
        score_step<Variant>(now.n, words_, keys, query, lanes_, heads_, s, lines);
        softmax(s, now.n, max, sum, lines);
        if (kept) {
          const int64_t step = decode_row.step + now.token / kStepKeys;
          for (int64_t g = 0; g < lanes_; ++g) x_.step_max[step * lanes_ + g] = max[g];
        }
        add_values(decode_row, item.branch, now.token, now.n, s, first, out, lines);
        lines.prefetch_rest();
        first = false;
      }
      now = next;
    }
    if (first) {
      fill(result, p_.G * row_, 0.0f);
    } else if (out != result) {
      for (int64_t d = 0; d < p_.G * row_; d += W) store(result + d, load(out + d));
    }
  }

  // Prefetches the next page: data of another thread or an old step is read from end to end.
  [[gnu::always_inline]] static void prefetch_ahead(const float* p) {
    __builtin_prefetch(p + kPage / sizeof(float), 0, 3);  // NOLINT(bugprone-sizeof-expression)
  }

  // The maximum and sum of all splits of a branch; the sum is 1 where there are no keys.
  void total_of(const DecodeRow& decode_row, int branch, int64_t g, float* max, float* sum) const {
    const int64_t n = decode_row.first_split[branch];
    Lanes all = Lanes::empty();
    for (int64_t u = n; u < n + decode_row.splits[branch]; ++u)
      all.max = nsa::cpu::max(load(x_.max + u * lanes_ + g), all.max);
    for (int64_t u = n; u < n + decode_row.splits[branch]; ++u)
      all.merge({load(x_.max + u * lanes_ + g), load(x_.sum + u * lanes_ + g)});
    store(max, Lanes::base_of(all.max));
    store(sum, all.sum);
  }

  // visit(scores [tokens, lanes_] without scale, first token, tokens) for all keys of a branch that
  // decode row number n sees, step by step.
  template <class Visit>
  void for_each_step(int64_t n, const DecodeRow& decode_row, int branch, const Visit& visit) {
    const float* query = x_.query + n * words_ * lanes_;
    for (int64_t split = 0; split < decode_row.splits[branch]; ++split) {
      const DecodeItem item{DecodeWork::kSplit, branch, n, split};
      const int64_t steps = split_steps(item, decode_row);
      for (int64_t i = 0; i < steps; ++i) {
        const Span now = span(item, decode_row, i);
        if (now.n == 0) continue;
        Lines none{t_.runs, t_.runs, p_.prefetch, 0};
        score_step<Variant>(now.n, words_, key_words(decode_row, branch, now.token, now.n), query,
                            lanes_, heads_, t_.s, none);
        visit(t_.s, now.token, now.n);
      }
    }
  }

  // Whether a branch's sum is that of its scores: times log2(e), large ones may be infinite.
  static bool usable(float sum) { return sum > 0.0f; }

  // The softmax of head g over a branch without log2(e) in the scores, in two passes over them.
  SoftmaxState natural_state(int64_t n, const DecodeRow& decode_row, int branch, int64_t g) {
    SoftmaxState state = SoftmaxState::empty();
    for_each_step(n, decode_row, branch, [&](const float* s, int64_t, int64_t tokens) {
      for (int64_t j = 0; j < tokens; ++j) state.raise(s[j * lanes_ + g] * p_.scale);
    });
    for_each_step(n, decode_row, branch, [&](const float* s, int64_t, int64_t tokens) {
      for (int64_t j = 0; j < tokens; ++j)
        state.sum += exp1(s[j * lanes_ + g] * p_.scale - state.base());
    });
    return state;
  }

  // Adds the probabilities of one head. Where its row is NaN, so is that of every key with a score
  // above -inf.
  void head_importance(int64_t n, const DecodeRow& decode_row, int64_t g, float max, float sum) {
    if (usable(sum)) {
      const float inverse = 1.0f / sum;
      for (int64_t c = 0; c < decode_row.cmp_keys; ++c) {
        const float step = x_.step_max[(decode_row.step + c / kStepKeys) * lanes_ + g];
        t_.prob[c] +=
            x_.exponential[(decode_row.scores + c) * lanes_ + g] * exp2_1(step - max) * inverse;
      }
      return;
    }
    const SoftmaxState state = natural_state(n, decode_row, kCompressed, g);
    const float inverse = state.inverse_sum(), base = state.base();
    for_each_step(n, decode_row, kCompressed, [&](const float* s, int64_t token, int64_t tokens) {
      for (int64_t j = 0; j < tokens; ++j) {
        const float x = s[j * lanes_ + g] * p_.scale;
        if (x != -kInfinity) t_.prob[token + j] += exp1(x - base) * inverse;
      }
    });
  }

  // Importance of blocks from the probabilities of the compressed tokens, summed over the heads.
  void importance(int64_t n, const DecodeRow& decode_row) {
    float max[W], sum[W], inverse[W];
    fill(t_.prob, decode_row.cmp_keys, 0.0f);
    for (int64_t g = 0; g < heads_ && decode_row.cmp_keys > 0; g += W) {
      total_of(decode_row, kCompressed, g, max, sum);
      bool all = true;
      for (int64_t lane = 0; lane < W; ++lane) {
        const bool there = g + lane < p_.G;
        inverse[lane] = there ? 1.0f / sum[lane] : 0.0f;
        // Also of a lane past the group, where 0 times an infinite key is NaN.
        all = all && (there ? usable(sum[lane]) : sum[lane] == sum[lane]);
      }
      if (!all) {
        for (int64_t lane = 0; lane < W && g + lane < p_.G; ++lane)
          head_importance(n, decode_row, g + lane, max[lane], sum[lane]);
        continue;
      }
      for (int64_t c0 = 0; c0 < decode_row.cmp_keys; c0 += kStepKeys) {
        const float* step = x_.step_max + (decode_row.step + c0 / kStepKeys) * lanes_ + g;
        const V factor = mul(exp2(sub(load(step), load(max))), load(inverse));
        const int64_t end = min64(decode_row.cmp_keys, c0 + kStepKeys);
        const float* e = x_.exponential + (decode_row.scores + c0) * lanes_ + g;
        for (int64_t c = c0; c < end; ++c, e += lanes_) {
          prefetch_ahead(e);
          t_.prob[c] += hsum(mul(load(e), factor));
        }
      }
    }
    importance_scores(p_.rule, t_.prob, decode_row.cmp_keys, decode_row.candidates, t_.score);
  }

  void choose(int64_t n, const DecodeRow& decode_row) {
    int32_t* blocks = x_.blocks + n * p_.count;
    const int64_t at = (decode_row.token * p_.N2 + decode_row.head) * p_.count;
    if (p_.choose) {
      importance(n, decode_row);
      TopkRule rule{};
      rule.init = p_.init_blocks;
      rule.own = decode_row.own;
      rule.local = p_.local_blocks;
      choose_blocks(rule, t_.score, decode_row.candidates, p_.count, blocks, t_.best);
    } else {
      for (int64_t i = 0; i < p_.count; ++i) blocks[i] = p_.given_blocks[at + i];
    }
    if (p_.topk_indices)
      for (int64_t i = 0; i < p_.count; ++i) p_.topk_indices[at + i] = blocks[i];
    if (!p_.has[kSelected]) return;
    // In ascending order, so that the order in which they were given changes no bit.
    const int64_t existing = ceil_div(decode_row.kv_len, p_.select_block);
    int64_t found = 0;
    for (int64_t i = 0; i < p_.count; ++i) {
      const int32_t block = blocks[i];
      if (block < 0 || block >= existing) continue;
      int64_t to = found++;
      for (; to > 0 && blocks[to - 1] > block; --to) blocks[to] = blocks[to - 1];
      blocks[to] = block;
    }
    x_.found[n] = found;
  }

  float gate(const DecodeRow& decode_row, int branch, int64_t g) const {
    const int64_t head = decode_row.head * p_.G + g;
    return p_.gates ? p_.gates[(decode_row.token * kBranches + branch) * p_.N1 + head] : 1.0f;
  }

  // The splits are read as they stand in memory, each for all heads.
  void merge(int64_t n, const DecodeRow& decode_row) {
    fill(t_.rows, p_.G * row_, 0.0f);
    for (int b = 0; b < kBranches; ++b) {
      if (!p_.has[b]) continue;
      float *max = t_.max + b * lanes_, *sum = t_.sum + b * lanes_;
      for (int64_t g = 0; g < p_.G; g += W) {
        total_of(decode_row, b, g, max + g, sum + g);
        weigh_splits(decode_row, b, g, max + g);
      }
      for (int64_t g = 0; g < p_.G; ++g) t_.factor[g] = gate(decode_row, b, g) / sum[g];
      for (int64_t i = 0; i < decode_row.splits[b]; ++i) add_split(decode_row.first_split[b] + i);
    }
    for (int64_t g = 0; g < p_.G; ++g) {
      float* row = t_.rows + g * row_;
      bool finite = true;
      for (int b = 0; b < kBranches; ++b) {
        if (!p_.has[b]) continue;
        const float sum = t_.sum[b * lanes_ + g], factor = gate(decode_row, b, g);
        finite = finite && (usable(sum) || decode_row.splits[b] == 0) && factor - factor == 0.0f;
      }
      Variant::restore_columns(row, row_);
      if (!finite || !all_finite(row, row_)) {
        fill(row, row_, 0.0f);
        for (int b = 0; b < kBranches; ++b)
          if (p_.has[b]) add_branch_visible(n, decode_row, b, g, row);
      }
      const int64_t head = decode_row.head * p_.G + g;
      from_float(p_.dtype, row, p_.Dv, p_.attention_out, (decode_row.token * p_.N1 + head) * p_.Dv);
    }
  }

  // In place of every split's maximum its weight beside the branch's: 0 where it sees no key.
  void weigh_splits(const DecodeRow& decode_row, int branch, int64_t g, const float* max) {
    for (int64_t i = 0; i < decode_row.splits[branch]; ++i) {
      float* at = x_.max + (decode_row.first_split[branch] + i) * lanes_ + g;
      store(at, exp2(sub(load(at), load(max))));
    }
  }

  void add_split(int64_t split) {
    for (int64_t g = 0; g < p_.G; ++g) {
      const float weight = x_.max[split * lanes_ + g];
      if (weight == 0.0f) continue;
      const V times = set1(weight * t_.factor[g]);
      const float* out = x_.out + (split * p_.G + g) * row_;
      float* row = t_.rows + g * row_;
      for (int64_t d = 0; d < row_; d += W) {
        prefetch_ahead(out + d);
        store(row + d, fma(load(out + d), times, load(row + d)));
      }
    }
  }

  // Adds a branch key by key, for an output with NaN or infinity: a key of probability 0 touches
  // nothing, even if its value is infinite, and the gate multiplies the branch as a whole.
  // Probabilities are halved, because rounding may take their sum above 1.
  void add_branch_visible(int64_t n, const DecodeRow& decode_row, int branch, int64_t g,
                          float* row) {
    const float max = t_.max[branch * lanes_ + g], of_splits = t_.sum[branch * lanes_ + g];
    const SoftmaxState natural =
        usable(of_splits) ? SoftmaxState::empty() : natural_state(n, decode_row, branch, g);
    const float sum = usable(of_splits) ? of_splits : natural.sum;
    const float factor = gate(decode_row, branch, g);
    float *out = t_.row, *value = t_.row + row_;
    fill(out, row_, sum == sum ? 0.0f : sum);
    if (usable(sum)) {
      const CacheView& view = p_.value[branch];
      for_each_step(n, decode_row, branch, [&](const float* s, int64_t token, int64_t tokens) {
        for (int64_t j = 0; j < tokens; ++j) {
          const float score = s[j * lanes_ + g];
          const float p =
              usable(of_splits) ? exponential(score, max) : exp1(score * p_.scale - natural.base());
          if (p == 0.0f) continue;
          to_float(p_.dtype, view.data, view.offset(decode_row.row, decode_row.head, token + j),
                   p_.Dv, value);
          for (int64_t d = 0; d < p_.Dv; ++d) out[d] += 0.5f * p / sum * value[d];
        }
      });
    }
    for (int64_t d = 0; d < p_.Dv; ++d) row[d] += 2.0f * out[d] * factor;
  }

  const DecodePlan& p_;
  const DecodeWave& wave_;
  const DecodeScratch& x_;
  const int64_t lanes_, heads_, row_, words_;
  const float scale_;
  const bool far_;
  DecodeThread t_;
};

template <class Variant>
void decode_wave(const DecodePlan& plan, const DecodeWave& wave, const DecodeScratch& scratch,
                 int threads) {
  parallel_region(threads, [&](const Member& member) {
    [[maybe_unused]] const typename Variant::Session session;
    DecodeWorker<Variant>(plan, wave, scratch, member.number).run();
  });
}

void decode_by_dtype(const DecodePlan& plan, const DecodeWave& wave, const DecodeScratch& scratch,
                     int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return decode_wave<DecodeVariantOfBFloat16>(plan, wave, scratch, threads);
  if (plan.dtype == ElemType::kFloat32)
    return decode_wave<DecodeFloat<float>>(plan, wave, scratch, threads);
  decode_wave<DecodeFloat<uint16_t>>(plan, wave, scratch, threads);
}

}  // namespace
}  // namespace nsa::cpu
