// NsaDecode, NsaCompressAttentionInfer and NsaSelectedAttentionInfer: one engine, which reads one,
// one or three caches.
#include <unistd.h>

#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/threads/team.h"
#include "cpu/nsa_decode/cache_step.h"
#include "cpu/nsa_decode/params.h"

namespace nsa::cpu {
namespace {

// Scratch of a wave, about; one query of 64k tokens needs 1.4 MB.
constexpr int64_t kWaveBytes = 8 << 20;

struct WaveSizes {
  int64_t keys = 0, steps = 0, splits = 0;
  int64_t max_cmp_keys = 0, max_blocks = 0;
};

class DecodeSchedule {
 public:
  explicit DecodeSchedule(const DecodePlan& plan) : plan_(plan) {}

  // Adds a decode row, whose counts the caller has filled in; the wave runs when it is large
  // enough.
  void add(DecodeRow decode_row) {
    const int64_t per_split = max64(1, kDecodeSplitKeys / plan_.select_block);
    // Each candidate is chosen once at most, while a given block may stand several times.
    const int64_t blocks = plan_.choose ? min64(plan_.count, decode_row.candidates) : plan_.count;
    const int64_t splits[kBranches] = {
        ceil_div(decode_row.cmp_keys, kDecodeSplitKeys), ceil_div(blocks, per_split),
        ceil_div(decode_row.win_end - decode_row.win_first, kDecodeSplitKeys)};
    for (int b = 0; b < kBranches; ++b) {
      decode_row.first_split[b] = sizes_.splits;
      decode_row.splits[b] = plan_.has[b] ? splits[b] : 0;
      sizes_.splits += decode_row.splits[b];
    }
    decode_row.scores = sizes_.keys;
    decode_row.step = sizes_.steps;
    sizes_.keys += decode_row.cmp_keys;
    sizes_.steps += ceil_div(decode_row.cmp_keys, kStepKeys);
    sizes_.max_cmp_keys = max64(sizes_.max_cmp_keys, decode_row.cmp_keys);
    sizes_.max_blocks = max64(sizes_.max_blocks, decode_row.candidates);
    decode_rows_.push_back(decode_row);
    if (bytes() > kWaveBytes) run();
  }

  void run() {
    if (decode_rows_.empty()) return;
    list_items();
    const KernelTable& table = kernels();
    const int threads = num_threads();
    DecodeScratch x{};
    x.thread_size =
        thread_space(table.decode_thread_size(plan_, sizes_.max_cmp_keys, sizes_.max_blocks));
    const Scratch scratch([&](Arena& arena) { carve(arena, threads, x); });
    for (size_t i = 0; i < 3 * decode_rows_.size(); ++i) x.done[i] = 0;
    *x.next = 0;
    table.decode(plan_,
                 {decode_rows_.data(), items_.data(), static_cast<int64_t>(items_.size()),
                  sizes_.max_cmp_keys, sizes_.max_blocks},
                 x, threads);
    decode_rows_.clear();
    items_.clear();
    sizes_ = {};
  }

 private:
  int64_t bytes() const {
    const int64_t lanes = decode_lanes(plan_.G),
                  decode_rows = static_cast<int64_t>(decode_rows_.size());
    const int64_t split = 2 * lanes + plan_.G * value_row_size(plan_.Dv);
    return 4 * (decode_rows * decode_words(plan_.D) * lanes + sizes_.splits * split +
                (sizes_.keys + sizes_.steps) * lanes);
  }

  // An item comes as late as possible after the items it waits for.
  void list_items() {
    items_.reserve(3 * decode_rows_.size() + sizes_.splits);
    add_all(DecodeWork::kPack, 0);
    add_all(DecodeWork::kSplit, kCompressed);
    add_all(DecodeWork::kSplit, kWindow);
    if (plan_.choose || plan_.has[kSelected]) add_all(DecodeWork::kChoose, 0);
    add_all(DecodeWork::kSplit, kSelected);
    add_all(DecodeWork::kMerge, 0);
  }

