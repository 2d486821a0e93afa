// Gradients of keys that queries picked anywhere. A query with G heads adds the product
// left [tokens, G] right [G, width] to the rows of its tokens. `left` waits until a wave of queries
// is done; `right` is the query, or the gradient of its output, and is read again. A work item then
// takes a chunk of keys and some columns, whose sums it keeps in cache, and adds query by query: so
// every key is summed by one thread, in the order of the queries, whatever the number of threads.
// Products that waited instead would be written, read, and added to rows far from each other.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/plan/waiting_tokens.h"
#include "cpu/engine/step/kernel_variant.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {
namespace {

constexpr int64_t kSumRow = padded_row(kSumColumns);
// Tokens of a product: its left rows stay in the first-level cache for all columns.
constexpr int64_t kSumTokens = 128;
// Tokens of a key in a wave from which on its sums are copied into the cache.
constexpr int64_t kCopiedTokens = 3;

// Puts the tokens of a query of a wave in order of their chunks, those of a chunk as they stand.
inline void put_in_chunks(const WaitingTokens& waiting, int64_t query, int64_t total) {
  const int64_t chunks = waiting.chunks, at = query * waiting.most;
  const int32_t* token = waiting.tokens + at;
  int32_t *const order = waiting.order + at, *const end = waiting.ends + query * chunks;
  for (int64_t c = 0; c < chunks; ++c) end[c] = 0;
  for (int64_t t = 0; t < total; ++t) ++end[token[t] >> waiting.shift];
  int32_t before = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    const int32_t here = end[c];
    end[c] = before;
    before += here;
  }
  for (int64_t t = 0; t < total; ++t)
    order[end[token[t] >> waiting.shift]++] = static_cast<int32_t>(t);
}

// The gradient of keys, of their ropes or of values.
struct KeyOutput {
  const void* right;  // [rows, N1, width] of queries
  const float* left;  // [wave, most, lanes]
  float* sums;        // [keys, N2, width]
  int64_t width;
};

struct TokenSumBuffers {
  float* right;  // [G, kSumRow]
  float* sums;   // [chunk_keys, kSumRow], or products [kSumTokens, kSumRow]
  PrefetchQueue prefetch;

  static TokenSumBuffers carve(Arena& arena, int64_t G, const WaitingTokens& waiting) {
    TokenSumBuffers b{};
    b.right = arena.take<float>(G * kSumRow);
    b.sums = arena.take<float>(max64(waiting.chunk_keys, kSumTokens) * kSumRow);
    b.prefetch = PrefetchQueue::carve(arena, kSumTokens);
    return b;
  }
};

// A wave of queries with the heads of a key head, from query i0 of a segment on.
struct WaveOfQueries {
  const AttentionPlan& plan;
  const WaitingTokens& waiting;
  const Segment& seg;
  int64_t key_head, i0, queries;

  // Chunks of the segment's keys.
  int64_t chunks() const { return ceil_div(seg.kv_len, int64_t{1} << waiting.shift); }
  // Where the tokens of query n in the chunks before this one end in its order.
  int64_t before(int64_t n, int64_t chunk) const {
    return chunk == 0 ? 0 : waiting.ends[n * waiting.chunks + chunk - 1];
  }
  int64_t tokens(int64_t n) const { return before(n, waiting.chunks); }
};

// Some columns of an output for the keys of neighbouring chunks.
class TokenSums {
 public:
  TokenSums(const WaveOfQueries& wave, const KeyOutput& out, int64_t chunk, int64_t past_chunk,
            int64_t column, TokenSumBuffers& b)
      : wave_(wave),
        out_(out),
        chunk_(chunk),
        past_chunk_(past_chunk),
        first_(chunk << wave.waiting.shift),
        column_(column),
        columns_(min64(kSumColumns, out.width - column)),
        lanes_(round_up(columns_, kLanePad)),
        b_(b) {}

  // Copies the sums of one chunk and adds to them in cache.
  void add_in_cache() {
    int64_t tokens = 0;
    for (int64_t n = 0; n < wave_.queries; ++n)
      tokens += wave_.before(n, past_chunk_) - wave_.before(n, chunk_);
    if (tokens == 0) return;
    const int64_t keys = min64(int64_t{1} << wave_.waiting.shift, wave_.seg.kv_len - first_);
    const auto bytes = static_cast<size_t>(columns_) * sizeof(float);
    for (int64_t k = 0; k < keys; ++k) {
      float* const sum = b_.sums + k * kSumRow;
      const int64_t old = wave_.i0 == 0 ? 0 : columns_;  // the first wave begins with zeros
      if (old > 0) __builtin_memcpy(sum, row(k), bytes);
      fill(sum + old, lanes_ - old, 0.0f);
    }
    // A key that is named twice is added to twice: a product's rows are written one by one.
    each_product([&](const Sizes& of, const float* const* left, const int64_t* key) {
      float* sums[kSumTokens];
      for (int64_t j = 0; j < of.M; ++j) sums[j] = b_.sums + key[j] * kSumRow;
      matmul_rows<FloatStep>(of, RowList{left}, Lanes{b_.right, kSumRow}, OutputList{sums, 0},
                             {Into::kAdd});
    });
    for (int64_t k = 0; k < keys; ++k) __builtin_memcpy(row(k), b_.sums + k * kSumRow, bytes);
  }

