#include <cstring>

#include "binding/generated/by_hand.h"
#include "cpu/linear/nsa_projection.h"
#include "infer/nsa_projection.h"

namespace nsa {

namespace {

constexpr const NsaProjectionInputs& kIn = kNsaProjectionInputs;
constexpr const NsaProjectionGradInputs& kGrad = kNsaProjectionGradInputs;

// take(which, its place) for those that are given of the weights from `first` on, in the order in
// which the kernel gets them.
template <class Params, class Take>
void take_given(const CheckedCall& call, size_t first, Params& p, const Take& take) {
  p.count = 0;
  for (size_t i = 0; i < static_cast<size_t>(cpu::kMostWeights); ++i) {
    if (!call.has(first + i)) continue;
    p.N[p.count] = call.dim(first + i, 0);
    take(i, p.count++);
  }
}

// The outputs of absent weights.
void clear_placeholders(const CheckedCall& call, size_t first) {
  for (size_t i = 0; i < static_cast<size_t>(cpu::kMostWeights); ++i)
    if (!call.has(first + i)) std::memset(call.out(i), 0, sizeof(float));
}

// Both gradients read the rows of x, whatever dimensions it has.
int64_t rows_of_x(const CheckedCall& call) {
  const int64_t columns = call.dim(kGrad.weight, 1);
  return columns == 0 ? 0 : elements(call, kGrad.x) / columns;
}

int64_t work(const CheckedCall& call, size_t x, size_t first) {
  int64_t columns = 0;
  for (size_t i = 0; i < static_cast<size_t>(cpu::kMostWeights); ++i)
    if (call.has(first + i)) columns += call.dim(first + i, 0);
  return product({elements(call, x), columns});
}

}  // namespace

void run_nsa_projection(const CheckedCall& call) {
  cpu::NsaProjectionParams p{};
  fill_nsa_projection(call, p);
  take_given(call, kIn.weight, p, [&](size_t i, int64_t n) {
    p.weights[n] = call.data(kIn.weight + i);
    p.y[n] = call.out(kNsaProjectionOutputs.y + i);
  });
  const std::vector<int64_t>& y = call.outputs[kNsaProjectionOutputs.y].shape;
  p.T = 1;
  for (size_t i = 0; i + 1 < y.size(); ++i) p.T *= y[i];
  clear_placeholders(call, kIn.weight);
  cpu::nsa_projection(p);
}

void run_nsa_projection_input_grad(const CheckedCall& call) {
  cpu::NsaProjectionInputGradParams p{};
  fill_nsa_projection_input_grad(call, p);
  p.T = rows_of_x(call);
  take_given(call, kGrad.weight, p, [&](size_t i, int64_t n) {
    p.weights[n] = call.data(kGrad.weight + i);
    p.dy[n] = call.data(kGrad.y_grad + i);
  });
  cpu::nsa_projection_input_grad(p);
}

void run_nsa_projection_weight_grad(const CheckedCall& call) {
  cpu::NsaProjectionWeightGradParams p{};
  fill_nsa_projection_weight_grad(call, p);
  p.T = rows_of_x(call);
  take_given(call, kGrad.weight, p, [&](size_t i, int64_t n) {
    p.dw[n] = call.out(kNsaProjectionWeightGradOutputs.weight_grad + i);
    p.dy[n] = call.data(kGrad.y_grad + i);
  });
  clear_placeholders(call, kGrad.weight);
  cpu::nsa_projection_weight_grad(p);
}

int64_t work_of_nsa_projection(const CheckedCall& call) { return work(call, kIn.x, kIn.weight); }
int64_t work_of_nsa_projection_input_grad(const CheckedCall& call) {
  return work(call, kGrad.x, kGrad.weight);
}
int64_t work_of_nsa_projection_weight_grad(const CheckedCall& call) {
  return work(call, kGrad.x, kGrad.weight);
}

}  // namespace nsa
