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
  // Every group packs its rows again, so the panels are divided only where rows are few.
  const int64_t row_blocks = max64(1, ceil_div(product.T, kProductRows));
  product.groups = min64(product.panels, ceil_div(kProductUnits, row_blocks));
  ProductScratch parts{};
  parts.thread_size = thread_part(table.product_thread_size(depth));
  const Scratch scratch([&](Arena& arena) {
    parts.right = arena.take<float>(product.panels * depth * kPanel);
    parts.threads = arena.take_threads(threads, parts.thread_size);
  });
  table.row_product(product, parts, threads);
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
    product.blocks += ceil_div(p.N[i], kProductRows);
    rows += p.N[i];
  }
  product.x = {p.x, p.x_type, p.K};
  product.dw_type = p.dw_type;
  product.operands = p.operands;
  product.count = p.count;
  product.T = p.T;
  const int64_t depth = table.product_form(p.operands).words(product.tokens());
  ProductScratch parts{};
  parts.left_row = depth + 16;
  parts.thread_size = thread_part(table.product_thread_size(0));
  const Scratch scratch([&](Arena& arena) {
    parts.left = arena.take<float>(product.blocks * kProductRows * parts.left_row);
    parts.right = arena.take<float>(product.panels() * depth * kPanel);
    if (p.dw_type != ElemType::kFloat32) parts.sums = arena.take<float>(rows * p.K);
    parts.threads = arena.take_threads(threads, parts.thread_size);
  });
  table.weight_product(product, parts, threads);
}

}  // namespace nsa::cpu
