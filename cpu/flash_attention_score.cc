#include "cpu/attention/layout.h"
#include "cpu/attention/schedule_builder.h"
#include "cpu/kernel_table.h"
#include "cpu/runtime.h"

namespace nsa::cpu {

void flash_attention_score(const FlashAttentionScoreParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  AttentionPlan plan{};
  std::vector<Segment> segments = make_plan(p, plan);
  plan.segments = segments.data();
  plan.num_segments = static_cast<int64_t>(segments.size());
  Schedule schedule(plan, TileRule{}, threads);

  ForwardScratch parts{};
  parts.thread_size = table.flash_forward_thread_size(p.D, p.Dv);
  auto carve = [&](Arena& arena) {
    carve_forward(arena, schedule, plan, table.form(p.dtype), threads, parts);
  };
  Arena size;
  carve(size);
  Scratch scratch(size.used);
  Arena arena{scratch.data()};
  carve(arena);
  for (const Wave& wave : schedule.waves()) table.flash_forward(plan, wave, parts, threads);
}

}  // namespace nsa::cpu
