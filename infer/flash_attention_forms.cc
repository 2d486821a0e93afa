// Masks, position bias, prefix and dropout of FlashAttentionScore: which shapes and modes go
// together.
#include <algorithm>
#include <cstdlib>

#include "infer/flash_attention.h"

namespace nsa {

namespace {

constexpr int64_t kCompressedMaskRows = 2048;
constexpr int64_t kPrefixMaskRows = 3072;

bool is_packed(const FlashDims& dims) { return dims.layout == InputLayout::kTND; }

// The values of both lists of a packed call, or nullptrs.
struct Segments {
  const SeqList* q = nullptr;
  const SeqList* kv = nullptr;

  bool known() const { return q != nullptr && kv != nullptr; }
};

Segments segments_of(const Context& c, const FlashInputs& in) {
  return {c.values(in.seq_q), c.values(in.seq_kv)};
}

// Elements of the score matrices of one head, all batches together; -1 if unknown.
int64_t score_count(const Context& c, const FlashInputs& in, const FlashDims& dims) {
  if (!is_packed(dims)) return product({dims.batch, dims.s1, dims.s2});
  const Segments segments = segments_of(c, in);
  if (!segments.known()) return kUnknownDim;
  int64_t count = 0;
  for (size_t b = 0; b < segments.q->size(); ++b) {
    const int64_t pairs =
        product({segment_length(*segments.q, b), segment_length(*segments.kv, b)});
    count = pairs > INT64_MAX - count ? INT64_MAX : count + pairs;
  }
  return count;
}

void check_packed_mask(const Context& c, const FlashInputs& in, const FlashDims& dims,
                       CompressedKind compressed) {
  c.require_rank(in.attn_mask, 2,
                 compressed.on ? "(max Sq, max CmpSkv)" : "(max Sq, max Skv) or (T1, T2)");
  const Segments segments = segments_of(c, in);
  if (!segments.known()) return;
  const int64_t rows = longest_segment(*segments.q);
  int64_t columns = longest_segment(*segments.kv);
  if (compressed.on) {
    // Like in the forward call, a segment without queries reads no column.
    columns = longest_segment(*segments.kv, *segments.q);
    const int64_t got_rows = c.dim(in.attn_mask, 0);
    const int64_t got_columns = c.dim(in.attn_mask, 1);
    if ((got_rows >= 0 && got_rows < rows) || (got_columns >= 0 && got_columns < columns)) {
      c.fail_value(c.name(in.attn_mask),
                   "of at least (max Sq, max CmpSkv) = " + format_shape({rows, columns}),
                   format_shape(c.in(in.attn_mask).shape));
    }
    return;
  }
  if (c.may_have_shape(in.attn_mask, {rows, columns}) ||
      c.may_have_shape(in.attn_mask, {dims.s1, dims.s2}))
    return;
  c.fail_value(c.name(in.attn_mask),
               "of shape (max Sq, max Skv) = " + format_shape({rows, columns}) +
                   " or (T1, T2) = " + format_shape({dims.s1, dims.s2}),
               format_shape(c.in(in.attn_mask).shape));
}

void check_batched_mask(const Context& c, const FlashInputs& in, const FlashDims& dims) {
  const size_t mask = in.attn_mask;
  if (c.may_have_shape(mask, {dims.s1, dims.s2}) ||
      c.may_have_shape(mask, {dims.batch, dims.n1, dims.s1, dims.s2}) ||
      c.may_have_shape(mask, {dims.batch, 1, dims.s1, dims.s2}) ||
      c.may_have_shape(mask, {1, 1, dims.s1, dims.s2})) {
    return;
  }
  c.fail_value(c.name(mask),
               "of shape (B, N1, S1, S2), (B, 1, S1, S2), (1, 1, S1, S2) or (S1, S2) with (B, N1, "
               "S1, S2) = " +
                   format_shape({dims.batch, dims.n1, dims.s1, dims.s2}),
               format_shape(c.in(mask).shape));
}

void check_slopes(const Context& c, const FlashInputs& in, const FlashDims& dims) {
  const size_t slopes = in.real_shift;
  if (!c.has(slopes)) c.fail_value(c.name(slopes), "slopes with pse_type 2 or 3", "None");
  c.require_dtype(slopes, dtype_set(DType::kFloat32));
  if (!c.may_have_shape(slopes, {dims.n1}) && !c.may_have_shape(slopes, {dims.batch, dims.n1})) {
    c.fail_value(c.name(slopes),
                 "of shape (N1,) or (B, N1) with (B, N1) = " + format_shape({dims.batch, dims.n1}) +
                     " for pse_type 2 and 3",
                 format_shape(c.in(slopes).shape));
  }
}

// One position for all batch elements, or one for each.
void check_start(const Context& c, size_t start, const FlashDims& dims) {
  if (!c.has(start)) return;
  const int64_t length = c.list_length(start);
  if (length >= 0 && length != 1 && dims.batch >= 0 && length != dims.batch) {
    c.fail_value(c.name(start), "of shape (1,) or (B,) = " + format_shape({dims.batch}),
                 format_shape({length}));
  }
  const SeqList* values = c.values(start);
  if (values == nullptr) return;
  for (size_t b = 0; b < values->size(); ++b) {
    const int64_t value = (*values)[b];
    if (value >= -kNoMax && value <= kNoMax) continue;
    c.fail_value(c.name(start),
                 "in [" + std::to_string(-kNoMax) + ", " + std::to_string(kNoMax) + "]",
                 std::to_string(value) + " at index " + std::to_string(b));
  }
}

// The compressed alibi form stands for a Toeplitz bias of a causal square: that is what its rows
// past H continue.
void check_alibi(const Context& c, const FlashInputs& in, const FlashDims& dims) {
  const char* name = c.name(in.real_shift);
  const FlashAttentionScoreAttrs& attrs = flash_attrs(c);
  const int64_t mode = attrs.sparse_mode;
  const std::string form = "the compressed alibi form " + format_shape(c.in(in.real_shift).shape);
  const bool causal_band = c.has(in.attn_mask) || attrs.next_tokens <= 0;
  if ((mode != 0 && mode != 2 && mode != 3) || (mode == 0 && !causal_band)) {
    c.fail_value(name, "a full position bias unless the mask is causal by sparse_mode 0, 2 or 3",
                 form + " with sparse_mode " + std::to_string(mode));
  }
  const auto require_square = [&](int64_t queries, int64_t keys) {
    if (queries == keys || queries < 0 || keys < 0) return;
    c.fail_value(
        name, "a full position bias unless query and key lengths are equal",
        form + " with lengths " + std::to_string(queries) + " and " + std::to_string(keys));
  };
  if (!is_packed(dims)) return require_square(dims.s1, dims.s2);
  const Segments segments = segments_of(c, in);
  if (!segments.known()) return;
  for (size_t b = 0; b < segments.q->size(); ++b) {
    require_square(segment_length(*segments.q, b), segment_length(*segments.kv, b));
  }
}

PseForm packed_pse_form(const Context& c, const FlashInputs& in, const FlashDims& dims) {
  const size_t pse = in.real_shift;
  const TensorDesc& desc = c.in(pse);
  if (!desc.known_rank) return PseForm::kUnknown;
  const Segments segments = segments_of(c, in);
  if (desc.shape.size() == 4) {
    const int64_t keys = segments.known() ? longest_segment(*segments.kv) : kUnknownDim;
    const bool fits = c.may_have_shape(pse, {dims.batch, dims.n1, kAlibiRows, keys}) ||
                      c.may_have_shape(pse, {1, dims.n1, kAlibiRows, keys});
    if (!fits) {
      c.fail_value(c.name(pse),
                   "of shape (B or 1, N1, 1024, max Skv) with (B, N1, max Skv) = " +
                       format_shape({dims.batch, dims.n1, keys}),
                   format_shape(desc.shape));
    }
    return PseForm::kCompressedAlibi;
  }
  const int64_t full = product({dims.n1, score_count(c, in, dims)});
  const int64_t row = product({dims.n1, dims.s2});
  if (desc.shape.size() != 1) {
    c.fail_value(
        c.name(pse), "flat, or of shape (B or 1, N1, 1024, max Skv), with input_layout 'TND'",
        "rank " + std::to_string(desc.shape.size()) + " with shape " + format_shape(desc.shape));
  }
  const int64_t got = c.dim(pse, 0);
  if (got < 0 || full < 0) return PseForm::kUnknown;
  if (got == full) return PseForm::kFull;
  if (row < 0) return PseForm::kUnknown;
  if (got == row) return PseForm::kRow;
  c.fail_value(c.name(pse),
               "flat with N1 * sum(S1_b * S2_b) = " + std::to_string(full) +
                   " or N1 * T2 = " + std::to_string(row) + " elements",
               format_shape(desc.shape));
}

PseForm batched_pse_form(const Context& c, const FlashInputs& in, const FlashDims& dims) {
  const size_t pse = in.real_shift;
  const TensorDesc& desc = c.in(pse);
  if (!desc.known_rank) return PseForm::kUnknown;
  const auto fits = [&](int64_t rows) {
    return c.may_have_shape(pse, {dims.batch, dims.n1, rows, dims.s2}) ||
           c.may_have_shape(pse, {1, dims.n1, rows, dims.s2});
  };
  const bool full = fits(dims.s1);
  if (!full && !fits(1) && !fits(kAlibiRows)) {
    c.fail_value(
        c.name(pse),
        "of shape (B or 1, N1, S1, S2), (B or 1, N1, 1, S2) or (B or 1, N1, 1024, S2) with "
        "(B, N1, S1, S2) = " +
            format_shape({dims.batch, dims.n1, dims.s1, dims.s2}),
        format_shape(desc.shape));
  }
  const int64_t rows = c.dim(pse, 2);
  if (rows < 0 || dims.s1 < 0) return rows == 1 ? PseForm::kRow : PseForm::kUnknown;
  if (full) return PseForm::kFull;
  return rows == 1 ? PseForm::kRow : PseForm::kCompressedAlibi;
}

}  // namespace

void check_flash_mask(const Context& c, const FlashInputs& in, const FlashDims& dims,
                      CompressedKind compressed) {
  const int64_t mode = flash_attrs(c).sparse_mode;
  if (mode == 5 && is_packed(dims)) {
    c.fail_value("sparse_mode", "0 to 4 or 6 to 8 with input_layout 'TND'", std::to_string(mode));
  }
  if ((mode == 7 || mode == 8) && !is_packed(dims)) {
    c.fail_value("sparse_mode", "0 to 6 without input_layout 'TND'",
                 std::to_string(mode) + " with '" + name_of(dims.layout) + "'");
  }
  const size_t mask = in.attn_mask;
  if (!c.has(mask)) {
    if (mode == 1) c.fail_value(c.name(mask), "given with sparse_mode 1", "None");
    return;
  }
  if (mode == 0 || mode == 1 || mode == 5) {
    if (is_packed(dims)) {
      check_packed_mask(c, in, dims, compressed);
    } else {
      check_batched_mask(c, in, dims);
    }
    return;
  }
  const int64_t rows = mode == 6 ? kPrefixMaskRows : kCompressedMaskRows;
  if (!c.may_have_shape(mask, {rows, kCompressedMaskRows})) {
    c.fail_value(c.name(mask),
                 "of shape " + format_shape({rows, kCompressedMaskRows}) + " with sparse_mode " +
                     std::to_string(mode),
                 format_shape(c.in(mask).shape));
  }
}

void check_flash_prefix(const Context& c, const FlashInputs& in, const FlashDims& dims) {
  const int64_t mode = flash_attrs(c).sparse_mode;
  const bool used = mode == 5 || mode == 6;
  if (!c.has(in.prefix)) {
    if (used) {
      c.fail_value(c.name(in.prefix), "given with sparse_mode 5 and 6",
                   "None with sparse_mode " + std::to_string(mode));
    }
    return;
  }
  const int64_t length = c.list_length(in.prefix);
  if (length >= 0 && dims.batch >= 0 && length != dims.batch) {
    c.fail_value(c.name(in.prefix), "of shape (B,) = " + format_shape({dims.batch}),
                 format_shape({length}));
  }
  const SeqList* values = c.values(in.prefix);
  // The other modes do not read it, as in MindSpore's operator.
  if (values == nullptr || !used) return;
  const SeqList* segments = is_packed(dims) ? c.values(in.seq_kv) : nullptr;
  for (size_t b = 0; b < values->size(); ++b) {
    const int64_t value = (*values)[b];
    int64_t keys = is_packed(dims) ? kUnknownDim : dims.s2;
    if (segments != nullptr && b < segments->size()) keys = segment_length(*segments, b);
    if (value < 0 || (keys >= 0 && value > keys)) {
      c.fail_value(
          c.name(in.prefix),
          keys >= 0 ? "in [0, S2] = [0, " + std::to_string(keys) + "]" : std::string(">= 0"),
          std::to_string(value) + " at index " + std::to_string(b));
    }
  }
}

void check_flash_dropout(const Context& c, const FlashInputs& in, const FlashDims& dims) {
  const size_t mask = in.drop_mask;
  if (!c.has(mask)) {
    const double keep = flash_attrs(c).keep_prob;
    if (keep < 1)
      c.fail_value(c.name(mask), "given with keep_prob < 1", "None with " + format_float(keep));
    return;
  }
  const int64_t total = product({dims.n1, score_count(c, in, dims)});
  const int64_t bytes = numel(c.in(mask));
  if (total < 0 || bytes < 0 || bytes >= ceil_div(total, 8)) return;
  c.fail_value(c.name(mask),
               "of at least " + std::to_string(ceil_div(total, 8)) + " bytes, a bit for each of " +
                   std::to_string(total) + " scores",
               std::to_string(bytes) + " bytes in shape " + format_shape(c.in(mask).shape));
}

PseForm check_flash_pse(const Context& c, const FlashInputs& in, const FlashDims& dims) {
  for (size_t start : {in.q_start, in.kv_start}) check_start(c, start, dims);
  if (flash_attrs(c).pse_type >= 2) {
    check_slopes(c, in, dims);
    return PseForm::kSlopes;
  }
  if (!c.has(in.real_shift)) return PseForm::kNone;
  c.require_float(in.real_shift);
  c.require_same_dtype(in.real_shift, in.query);
  const PseForm form =
      is_packed(dims) ? packed_pse_form(c, in, dims) : batched_pse_form(c, in, dims);
  if (form == PseForm::kCompressedAlibi) check_alibi(c, in, dims);
  return form;
}

}  // namespace nsa