  void add_all(DecodeWork work, int branch) {
    for (size_t n = 0; n < decode_rows_.size(); ++n) {
      const int64_t splits = work == DecodeWork::kSplit ? decode_rows_[n].splits[branch] : 1;
      for (int64_t u = 0; u < splits; ++u)
        items_.push_back({work, branch, static_cast<int64_t>(n), u});
    }
  }

  void carve(Arena& arena, int threads, DecodeScratch& x) const {
    const int64_t lanes = decode_lanes(plan_.G),
                  decode_rows = static_cast<int64_t>(decode_rows_.size());
    x.query = arena.take<float>(decode_rows * decode_words(plan_.D) * lanes);
    x.exponential = arena.take<float>(plan_.choose ? sizes_.keys * lanes : 0);
    x.step_max = arena.take<float>(plan_.choose ? sizes_.steps * lanes : 0);
    x.max = arena.take<float>(sizes_.splits * lanes);
    x.sum = arena.take<float>(sizes_.splits * lanes);
    x.out = arena.take<float>(sizes_.splits * plan_.G * value_row_size(plan_.Dv));
    x.blocks = arena.take<int32_t>(decode_rows * plan_.count);
    x.found = arena.take<int64_t>(decode_rows);
    x.done = arena.take<int32_t>(3 * decode_rows);
    x.next = arena.take<int64_t>(8);
    x.threads = arena.take_threads(threads, x.thread_size);
  }

