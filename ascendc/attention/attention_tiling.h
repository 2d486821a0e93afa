// Tiling data that the attention kernels share: where tensors lie, which keys are visible, what
// changes scores, and which tiles are a core's. Written by op_host, read by the kernels.
#pragma once

#include "ascendc/attention/attention_sizes.h"
#include "ascendc/attention/visible_keys.h"

namespace nsa::ascend {

// No Atlas A2 has more cube cores, each with two vector cores.
constexpr int32_t kMaxBlocks = kMaxCores / 2;

// Elements between entries of the batch, between tokens and between heads; a packed tensor has no
// batch.
struct TensorStrides {
  int64_t batch, row, head;
};

// Visible keys of all segments but for `band_segment`, which has a band of its own (-1: none).
struct MaskTiling {
  Band band;
  Band other;
  int64_t band_segment;
  int64_t has_prefix;
  int64_t compress_block;   // l; with a stride s > 0 key c ends at token c s + l - 1
  int64_t compress_stride;  // s
  int64_t has_offset;       // positions of the first queries, for compressed keys
};

constexpr int64_t kAlibiRows = 1024;  // of a compressed bias

enum PseKind : int64_t { kPseNone, kPseTensor, kPseAlibi, kPseSlopes };

// Inputs that change a score or a probability besides the visible keys. A packed tensor of the bias
// or of the dropout is a sequence of matrices [heads, queries, keys] or [heads, keys].
struct BiasTiling {
  int64_t pse;        // PseKind
  int64_t pse_batch;  // elements between entries of the batch, 0 where they share it
  int64_t pse_row;    // between queries, 0 where they share it
  int64_t pse_head;
  int64_t pse_packed;  // a packed tensor of matrices of the segments' own sizes
  int64_t pse_keys;    // alibi: keys of the tensor
  int64_t pse_before_scale;
  int64_t slope_shift;  // kv_start_idx - q_start_idx, of those that are one for all
  int64_t slope_q_starts, slope_kv_starts;  // whether each entry of the batch has its own
  int64_t slope_sqrt;
  int64_t mask;  // whether there is a mask tensor
  int64_t mask_batch, mask_row, mask_head;
  int64_t mask_by_token;  // rows and columns are those of the packed tokens
  int64_t drop;
  int64_t drop_bytes;
  float inv_keep;
  float scale;
};

// Tiles of all cores. Items of equal entries of a batch are dealt out in turn, the longest first,
// to and fro; those of packed segments lie in a row and every core has a share of about equal cost.
struct WorkTiling {
  int64_t dealt;     // whether they are dealt out
  int64_t together;  // a tile is dealt out with its likes of all entries, which follow each other
  int64_t packed;    // whether the lists hold the lengths
  int64_t segments;  // entries of the batch, or of the lists
  int64_t queries;   // of an entry that is not packed
  int64_t keys;
  int64_t by_keys;                  // tiles are of keys, and heads those of the keys
  int64_t heads;                    // of the tiles
  int64_t group;                    // heads of a key head
  int64_t tile_rows;                // queries or keys of a tile
  int64_t items;                    // dealt out
  int64_t first_score[kMaxBlocks];  // queries times keys, of the segments before first_segment
  int32_t first_item[kMaxBlocks];   // of the segment first_segment
  int32_t first_segment[kMaxBlocks];
  int32_t item_count[kMaxBlocks];
};

// Blocks of keys that queries select. The heads of a key head's group are the rows of one query.
struct SelectionTiling {
  int64_t rows;         // tokens times key heads: a list each
  int64_t heads;        // of keys
  int64_t group;        // G
  int64_t stripe_rows;  // G, a multiple of 16
  int64_t block_size;   // l'
  int64_t block_count;  // of a list
  int64_t columns;      // scores of a query, block_count times l', a multiple of 64
};

}  // namespace nsa::ascend
