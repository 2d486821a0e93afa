// One token at a time: what the decoding kernels read, and how their work is divided.
//
// The unit of decoding is a decode row: one query of one kv head, all heads of its group together.
// The keys that a decode row reads are cut into splits of at most kDecodeSplitKeys, whatever the
// number of threads, so that all threads work on one token; every split leaves a maximum, a sum and
// a partial output, and these are added up in the order of the keys.
#pragma once

#include "cpu/engine/plan/decode.h"
#include "cpu/engine/plan/importance.h"
#include "cpu/types.h"

namespace nsa::cpu {

// Keys or values in memory. Row b's token t stands in page t / page of the row, which is page
// table[b, t / page] of the memory; without a table the row is one page, number b.
struct CacheView {
  const void* data;
  const int32_t* table;  // [B, table_cols] or nullptr
  int64_t table_cols;
  int64_t page;         // tokens of a page
  int64_t page_stride;  // in elements, as the next two
  int64_t token_stride, head_stride;
  bool ring;  // token t stands at t % page of the row's one page

  // Always inline, as in every translation unit of one instruction set nothing may be linked
  // elsewhere.
  [[gnu::always_inline]] int64_t offset(int64_t row, int64_t head, int64_t token) const {
    const int64_t page_of_row = ring ? 0 : token / page;
    const int64_t number = table ? table[row * table_cols + page_of_row] : row;
    const int64_t at = ring ? token % page : token - page_of_row * page;
    return number * page_stride + at * token_stride + head * head_stride;
  }
  // Tokens from `token` on that follow each other in memory.
  [[gnu::always_inline]] int64_t run(int64_t token) const { return page - token % page; }
};

enum Branch : int { kCompressed, kSelected, kWindow, kBranches };

constexpr int64_t kDecodeSplitKeys = 256;

struct DecodePlan {
  ElemType dtype;
  const void* query;  // [T, N1, D]
  int64_t T, N1, N2, G, D, Dv;
  float scale;
  CacheView key[kBranches], value[kBranches];
  bool has[kBranches];
  const float* gates;   // [T, 3, N1]; nullptr: the one branch that there is, as it is
  void* attention_out;  // [T, N1, Dv]

  bool choose;  // blocks by the importance of compressed tokens; otherwise they are given
  ImportanceRule rule;
  int64_t init_blocks, local_blocks;
  int64_t select_block, count;
  const int32_t* given_blocks;  // [T, N2, count], in any order
  int32_t* topk_indices;        // [T, N2, count] or nullptr: not asked for

  Prefetch prefetch;  // of vectors; tiles have theirs
};

// The keys that query `token` of kv head `head` sees of row `row`'s caches.
struct DecodeRow {
  int64_t row, token, head;
  int64_t cmp_keys;                // compressed tokens
  int64_t kv_len;                  // tokens of the selection branch
  int64_t win_first, win_end;      // tokens of the window
  int64_t candidates, own;         // blocks that may be chosen; the query's own one, -1: none
  int64_t first_split[kBranches];  // of the wave's splits
  int64_t splits[kBranches];
  int64_t scores;  // offset of its compressed tokens' exponentials, in keys
  int64_t step;    // offset of its compressed steps' maxima
};

enum class DecodeWork : int { kPack, kSplit, kChoose, kMerge };

struct DecodeItem {
  DecodeWork work;
  int32_t branch;
  int64_t decode_row, split;
};

// Scratch of a wave; every size is known outside the translation units of one instruction set.
struct DecodeScratch {
  float* query;        // [decode rows, words of D, lanes]
  float* exponential;  // [keys, lanes] of compressed tokens
  float* step_max;     // [steps, lanes]
  float* max;          // [splits, lanes]
  float* sum;          // [splits, lanes]
  float* out;          // [splits, G, row]
  int32_t* blocks;     // [decode rows, count], ascending, those that exist
  int64_t* found;      // [decode rows] how many
  int32_t* done;       // [decode rows, 3]: packed, compressed splits, all splits
  int64_t* next;       // the next item
  char* threads;       // thread_size bytes for each thread
  int64_t thread_size;
};

struct DecodeWave {
  const DecodeRow* decode_rows;
  const DecodeItem* items;
  int64_t num_items;
  int64_t max_cmp_keys, max_blocks;
};

// The most words that a query or key of D elements is, in any instruction set.
constexpr int64_t decode_words(int64_t D) { return max64(16, round_up(D, 2)); }

// Heads of a group as lanes, and the values of a head, in whole vectors of any instruction set.
constexpr int64_t decode_lanes(int64_t G) { return round_up(G, 16); }
constexpr int64_t value_row_size(int64_t Dv) { return round_up(Dv, 32); }

}  // namespace nsa::cpu
