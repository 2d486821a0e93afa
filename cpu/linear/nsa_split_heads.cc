#include "cpu/linear/nsa_split_heads.h"

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/threads/scratch.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {
namespace {

// Compressed keys are rotated when they have been compressed.
bool rotated(int64_t branches, int64_t branch) { return branches == 1 || branch > 0; }

// Columns of one token: a branch's keys, and behind all keys its values.
struct Columns {
  int64_t query, key, value, all_keys, all;

  explicit Columns(const NsaSplitHeadsGradAttrs& p)
      : query(p.head_num * p.head_dim),
        key(p.kv_head_num * p.head_dim),
        value(p.kv_head_num * p.value_head_dim),
        all_keys(p.branches * key),
        all(all_keys + p.branches * value) {}

  int64_t widest() const { return max64(query, max64(key, value)); }
};

// out = x with every two elements (x[i], x[i + dim / 2]) of its heads rotated by the angle of a
// token; by the opposite angle with sign -1, which is the gradient.
void rotate(const float* __restrict x, int64_t heads, int64_t dim, const float* __restrict cos,
            const float* __restrict sin, float sign, float* __restrict out) {
  const int64_t half = dim / 2;
  for (int64_t h = 0; h < heads; ++h, x += dim, out += dim) {
    for (int64_t i = 0; i < half; ++i) {
      out[i] = x[i] * cos[i] + x[i + half] * (sign * sin[i]);
      out[i + half] = x[i + half] * cos[i + half] + x[i] * (sign * sin[i + half]);
    }
  }
}

void* row_of(void* data, int64_t row, int64_t width, ElemType t) {
  return static_cast<char*>(data) + row * width * elem_size(t);
}
const void* row_of(const void* data, int64_t row, int64_t width, ElemType t) {
  return static_cast<const char*>(data) + row * width * elem_size(t);
}

void split_token(const NsaSplitHeadsParams& p, const KernelTable& table, const Columns& columns,
                 int64_t t, float* row) {
  const float *cos = p.cos + t * p.head_dim, *sin = p.sin + t * p.head_dim;
  const bool plain = p.dtype == ElemType::kFloat32;
  float* query = plain ? static_cast<float*>(row_of(p.queries[0], t, columns.query, p.dtype)) : row;
  rotate(p.query + t * columns.query, p.head_num, p.head_dim, cos, sin, 1.0f, query);
  for (int64_t b = plain ? 1 : 0; b < p.branches; ++b)
    table.round_rows(p.dtype, query, columns.query,
                     row_of(p.queries[b], t, columns.query, p.dtype));
  const float* source = p.key_value + t * columns.all;
  for (int64_t b = 0; b < p.branches; ++b) {
    const float* keys = source + b * columns.key;
    if (rotated(p.branches, b)) {
      rotate(keys, p.kv_head_num, p.head_dim, cos, sin, 1.0f, row);
      keys = row;
    }
    table.round_rows(p.dtype, keys, columns.key, row_of(p.keys[b], t, columns.key, p.dtype));
    table.round_rows(p.dtype, source + columns.all_keys + b * columns.value, columns.value,
                     row_of(p.values[b], t, columns.value, p.dtype));
  }
}

// row and sum: as wide as the widest.
void join_token(const NsaSplitHeadsGradParams& p, const KernelTable& table, const Columns& columns,
                int64_t t, float* row, float* sum) {
  const float *cos = p.cos + t * p.head_dim, *sin = p.sin + t * p.head_dim;
  table.widen_rows(p.dtype, row_of(p.queries[0], t, columns.query, p.dtype), columns.query, sum);
  for (int64_t b = 1; b < p.branches; ++b) {
    const void* query = row_of(p.queries[b], t, columns.query, p.dtype);
    const float* __restrict more = static_cast<const float*>(query);
    if (p.dtype != ElemType::kFloat32) {
      table.widen_rows(p.dtype, query, columns.query, row);
      more = row;
    }
    for (int64_t i = 0; i < columns.query; ++i) sum[i] += more[i];
  }
  rotate(sum, p.head_num, p.head_dim, cos, sin, -1.0f, p.query_grad + t * columns.query);
  float* target = p.key_value_grad + t * columns.all;
  for (int64_t b = 0; b < p.branches; ++b) {
    float* keys = target + b * columns.key;
    const bool rotates = rotated(p.branches, b);
    table.widen_rows(p.dtype, row_of(p.keys[b], t, columns.key, p.dtype), columns.key,
                     rotates ? row : keys);
    if (rotates) rotate(row, p.kv_head_num, p.head_dim, cos, sin, -1.0f, keys);
    table.widen_rows(p.dtype, row_of(p.values[b], t, columns.value, p.dtype), columns.value,
                     target + columns.all_keys + b * columns.value);
  }
}

// token(t, a thread's scratch of `floats` floats) for all tokens.
template <class Token>
void for_tokens(int64_t tokens, int64_t floats, const Token& token) {
  const int threads = num_threads();
  const int64_t space = thread_space(floats * 4);
  char* memory = nullptr;
  const Scratch scratch([&](Arena& arena) { memory = arena.take_threads(threads, space); });
  parallel_region(threads, [&](const Member& member) {
    auto* row = reinterpret_cast<float*>(memory + member.number * space);
    member.static_for(tokens, [&](int64_t t) { token(t, row); });
  });
}

}  // namespace

void nsa_split_heads(const NsaSplitHeadsParams& p) {
  const KernelTable& table = kernels();
  const Columns columns(p);
  for_tokens(p.T, columns.widest(),
             [&](int64_t t, float* row) { split_token(p, table, columns, t, row); });
}

void nsa_split_heads_grad(const NsaSplitHeadsGradParams& p) {
  const KernelTable& table = kernels();
  const Columns columns(p);
  const int64_t width = columns.widest();
  for_tokens(p.T, 2 * width,
             [&](int64_t t, float* row) { join_token(p, table, columns, t, row, row + width); });
}

}  // namespace nsa::cpu
