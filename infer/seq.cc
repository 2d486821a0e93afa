#include "infer/seq.h"

#include "infer/op.h"

namespace nsa {

int64_t longest_segment(const SeqList& list) {
  int64_t longest = 0;
  for (size_t b = 0; b < list.size(); ++b) longest = std::max(longest, segment_length(list, b));
  return longest;
}

int64_t longest_segment(const SeqList& list, const SeqList& queries) {
  int64_t longest = 0;
  for (size_t b = 0; b < list.size(); ++b) {
    if (segment_length(queries, b) > 0) longest = std::max(longest, segment_length(list, b));
  }
  return longest;
}

int64_t compressed_rows(const SeqList& list, int64_t l, int64_t s) {
  int64_t rows = 0;
  for (size_t b = 0; b < list.size(); ++b) rows += windows_of(segment_length(list, b), l, s);
  return rows;
}

SeqList compressed_seq_len(const SeqList& list, int64_t l, int64_t s) {
  SeqList sums;
  sums.reserve(list.size());
  int64_t rows = 0;
  for (size_t b = 0; b < list.size(); ++b) {
    rows += windows_of(segment_length(list, b), l, s);
    sums.push_back(rows);
  }
  return sums;
}

void check_window(const char* function, int64_t l, int64_t s) {
  const auto fail = [&](const std::string& what, int64_t got) {
    throw OpError(OpError::kValue,
                  std::string(function) + ": " + what + ", got " + std::to_string(got));
  };
  if (s < 1) fail("compress_stride must be >= 1", s);
  if (l < s)
    fail("compress_block_size must be at least compress_stride (" + std::to_string(s) + ")", l);
  if (l > kLargestSize)
    fail("compress_block_size must be at most " + std::to_string(kLargestSize), l);
}

namespace {

[[noreturn]] void fail(const PrefixSumRule& rule, const std::string& what) {
  throw OpError(OpError::kValue,
                std::string(rule.function) + ": " + rule.argument + " must " + what);
}

}  // namespace

void check_prefix_sums(const SeqList& list, const PrefixSumRule& rule) {
  if (list.empty()) fail(rule, "have at least one entry, got an empty list");
  int64_t previous = 0;
  for (size_t b = 0; b < list.size(); ++b) {
    if (list[b] < 0) {
      fail(rule,
           "be non-negative, got " + std::to_string(list[b]) + " at index " + std::to_string(b));
    }
    if (list[b] < previous) {
      fail(rule, "be non-decreasing (prefix sums), got " + std::to_string(list[b]) + " after " +
                     std::to_string(previous) + " at index " + std::to_string(b));
    }
    previous = list[b];
  }
  if (previous > kLargestSize) {
    fail(rule, "be at most " + std::to_string(kLargestSize) + ", got " + std::to_string(previous));
  }
  if (rule.total < 0 || rule.end == ListEnd::kAny) return;
  const bool exact = rule.end == ListEnd::kExact;
  if (exact ? previous != rule.total : previous > rule.total) {
    fail(rule, std::string(exact ? "end at " : "end at or before ") + rule.total_name + " = " +
                   std::to_string(rule.total) + ", got " + std::to_string(previous));
  }
}

}  // namespace nsa
