// Sequence lists: inclusive prefix sums of segment lengths, and what follows from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "infer/declare.h"

namespace nsa {

using SeqList = std::vector<int64_t>;

// No size, prefix sum or offset may be larger: sums of a few of them then stay in int64.
inline constexpr int64_t kLargestSize = kNoMax;

inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

inline int64_t segment_begin(const SeqList& list, size_t b) { return b == 0 ? 0 : list[b - 1]; }
inline int64_t segment_length(const SeqList& list, size_t b) {
  return list[b] - segment_begin(list, b);
}
int64_t longest_segment(const SeqList& list);
// The same, of the segments that have queries.
int64_t longest_segment(const SeqList& list, const SeqList& queries);

// Windows of l tokens, s apart, that fit into a segment of `length` tokens.
inline int64_t windows_of(int64_t length, int64_t l, int64_t s) {
  return length >= l ? (length - l) / s + 1 : 0;
}
// Windows of all segments together: the exact row count T' of nsa_compress.
int64_t compressed_rows(const SeqList& list, int64_t l, int64_t s);
// Prefix sums of the windows per segment.
SeqList compressed_seq_len(const SeqList& list, int64_t l, int64_t s);

// Throws OpError unless l >= s >= 1, and l is a size that kLargestSize allows.
void check_window(const char* function, int64_t l, int64_t s);

struct SelectionRule {
  int64_t compress_block_size;
  int64_t compress_stride;
  int64_t select_block_size;
  bool causal;
  Importance importance;
};

// Selection blocks of one segment: `cmp_len` compressed tokens; `query_end` = q_offset + query
// length. Without causal they are those that a compressed token counts for.
inline int64_t selection_blocks(const SelectionRule& rule, int64_t cmp_len, int64_t query_end) {
  if (rule.causal) return ceil_div(query_end, rule.select_block_size);
  if (cmp_len == 0) return 0;
  const int64_t m = rule.select_block_size / rule.compress_stride;
  const int64_t n = rule.compress_block_size / rule.compress_stride;
  const int64_t reach = rule.importance == Importance::kOverlap ? n - 1 : 0;
  return ceil_div(cmp_len + reach, m);
}

// How the last prefix sum relates to the number of packed rows.
enum class ListEnd { kExact, kAtMost, kAny };

struct PrefixSumRule {
  const char* function;
  const char* argument;
  const char* total_name;  // "T1"
  int64_t total;           // -1: unknown, not checked
  ListEnd end;
};

// Throws OpError unless the list is non-empty, non-negative, non-decreasing, and ends as the rule
// says.
void check_prefix_sums(const SeqList& list, const PrefixSumRule& rule);

}  // namespace nsa