  const DecodePlan& plan_;
  std::vector<DecodeRow> decode_rows_;
  std::vector<DecodeItem> items_;
  WaveSizes sizes_;
};

// A first-level cache of 32 KB has no room for a step in use and one on its way: on a Zen 4 calls
// took 0.89 to 0.96 of the time with kFar. A Zen 5, which has 48 KB, took longer with another order
// of lines into the second-level cache, so larger first-level caches keep the others.
Prefetch prefetch_of(const DecodePlan& plan) {
  static const int64_t first_level = sysconf(_SC_LEVEL1_DCACHE_SIZE);  // 0: it is not known
  if (0 < first_level && first_level <= kFirstLevel) return Prefetch::kFar;
  const int64_t step = kStepKeys * (plan.D + plan.Dv) * elem_size(plan.dtype);
  return step <= kFirstLevel ? Prefetch::kNearOnce : Prefetch::kNear;
}

DecodePlan plan_of(const InferParams& p) {
  DecodePlan plan{};
  plan.dtype = p.dtype;
  plan.query = p.query;
  plan.T = p.T;
  plan.N1 = p.N1;
  plan.N2 = p.N2;
  plan.G = p.N1 / p.N2;
  plan.D = p.D;
  plan.Dv = p.Dv;
  plan.scale = p.scale;
  plan.attention_out = p.attention_out;
  plan.select_block = 1;
  plan.prefetch = prefetch_of(plan);
  return plan;
}

void set_branch(DecodePlan& plan, Branch branch, const CacheView& key, const CacheView& value) {
  plan.has[branch] = true;
  plan.key[branch] = key;
  plan.value[branch] = value;
}

void set_rule(DecodePlan& plan, const SelectionAttrs& rule) {
  plan.choose = true;
  plan.rule = {rule.select_block_size / rule.compress_stride,
               rule.compress_block_size / rule.compress_stride,
               rule.importance == Importance::kOverlap};
  plan.init_blocks = rule.init_blocks;
  plan.local_blocks = rule.local_blocks;
  plan.select_block = rule.select_block_size;
  plan.count = rule.select_block_count;
}

// Windows that are complete in a row of `tokens`.
int64_t windows_of(const SelectionAttrs& rule, int64_t tokens) {
  if (tokens < rule.compress_block_size) return 0;
  return (tokens - rule.compress_block_size) / rule.compress_stride + 1;
}

// Calls see(decode row, row, number of tokens up to the query's own) for every query and kv head.
// `length` is ignored where the rows have no length.
template <class See>
void for_each_decode_row(const InferParams& p, const int64_t* length, const DecodePlan& plan,
                         See see) {
  DecodeSchedule schedule(plan);
  int64_t token = 0;
  for (int64_t b = 0; b < p.B; ++b) {
    for (int64_t i = 0; i < p.q_len[b]; ++i, ++token) {
      for (int64_t h = 0; h < p.N2; ++h) {
        DecodeRow decode_row{};
        decode_row.row = b;
        decode_row.token = token;
        decode_row.head = h;
        decode_row.own = -1;
        see(decode_row, length ? length[b] - p.q_len[b] + i + 1 : 0);
        schedule.add(decode_row);
      }
    }
  }
  schedule.run();
}

void see_blocks(DecodeRow& decode_row, int64_t tokens, int64_t select_block) {
  decode_row.own = (tokens - 1) / select_block;
  decode_row.candidates = decode_row.own + 1;
}

}  // namespace

void nsa_compress_attention_infer(const NsaCompressAttentionInferParams& p) {
  DecodePlan plan = plan_of(p);
  set_branch(plan, kCompressed, p.key, p.value);
  set_rule(plan, p.rule);
  plan.topk_indices = p.topk_indices;
  for_each_decode_row(p, p.sel_len, plan, [&](DecodeRow& decode_row, int64_t tokens) {
    decode_row.cmp_keys = p.cmp_len[decode_row.row];
    if (p.sel_len) {
      decode_row.cmp_keys = min64(decode_row.cmp_keys, windows_of(p.rule, tokens));
      see_blocks(decode_row, tokens, plan.select_block);
    } else {
      decode_row.candidates = plan.rule.blocks(decode_row.cmp_keys);
    }
  });
}

void nsa_selected_attention_infer(const NsaSelectedAttentionInferParams& p) {
  DecodePlan plan = plan_of(p);
  set_branch(plan, kSelected, p.key, p.value);
  plan.given_blocks = p.topk_indices;
  plan.select_block = p.select_block_size;
  plan.count = p.select_block_count;
  for_each_decode_row(p, p.kv_len, plan,
                      [&](DecodeRow& decode_row, int64_t tokens) { decode_row.kv_len = tokens; });
}

void nsa_decode(const NsaDecodeParams& p) {
  DecodePlan plan = plan_of(p);
  for (int b = 0; b < kBranches; ++b)
    set_branch(plan, static_cast<Branch>(b), p.key[b], p.value[b]);
  set_rule(plan, p.rule);
  // Far more may be asked for than there are: scratch is for those.
  int64_t longest = 1;
  for (int64_t b = 0; b < p.B; ++b) longest = max64(longest, p.kv_len[b]);
  plan.count = min64(plan.count, ceil_div(longest, plan.select_block));
  plan.gates = p.gates;
  for_each_decode_row(p, p.kv_len, plan, [&](DecodeRow& decode_row, int64_t tokens) {
    decode_row.cmp_keys = windows_of(p.rule, tokens);
    decode_row.kv_len = tokens;
    decode_row.win_first = max64(0, tokens - p.window_size);
    decode_row.win_end = tokens;
    see_blocks(decode_row, tokens, plan.select_block);
  });
}

void dense_decode(const NsaDecodeParams& p) {
  DecodePlan plan = plan_of(p);
  set_branch(plan, kWindow, p.key[kSelected], p.value[kSelected]);
  for_each_decode_row(p, p.kv_len, plan, [&](DecodeRow& decode_row, int64_t tokens) {
    decode_row.win_first = max64(0, tokens - p.window_size);
    decode_row.win_end = tokens;
  });
}

}  // namespace nsa::cpu
