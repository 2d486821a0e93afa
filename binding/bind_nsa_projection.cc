#include <cstring>

#include "binding/op_call.h"
#include "cpu/linear/nsa_projection.h"
#include "infer/nsa_projection.h"

namespace nsa {

namespace {

constexpr const NsaProjectionInputs& kIn = kNsaProjectionInputs;
constexpr const NsaProjectionGradInputs& kGrad = kNsaProjectionGradInputs;
constexpr size_t kMostWeights = static_cast<size_t>(cpu::kMostWeights);

// take(which, its place) for those that are given of the weights from `first` on, in the order in
// which the kernel gets them, and their number.
template <class Take>
int64_t take_given(const CheckedCall& call, size_t first, const Take& take) {
  int64_t count = 0;
  for (size_t i = 0; i < kMostWeights; ++i)
    if (call.has(first + i)) take(i, count++);
  return count;
}

// The outputs of absent weights.
void clear_placeholders(const CheckedCall& call, size_t first) {
  for (size_t i = 0; i < kMostWeights; ++i)
    if (!call.has(first + i)) std::memset(call.out(i), 0, sizeof(float));
}

// T of a y.
int64_t tokens_of(const TensorDesc& y) {
  int64_t tokens = 1;
  for (size_t i = 0; i + 1 < y.shape.size(); ++i) tokens *= y.shape[i];
  return tokens;
}

void run_kernel(const CheckedCall& call) {
  cpu::NsaProjectionParams p{};
  p.x = call.data(kIn.x);
  p.x_type = elem_type(call.in(kIn.x).dtype);
  p.weight_type = elem_type(call.in(kIn.weight).dtype);
  p.y_type = elem_type(call.outputs[kNsaProjectionOutputs.y].dtype);
  p.operands = elem_type(dtype_of(call.attrs<NsaProjectionAttrs>().operands));
  p.count = take_given(call, kIn.weight, [&](size_t i, int64_t n) {
    p.weights[n] = call.data(kIn.weight + i);
    p.N[n] = call.dim(kIn.weight + i, 0);
    p.y[n] = call.out(kNsaProjectionOutputs.y + i);
  });
  p.T = tokens_of(call.outputs[kNsaProjectionOutputs.y]);
  p.K = call.dim(kIn.weight, 1);
  clear_placeholders(call, kIn.weight);
  cpu::nsa_projection(p);
}

// Fills the parameters of both gradients.
template <class Params>
void fill_grad(const CheckedCall& call, Params& p) {
  p.dy_type = elem_type(call.in(kGrad.y_grad).dtype);
  p.operands = elem_type(dtype_of(call.attrs<NsaProjectionGradAttrs>().operands));
  p.count = take_given(call, kGrad.weight, [&](size_t i, int64_t n) {
    p.dy[n] = call.data(kGrad.y_grad + i);
    p.N[n] = call.dim(kGrad.weight + i, 0);
  });
  p.T = tokens_of(call.in(kGrad.y_grad));
  p.K = call.dim(kGrad.weight, 1);
}

void run_input_grad(const CheckedCall& call) {
  cpu::NsaProjectionInputGradParams p{};
  fill_grad(call, p);
  p.weight_type = elem_type(call.in(kGrad.weight).dtype);
  p.dx_type = elem_type(call.in(kGrad.x).dtype);
  p.dx = call.out(kNsaProjectionInputGradOutputs.x_grad);
  take_given(call, kGrad.weight,
             [&](size_t i, int64_t n) { p.weights[n] = call.data(kGrad.weight + i); });
  cpu::nsa_projection_input_grad(p);
}

void run_weight_grad(const CheckedCall& call) {
  cpu::NsaProjectionWeightGradParams p{};
  fill_grad(call, p);
  p.x = call.data(kGrad.x);
  p.x_type = elem_type(call.in(kGrad.x).dtype);
  p.dw_type = elem_type(call.in(kGrad.weight).dtype);
  take_given(call, kGrad.weight, [&](size_t i, int64_t n) {
    p.dw[n] = call.out(kNsaProjectionWeightGradOutputs.weight_grad + i);
  });
  clear_placeholders(call, kGrad.weight);
  cpu::nsa_projection_weight_grad(p);
}

int64_t columns(const CheckedCall& call, size_t first) {
  int64_t sum = 0;
  take_given(call, first, [&](size_t i, int64_t) { sum += call.dim(first + i, 0); });
  return sum;
}

int64_t work(const CheckedCall& call) {
  return product({elements(call, kIn.x), columns(call, kIn.weight)});
}
int64_t work_grad(const CheckedCall& call) {
  return product({elements(call, kGrad.x), columns(call, kGrad.weight)});
}

}  // namespace

const CpuKernelEntry nsa_projection_entry{run_kernel, work};
const CpuKernelEntry nsa_projection_input_grad_entry{run_input_grad, work_grad};
const CpuKernelEntry nsa_projection_weight_grad_entry{run_weight_grad, work_grad};

}  // namespace nsa
