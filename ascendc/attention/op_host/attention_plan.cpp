#include "ascendc/attention/op_host/attention_plan.h"

#include <algorithm>
#include <functional>
#include <string>

namespace nsa::ascend {

namespace {

int64_t tokens(int64_t value) { return std::clamp(value, -kUnbounded, kUnbounded); }

// The segment whose mask is a band: the last (mode 7) or first (mode 8) with queries.
int64_t band_segment(const FlashCall& call) {
  int64_t found = -1;
  for (size_t b = 0; b < call.query_ends.size(); ++b) {
    if (segment_length(call.query_ends, b) == 0) continue;
    found = static_cast<int64_t>(b);
    if (call.sparse_mode == 8) break;
  }
  return found;
}

// The position at which all batch elements start; 0 where each has its own.
int64_t of_all(const SeqList& starts) { return starts.size() == 1 ? starts[0] : 0; }

void set_pse(const FlashCall& call, BiasTiling* bias) {
  const std::vector<int64_t>& shape = call.pse_shape;
  if (shape.empty()) return;
  if (call.pse_type >= 2) {
    bias->pse = kPseSlopes;
    bias->pse_batch = shape.size() == 2 ? call.dims.n1 : 0;
    bias->slope_shift = of_all(call.kv_start) - of_all(call.q_start);
    bias->slope_q_starts = call.q_start.size() > 1;
    bias->slope_kv_starts = call.kv_start.size() > 1;
    bias->slope_sqrt = call.pse_type == 3;
    return;
  }
  bias->pse = kPseTensor;
  bias->pse_before_scale = call.pse_type == 1;
  if (shape.size() != 4) {
    int64_t scores = 0;
    for (size_t b = 0; b < call.query_ends.size(); ++b)
      scores += segment_length(call.query_ends, b) * segment_length(call.key_ends, b);
    bias->pse_packed = 1;
    bias->pse_row = shape[0] == call.dims.n1 * scores;
    return;
  }
  const int64_t rows = shape[2], keys = shape[3];
  if (rows == kAlibiRows && (call.packed() || call.dims.s1 != rows)) bias->pse = kPseAlibi;
  bias->pse_keys = keys;
  bias->pse_row = rows == 1 ? 0 : keys;
  bias->pse_head = rows * keys;
  bias->pse_batch = shape[0] == 1 ? 0 : call.dims.n1 * rows * keys;
}

void set_mask(const FlashCall& call, BiasTiling* bias) {
  // The other modes are computed; a mask given there is checked for its shape only.
  if (call.mask_shape.empty() || call.sparse_mode > 1) return;
  std::vector<int64_t> shape(4, 1);
  std::copy_backward(call.mask_shape.begin(), call.mask_shape.end(), shape.end());
  bias->mask = 1;
  bias->mask_row = shape[3];
  bias->mask_head = shape[1] == 1 ? 0 : shape[2] * shape[3];
  bias->mask_batch = shape[0] == 1 ? 0 : shape[1] * shape[2] * shape[3];
  // Compressed keys take masks of any larger size, indexed within the segment.
  bias->mask_by_token = call.packed() && call.compress_stride == 0 && shape[2] == call.dims.s1 &&
                        shape[3] == call.dims.s2;
}

struct Segment {
  int64_t queries, keys;
  VisibleKeys visible;
};

Segment segment_of(const FlashCall& call, const MaskTiling& mask, int64_t b) {
  Segment segment;
  segment.queries = call.packed() ? segment_length(call.query_ends, b) : call.dims.s1;
  segment.keys = call.packed() ? segment_length(call.key_ends, b) : call.dims.s2;
  segment.visible =
      VisibleInBand(b == mask.band_segment ? mask.band : mask.other, segment.queries, segment.keys,
                    call.prefix.empty() ? 0 : call.prefix[static_cast<size_t>(b)]);
  segment.visible.compress_block = call.compress_block;
  segment.visible.compress_stride = call.compress_stride;
  if (!call.query_offsets.empty())
    segment.visible.StartAt(call.query_offsets[static_cast<size_t>(b)]);
  return segment;
}

// Cost of `rows` queries that select `each` of so many visible keys: loading the keys that any of
// them selects, about all where there are enough queries, and the work of every query on its own.
int64_t selected_keys(int64_t visible, int64_t rows, int64_t each) {
  constexpr int64_t kQueriesOfACopy = 10;
  return std::min(visible, rows * each) + rows * std::min(visible, each) / kQueriesOfACopy;
}

// body(segment b, tile, cost) for all tiles of one head.
template <class Body>
void for_tiles(const FlashCall& call, const MaskTiling& mask, bool by_keys, int32_t tile_rows,
               Body body) {
  for (int64_t b = 0; b < call.dims.batch; ++b) {
    const Segment segment = segment_of(call, mask, b);
    const int64_t length = by_keys ? segment.keys : segment.queries;
    for (int64_t row = 0; row < length; row += tile_rows) {
      const auto rows = static_cast<int32_t>(std::min<int64_t>(tile_rows, length - row));
      int64_t partners = 0;
      if (by_keys) {
        const VisibleQueries visible{segment.visible, segment.queries};
        partners = std::max<int64_t>(0, visible.High(row + rows - 1) - visible.Low(row));
      } else {
        const KeySpan span = SpanOf(segment.visible, row, rows);
        partners = span.end - span.begin;
        if (call.most_keys < kUnbounded) partners = selected_keys(partners, rows, call.most_keys);
      }
      const int64_t step = call.cost_step;
      const int64_t cost = (partners + step - 1) / step * step;
      body(b, row / tile_rows, cost + std::max<int64_t>(0, cost - call.long_keys) + call.tile_cost);
    }
  }
}

void share_packed(const FlashCall& call, const MaskTiling& mask, int32_t cores, WorkTiling* work) {
  const auto tile_rows = static_cast<int32_t>(work->tile_rows);
  const bool by_keys = work->by_keys != 0;
  int64_t total = 0;
  for_tiles(call, mask, by_keys, tile_rows, [&](int64_t, int64_t, int64_t cost) { total += cost; });
  total *= work->heads;
  int64_t spent = 0, scores = 0, last = -1;
  int32_t core = -1;
  for_tiles(call, mask, by_keys, tile_rows, [&](int64_t b, int64_t tile, int64_t cost) {
    for (; last < b; ++last) {
      if (last >= 0) {
        const auto before = static_cast<size_t>(last);
        scores += segment_length(call.query_ends, before) * segment_length(call.key_ends, before);
      }
    }
    for (int64_t head = 0; head < work->heads; ++head) {
      // The core in whose share the middle of the item lies.
      const auto owner = static_cast<int32_t>(
          std::min<int64_t>(cores - 1, (2 * spent + cost) * cores / (2 * total)));
      if (owner != core) {
        core = owner;
        work->first_item[core] = static_cast<int32_t>(tile * work->heads + head);
        work->first_segment[core] = static_cast<int32_t>(b);
        work->first_score[core] = scores;
      }
      ++work->item_count[core];
      spent += cost;
    }
  });
}

// Whether packed segments have equal tiles. What a tile of queries that select costs is known so
// roughly that these are better dealt out. No bias needs to know the scores before a segment then.
bool alike(const FlashCall& call) {
  const auto equal = [](const SeqList& ends, bool lengths) {
    for (size_t b = 1; b < ends.size(); ++b) {
      if (lengths ? segment_length(ends, b) != ends[0] : ends[b] != ends[0]) return false;
    }
    return true;
  };
  return call.most_keys < kUnbounded && equal(call.query_ends, true) &&
         equal(call.key_ends, true) && equal(call.query_offsets, false);
}

}  // namespace

TensorStrides strides_of(const FlashDims& dims, int64_t length, int64_t heads, int64_t dim) {
  switch (dims.layout) {
    case InputLayout::kSBH:
      return {heads * dim, dims.batch * heads * dim, dim};
    case InputLayout::kBNSD:
      return {heads * length * dim, dim, length * dim};
    case InputLayout::kTND:
      return {0, heads * dim, dim};
    default:
      return {length * heads * dim, heads * dim, dim};
  }
}

TensorStrides statistics_strides(const FlashDims& dims) {
  if (dims.layout == InputLayout::kTND) return {0, dims.n1 * kBlockFloats, kBlockFloats};
  return {dims.n1 * dims.s1 * kBlockFloats, kBlockFloats, dims.s1 * kBlockFloats};
}

MaskTiling mask_tiling(const FlashCall& call) {
  const Band all{kUnbounded, kUnbounded, 0};
  const Band causal{kUnbounded, 0, 0}, causal_corner{kUnbounded, 0, 1};
  const Band band{tokens(call.pre_tokens), tokens(call.next_tokens), 1};
  MaskTiling mask{band,
                  all,
                  -1,
                  !call.prefix.empty(),
                  call.compress_block,
                  call.compress_stride,
                  !call.query_offsets.empty()};
  switch (call.sparse_mode) {
    case 0:
      mask.other = {band.back, band.ahead, 0};
      break;
    case 2:
      mask.other = causal;
      break;
    case 3:
    case 5:
    case 6:
      mask.other = causal_corner;
      break;
    case 4:
      mask.other = band;
      break;
    case 7:
    case 8:
      mask.other = call.sparse_mode == 7 ? causal_corner : causal;
      mask.band_segment = band_segment(call);
      break;
    default:
      break;
  }
  // The alibi form of a bias has nothing above the diagonal, whatever a mask tensor says.
  BiasTiling bias{};
  set_pse(call, &bias);
  if (bias.pse == kPseAlibi) mask.other.ahead = std::min<int64_t>(mask.other.ahead, 0);
  return mask;
}

BiasTiling bias_tiling(const FlashCall& call) {
  BiasTiling bias{};
  set_pse(call, &bias);
  set_mask(call, &bias);
  bias.drop = call.drop_bytes > 0;
  bias.drop_bytes = call.drop_bytes;
  bias.inv_keep = 1.0f / call.keep_prob;
  bias.scale = call.scale;
  return bias;
}

int32_t share_tiles(const FlashCall& call, const MaskTiling& mask, TilesOf tiles, int32_t tile_rows,
                    int32_t cores, WorkTiling* work, int64_t parts) {
  const bool by_keys = tiles == TilesOf::kKeys;
  *work = WorkTiling{};
  work->dealt = !call.packed() || (!by_keys && alike(call));
  work->packed = call.packed();
  work->segments = call.dims.batch;
  work->queries = call.dims.s1;
  work->keys = call.dims.s2;
  work->by_keys = by_keys;
  work->heads = by_keys ? call.dims.n2 * parts : call.dims.n1;
  work->group = call.dims.n1 / call.dims.n2 / parts;
  work->tile_rows = tile_rows;
  for_tiles(call, mask, by_keys, tile_rows, [&](int64_t, int64_t, int64_t) { ++work->items; });
  work->items *= work->heads;
  if (work->items > INT32_MAX) {
    throw OpError(OpError::kValue,
                  "expected at most 2147483647 tiles of heads and segments, got " +
                      std::to_string(work->items),
                  kAclnnLimit);
  }
  cores = static_cast<int32_t>(std::clamp<int64_t>(work->items, 1, std::min(cores, kMaxBlocks)));
  if (work->dealt == 0) share_packed(call, mask, cores, work);
  return cores;
}

}  // namespace nsa::ascend
