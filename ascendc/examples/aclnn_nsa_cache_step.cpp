// NsaCacheStep by its aclnn interface: the step of a dense layer, three tokens of each of two rows,
// whose caches are empty and have room for eight.
//
//   g++ -std=c++17 aclnn_nsa_cache_step.cpp $(python -m mindspore_nsa.twin --cflags --libs)
#include <cmath>

#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_cache_step.h"

namespace {

constexpr int64_t kDim = 16, kStep = 2048;

// Cosines and sines of the angles of `positions` positions, `apart` from each other, all twice.
FloatTensor AnglesOf(int64_t positions, int64_t apart) {
  std::vector<float> rows;
  for (int64_t row = 0; row < positions; ++row) {
    for (int64_t i = 0; i < 2 * kDim; ++i) {
      const double pair = static_cast<double>(i % (kDim / 2));
      const double angle = static_cast<double>(row * apart) * std::pow(10000.0, -2 * pair / kDim);
      rows.push_back(static_cast<float>(i < kDim ? std::cos(angle) : std::sin(angle)));
    }
  }
  return FloatTensor({positions, 2 * kDim}, rows);
}

}  // namespace

int main() {
  const int64_t rows = 2, tokens = 6, query_heads = 4, heads = 2, capacity = 8, state_size = 14;
  const int64_t whole = int64_t{1} << 31;  // every earlier token is seen
  char importance[] = "cann";

  const Session session;
  const FloatTensor query({tokens, query_heads, kDim}, Pattern(tokens * query_heads * kDim, 7, 19));
  const FloatTensor key({tokens, heads, kDim}, Pattern(tokens * heads * kDim, 5, 17));
  const FloatTensor value({tokens, heads, kDim}, Pattern(tokens * heads * kDim, 3, 13));
  const int64_t cached = rows * heads * capacity * 2 * kDim;
  const HalfTensor cache({rows, heads, capacity, 2 * kDim}, std::vector<float>(cached));
  const LongTensor state({rows, state_size}, std::vector<float>(rows * state_size));
  const HalfTensor placeholder({1, 1, 1, 1}, {0});  // of what only a sparse layer has
  const FloatTensor angles = AnglesOf(1, kStep), fine_angles = AnglesOf(kStep, 1);
  const HalfTensor output({tokens, query_heads, kDim});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaCacheStepGetWorkspaceSize(
      query.get(), key.get(), value.get(), cache.get(), state.get(), nullptr, nullptr, nullptr,
      nullptr, nullptr, nullptr, placeholder.get(), angles.get(), fine_angles.get(), 0.25, 10000.0,
      1.0, 0.0, 1.0, 0, whole, 0, 1, 1, 1, 1, 0, 0, importance, 1, output.get(), &workspace_size,
      &executor));
  session.Run(aclnnMsnsaCacheStep, workspace_size, executor);
  Print("attentionOut", output);
  Print("state", state);
  return 0;
}
