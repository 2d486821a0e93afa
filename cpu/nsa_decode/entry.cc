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
  int64_t keys = 0, steps = 0, units = 0;
  int64_t max_cmp_keys = 0, max_blocks = 0;
};

class DecodeSchedule {
 public:
  explicit DecodeSchedule(const DecodePlan& plan) : plan_(plan) {}

  // Adds a cell, whose counts the caller has filled in; the wave runs when it is large enough.
  void add(DecodeCell cell) {
    const int64_t per_unit = max64(1, kDecodeUnitKeys / plan_.select_block);
    // Each candidate is chosen once at most, while a given block may stand several times.
    const int64_t blocks = plan_.choose ? min64(plan_.count, cell.candidates) : plan_.count;
    const int64_t units[kBranches] = {ceil_div(cell.cmp_keys, kDecodeUnitKeys),
                                      ceil_div(blocks, per_unit),
                                      ceil_div(cell.win_end - cell.win_first, kDecodeUnitKeys)};
    for (int b = 0; b < kBranches; ++b) {
      cell.first_unit[b] = sizes_.units;
      cell.units[b] = plan_.has[b] ? units[b] : 0;
      sizes_.units += cell.units[b];
    }
    cell.scores = sizes_.keys;
    cell.step = sizes_.steps;
    sizes_.keys += cell.cmp_keys;
    sizes_.steps += ceil_div(cell.cmp_keys, kStepKeys);
    sizes_.max_cmp_keys = max64(sizes_.max_cmp_keys, cell.cmp_keys);
    sizes_.max_blocks = max64(sizes_.max_blocks, cell.candidates);
    cells_.push_back(cell);
    if (bytes() > kWaveBytes) run();
  }

  void run() {
    if (cells_.empty()) return;
    list_items();
    const KernelTable& table = kernels();
    const int threads = num_threads();
    DecodeScratch x{};
    x.thread_size =
        thread_space(table.decode_thread_size(plan_, sizes_.max_cmp_keys, sizes_.max_blocks));
    const Scratch scratch([&](Arena& arena) { carve(arena, threads, x); });
    for (size_t i = 0; i < 3 * cells_.size(); ++i) x.done[i] = 0;
    *x.next = 0;
    table.decode(plan_,
                 {cells_.data(), items_.data(), static_cast<int64_t>(items_.size()),
                  sizes_.max_cmp_keys, sizes_.max_blocks},
                 x, threads);
    cells_.clear();
    items_.clear();
    sizes_ = {};
  }

 private:
  int64_t bytes() const {
    const int64_t lanes = decode_lanes(plan_.G), cells = static_cast<int64_t>(cells_.size());
    const int64_t unit = 2 * lanes + plan_.G * decode_row(plan_.Dv);
    return 4 * (cells * decode_words(plan_.D) * lanes + sizes_.units * unit +
                (sizes_.keys + sizes_.steps) * lanes);
  }

  // What waits comes as late as it can after what it waits for.
  void list_items() {
    items_.reserve(3 * cells_.size() + sizes_.units);
    add_all(DecodeWork::kPack, 0);
    add_all(DecodeWork::kUnit, kCompressed);
    add_all(DecodeWork::kUnit, kWindow);
    if (plan_.choose || plan_.has[kSelected]) add_all(DecodeWork::kChoose, 0);
    add_all(DecodeWork::kUnit, kSelected);
    add_all(DecodeWork::kMerge, 0);
  }

  void add_all(DecodeWork work, int branch) {
    for (size_t n = 0; n < cells_.size(); ++n) {
      const int64_t units = work == DecodeWork::kUnit ? cells_[n].units[branch] : 1;
      for (int64_t u = 0; u < units; ++u)
        items_.push_back({work, branch, static_cast<int64_t>(n), u});
    }
  }

