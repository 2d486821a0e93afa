#include "cpu/linear/nsa_projection.h"

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/threads/scratch.h"
#include "cpu/engine/threads/team.h"
#include "cpu/linear/nsa_projection_plan.h"

namespace nsa::cpu {
namespace {

void run(RowProduct& product) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  const int64_t depth = product.words(table.product_form(product.operands));
  for (int64_t i = 0; i < product.num_targets; ++i)
    product.panels += ceil_div(product.targets[i].columns, kPanel);
  if (product.panels == 0) return;
  // Every split packs its rows again, so the panels are divided only where rows are few.
  const int64_t row_tiles = max64(1, ceil_div(product.T, kProductRows));
  product.splits = min64(product.panels, ceil_div(kProductWorkItems, row_tiles));
  ProductScratch space{};
  space.thread_size = thread_space(table.product_thread_size(depth));
  const Scratch scratch([&](Arena& arena) {
    space.right = arena.take<float>(product.panels * depth * kPanel);
    space.threads = arena.take_threads(threads, space.thread_size);
  });
  table.row_product(product, space, threads);
}

}  // namespace

void nsa_projection(const NsaProjectionParams& p) {
  RowProduct product{};
  product.sources[0] = {p.x, p.x_type, p.K};
  product.num_sources = 1;
  product.num_targets = p.count;
  for (int64_t i = 0; i < p.count; ++i) {
    product.targets[i] = {p.y[i], p.y_type, p.N[i]};
    product.weights[i] = p.weights[i];
  }
  product.weight_type = p.weight_type;
  product.operands = p.operands;
  product.transposed = true;
  product.T = p.T;
  run(product);
}

void nsa_projection_input_grad(const NsaProjectionInputGradParams& p) {
  RowProduct product{};
  for (int64_t i = 0; i < p.count; ++i) {
    product.sources[i] = {p.dy[i], p.dy_type, p.N[i]};
    product.weights[i] = p.weights[i];
  }
  product.num_sources = p.count;
  product.targets[0] = {p.dx, p.dx_type, p.K};
  product.num_targets = 1;
  product.weight_type = p.weight_type;
  product.operands = p.operands;
  product.transposed = false;
  product.T = p.T;
  run(product);
}

void nsa_projection_weight_grad(const NsaProjectionWeightGradParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  WeightProduct product{};
  int64_t rows = 0;
  for (int64_t i = 0; i < p.count; ++i) {
    product.dy[i] = {p.dy[i], p.dy_type, p.N[i]};
    product.dw[i] = p.dw[i];
    product.tiles += ceil_div(p.N[i], kProductRows);
    rows += p.N[i];
  }
  product.x = {p.x, p.x_type, p.K};
  product.dw_type = p.dw_type;
  product.operands = p.operands;
  product.count = p.count;
  product.T = p.T;
  const int64_t depth = table.product_form(p.operands).words(product.tokens());
  ProductScratch space{};
  space.left_row = depth + 16;
  space.thread_size = thread_space(table.product_thread_size(0));
  const Scratch scratch([&](Arena& arena) {
    space.left = arena.take<float>(product.tiles * kProductRows * space.left_row);
    space.right = arena.take<float>(product.panels() * depth * kPanel);
    if (p.dw_type != ElemType::kFloat32) space.sums = arena.take<float>(rows * p.K);
    space.threads = arena.take_threads(threads, space.thread_size);
  });
  table.weight_product(product, space, threads);
}

}  // namespace nsa::cpu