  // Adds to the sums where they are, whose rows are prefetched during a product: for few tokens of
  // a key.
  void add() {
    each_product([&](const Sizes& of, const float* const* left, const int64_t* key) {
      b_.prefetch.clear();
      for (int64_t j = 0; j < of.M; ++j) b_.prefetch.add(row(key[j]), columns_);
      b_.prefetch.over(matmul_steps<FloatStep>(of.M, of.N));
      matmul_rows<FloatStep>(of, RowList{left}, Lanes{b_.right, kSumRow}, Output{b_.sums, kSumRow},
                             {Into::kReplace, nullptr, &b_.prefetch});
      for (int64_t j = 0; j < of.M; ++j) add_to(row(key[j]), b_.sums + j * kSumRow, columns_);
    });
  }

 private:
  // The columns of key k after the first one of the chunks.
  float* row(int64_t k) const {
    const int64_t head = (wave_.seg.first_key + first_ + k) * wave_.plan.N2 + wave_.key_head;
    return out_.sums + head * out_.width + column_;
  }

  // product(sizes, left rows, keys) for a few tokens of a query at a time; b.right is its rows.
  template <class Product>
  void each_product(const Product& product) {
    const WaitingTokens& waiting = wave_.waiting;
    const int64_t G = wave_.plan.G, lanes_of_left = round_up(G, kLanePad);
    for (int64_t n = 0; n < wave_.queries; ++n) {
      const int64_t end = wave_.before(n, past_chunk_), at = n * waiting.most;
      int64_t t = wave_.before(n, chunk_);
      if (t < end) load_right(n);
      while (t < end) {
        const float* left[kSumTokens];
        int64_t key[kSumTokens], count = 0;
        for (; t < end && count < kSumTokens; ++t, ++count) {
          const int64_t place = at + waiting.order[at + t];
          left[count] = out_.left + place * lanes_of_left;
          key[count] = waiting.tokens[place] - first_;
        }
        product({count, lanes_, G}, left, key);
      }
    }
  }

  void load_right(int64_t n) {
    const AttentionPlan& plan = wave_.plan;
    const int64_t query = wave_.seg.first_query + wave_.i0 + n;
    const int64_t head = query * plan.N1 + wave_.key_head * plan.G;
    for (int64_t g = 0; g < plan.G; ++g) {
      const int64_t at = (head + g) * out_.width + column_;
      if (g + kPrefetchDistance < plan.G)
        prefetch_row(plan.dtype, out_.right, at + kPrefetchDistance * out_.width, columns_);
      float* const right = b_.right + g * kSumRow;
      to_float(plan.dtype, out_.right, at, columns_, right);
      fill(right + columns_, lanes_ - columns_, 0.0f);
    }
  }

  const WaveOfQueries& wave_;
  const KeyOutput& out_;
  const int64_t chunk_, past_chunk_, first_, column_, columns_, lanes_;
  TokenSumBuffers& b_;
};

// A member's work items of a wave; barriers stand around it.
inline void add_token_sums(const Member& member, const WaveOfQueries& wave,
                           const KeyOutput* outputs, int64_t count, TokenSumBuffers& b) {
  int64_t blocks = 0, tokens = 0;
  for (int64_t o = 0; o < count; ++o) blocks += sum_blocks(outputs[o].width);
  for (int64_t n = 0; n < wave.queries; ++n) tokens += wave.tokens(n);
  // With fewer tokens the rows of keys would be copied for little, and a query's rows be read once
  // more for each chunk.
  const bool in_cache = tokens >= kCopiedTokens * wave.seg.kv_len;
  const int64_t chunks = wave.chunks(), items = ceil_div(kSumItems * member.region.count, blocks);
  const int64_t together = in_cache ? 1 : max64(1, chunks / items);
  member.dynamic_for(ceil_div(chunks, together) * blocks, [&](int64_t work_item) {
    int64_t block = work_item % blocks;
    const KeyOutput* out = outputs;
    for (; block >= sum_blocks(out->width); ++out) block -= sum_blocks(out->width);
    const int64_t chunk = work_item / blocks * together;
    TokenSums sums(wave, *out, chunk, min64(chunk + together, chunks), block * kSumColumns, b);
    in_cache ? sums.add_in_cache() : sums.add();
  });
}

}  // namespace
}  // namespace nsa::cpu
