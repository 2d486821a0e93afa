#include "cpu/engine/plan/layout.h"

namespace nsa::cpu {
namespace {

struct LayoutStrides {
  RowStrides strides;
  int64_t batch;
};

LayoutStrides strides_of(Layout layout, int64_t B, int64_t S, int64_t N, int64_t D) {
  switch (layout) {
    case Layout::kSBH:
      return {{B * N * D, D}, N * D};
    case Layout::kBNSD:
      return {{D, S * D}, N * S * D};
    case Layout::kTND:
      return {{N * D, D}, 0};
    default:
      return {{N * D, D}, S * N * D};
  }
}

struct PlanStrides {
  LayoutStrides q, k, v, o;
};

// The tensors of a plan and how their rows and heads lie.
PlanStrides set_tensors(const AttentionTensors& x, AttentionPlan& plan) {
  const LayoutStrides q = strides_of(x.layout, x.B, x.S1, x.N1, x.D);
  const LayoutStrides k = strides_of(x.layout, x.B, x.S2, x.N2, x.D);
  const LayoutStrides v = strides_of(x.layout, x.B, x.S2, x.N2, x.Dv);
  const LayoutStrides o = strides_of(x.layout, x.B, x.S1, x.N1, x.Dv);
  plan.query = x.query;
  plan.key = x.key;
  plan.value = x.value;
  plan.out = x.out;
  plan.softmax_max = x.softmax_max;
  plan.softmax_sum = x.softmax_sum;
  plan.dtype = x.dtype;
  plan.N1 = x.N1;
  plan.N2 = x.N2;
  plan.G = x.N1 / x.N2;
  plan.D = x.D;
  plan.Dv = x.Dv;
  plan.q = q.strides;
  plan.k = k.strides;
  plan.v = v.strides;
  plan.o = o.strides;
  plan.stat = x.layout == Layout::kTND ? RowStrides{x.N1 * kSoftmaxLanes, kSoftmaxLanes}
                                       : RowStrides{kSoftmaxLanes, x.S1 * kSoftmaxLanes};
  plan.scale = x.scale;
  return {q, k, v, o};
}

Segment segment_of(const AttentionTensors& x, const PlanStrides& strides, int64_t b) {
  const bool packed = x.layout == Layout::kTND;
  const auto& [q, k, v, o] = strides;
  const int64_t q0 = packed ? start_of(x.seq_q, b) : 0, k0 = packed ? start_of(x.seq_kv, b) : 0;
  Segment seg{};
  seg.index = b;
  seg.q_len = packed ? x.seq_q[b] - q0 : x.S1;
  seg.kv_len = packed ? x.seq_kv[b] - k0 : x.S2;
  seg.q = b * q.batch + q0 * q.strides.row;
  seg.k = b * k.batch + k0 * k.strides.row;
  seg.v = b * v.batch + k0 * v.strides.row;
  seg.o = b * o.batch + q0 * o.strides.row;
  seg.stat = (packed ? q0 : b * x.S1) * x.N1 * kSoftmaxLanes;
  seg.range.kv_len = seg.kv_len;
  return seg;
}

}  // namespace

std::vector<Segment> make_plan(const AttentionTensors& x, AttentionPlan& plan) {
  const PlanStrides strides = set_tensors(x, plan);
  plan.bias.inv_keep = 1.0f;
  std::vector<Segment> segments;
  for (int64_t b = 0; b < x.B; ++b) segments.push_back(segment_of(x, strides, b));
  plan.segments = segments.data();
  plan.num_segments = x.B;
  return segments;
}

}  // namespace nsa::cpu