  void carve(Arena& arena, int threads, DecodeScratch& x) const {
    const int64_t lanes = decode_lanes(plan_.G), cells = static_cast<int64_t>(cells_.size());
    x.query = arena.take<float>(cells * decode_words(plan_.D) * lanes);
    x.exponential = arena.take<float>(plan_.choose ? sizes_.keys * lanes : 0);
    x.step_max = arena.take<float>(plan_.choose ? sizes_.steps * lanes : 0);
    x.max = arena.take<float>(sizes_.units * lanes);
    x.sum = arena.take<float>(sizes_.units * lanes);
    x.out = arena.take<float>(sizes_.units * plan_.G * decode_row(plan_.Dv));
    x.blocks = arena.take<int32_t>(cells * plan_.count);
    x.found = arena.take<int64_t>(cells);
    x.done = arena.take<int32_t>(3 * cells);
    x.next = arena.take<int64_t>(8);
    x.threads = arena.take_threads(threads, x.thread_size);
  }

  const DecodePlan& plan_;
  std::vector<DecodeCell> cells_;
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

// Calls see(cell, row, number of tokens up to the query's own) for every query and kv head. What
// `length` says is not used where the rows have no length.
template <class See>
void for_each_cell(const InferParams& p, const int64_t* length, const DecodePlan& plan, See see) {
  DecodeSchedule schedule(plan);
  int64_t token = 0;
  for (int64_t b = 0; b < p.B; ++b) {
    for (int64_t i = 0; i < p.q_len[b]; ++i, ++token) {
      for (int64_t h = 0; h < p.N2; ++h) {
        DecodeCell cell{};
        cell.row = b;
        cell.token = token;
        cell.head = h;
        cell.own = -1;
        see(cell, length ? length[b] - p.q_len[b] + i + 1 : 0);
        schedule.add(cell);
      }
    }
  }
  schedule.run();
}

void see_blocks(DecodeCell& cell, int64_t tokens, int64_t select_block) {
  cell.own = (tokens - 1) / select_block;
  cell.candidates = cell.own + 1;
}

}  // namespace

void nsa_compress_attention_infer(const NsaCompressAttentionInferParams& p) {
  DecodePlan plan = plan_of(p);
  set_branch(plan, kCompressed, p.key, p.value);
  set_rule(plan, p.rule);
  plan.topk_indices = p.topk_indices;
  for_each_cell(p, p.sel_len, plan, [&](DecodeCell& cell, int64_t tokens) {
    cell.cmp_keys = p.cmp_len[cell.row];
    if (p.sel_len) {
      cell.cmp_keys = min64(cell.cmp_keys, windows_of(p.rule, tokens));
      see_blocks(cell, tokens, plan.select_block);
    } else {
      cell.candidates = plan.rule.blocks(cell.cmp_keys);
    }
  });
}

void nsa_selected_attention_infer(const NsaSelectedAttentionInferParams& p) {
  DecodePlan plan = plan_of(p);
  set_branch(plan, kSelected, p.key, p.value);
  plan.given_blocks = p.topk_indices;
  plan.select_block = p.select_block_size;
  plan.count = p.select_block_count;
  for_each_cell(p, p.kv_len, plan, [&](DecodeCell& cell, int64_t tokens) { cell.kv_len = tokens; });
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
  for_each_cell(p, p.kv_len, plan, [&](DecodeCell& cell, int64_t tokens) {
    cell.cmp_keys = windows_of(p.rule, tokens);
    cell.kv_len = tokens;
    cell.win_first = max64(0, tokens - p.window_size);
    cell.win_end = tokens;
    see_blocks(cell, tokens, plan.select_block);
  });
}

void dense_decode(const NsaDecodeParams& p) {
  DecodePlan plan = plan_of(p);
  set_branch(plan, kWindow, p.key[kSelected], p.value[kSelected]);
  for_each_cell(p, p.kv_len, plan, [&](DecodeCell& cell, int64_t tokens) {
    cell.win_first = max64(0, tokens - p.window_size);
    cell.win_end = tokens;
  });
}

}  // namespace nsa::cpu
