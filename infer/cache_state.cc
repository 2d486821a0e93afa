#include "infer/cache_state.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace nsa {

namespace {

constexpr const NsaCacheStepInputs& kIn = kNsaCacheStepInputs;

// "name value" of one of kCacheSizes.
std::string size_text(size_t i, int64_t value) {
  const std::string name = kCacheSizes[i];
  if (name.rfind("rope_", 0) != 0) return name + " " + std::to_string(value);
  double real;
  std::memcpy(&real, &value, sizeof(real));
  return name + " " + format_float(real);
}

// Whether the caches are those of such a layer: others may have the same shapes.
void check_sizes(const Context& c, const int64_t* made_for) {
  const auto& attrs = c.attrs<NsaCacheStepAttrs>();
  std::array<int64_t, kCacheSizes.size()> sizes{c.dim(kIn.query, 2), c.dim(kIn.value, 2)};
  size_t at = 2;
  for (const double real : {attrs.theta, attrs.rope_factor, attrs.rope_low, attrs.rope_high})
    std::memcpy(&sizes[at++], &real, sizeof(real));
  if (c.has(kIn.gates)) {
    for (const int64_t size : {attrs.window_size, attrs.compress_block_size, attrs.compress_stride,
                               static_cast<int64_t>(attrs.shared_kv)})
      sizes[at++] = size;
  }
  std::string ours, its;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == made_for[i]) continue;
    const char* const comma = ours.empty() ? "" : ", ";
    ours += comma + size_text(i, sizes[i]);
    its += comma + size_text(i, made_for[i]);
  }
  if (!ours.empty()) c.fail_value("cache", "one made for " + ours, "one for " + its);
}

// Mixed precision casts a Tensor on its way into a Cell: what is written to the copy would be lost.
void check_dtype(const Context& c, DType dtype, int64_t made_for) {
  if (static_cast<int64_t>(dtype) == made_for) return;
  const std::string got = dtype_name(dtype);
  c.fail_type("cache",
              std::string("of the dtype that it was made with, ") +
                  dtype_name(static_cast<DType>(made_for)),
              got + ": a cast copy, as mixed precision makes it; new_cache(..., dtype=" + got +
                  ") makes a cache that is not cast");
}

// Tokens of another layer are not those that came before. An empty row is for any layer.
void check_layer(const Context& c, int64_t b, int64_t layer, int64_t writer, int64_t length) {
  if (layer == 0 || writer == 0 || layer == writer || length == 0) return;
  const CacheLayer ours(layer), its(writer);
  const auto other = [](int64_t a, int64_t b) { return a != b && a != 0 && b != 0; };
  const std::string row = " in row " + std::to_string(b);
  if (ours.process == its.process && ours.process != 0 && other(ours.own, its.own)) {
    c.fail_value("cache", "one that no other layer writes to",
                 "the tokens of another layer" + row +
                     ": every layer needs a cache of its own, and a model that was made again one "
                     "that AttentionCache.from_dict loads");
  }
  if (other(ours.config, its.config)) {
    c.fail_value("cache",
                 "one of a layer of the same hidden_size, num_heads, rope_pairs, qk_norm, "
                 "qk_norm_eps, has_bias and part of the heads",
                 "the tokens of another layer" + row);
  }
  if (other(ours.place, its.place)) {
    c.fail_value("cache", "one of layer " + std::to_string(ours.place - 1) + " of its model",
                 "the tokens of layer " + std::to_string(its.place - 1) + row);
  }
}

// Rules that depend on the length of row b, which takes `count` tokens.
void check_room(const Context& c, int64_t b, const int64_t* made_for, int64_t count) {
  const auto& attrs = c.attrs<NsaCacheStepAttrs>();
  const int64_t capacity = c.dim(kIn.selected, 2), before = made_for[kCacheHeader];
  const std::string row = " of row " + std::to_string(b);
  if (before < 0) c.fail_value("lengths", ">= 0", std::to_string(before) + row);
  // A state may hold any number: the sum could overflow int64.
  const int64_t after = before + std::min(count, INT64_MAX - before);
  if (after > capacity) {
    c.fail_value("cache",
                 "of a capacity for " + std::to_string(after) + " tokens" + row + " (length " +
                     std::to_string(before) + ")",
                 "capacity " + std::to_string(capacity));
  }
  if (!c.has(kIn.gates) || count == 0) return;
  // A ring holds the newest tokens that were ever written; the length may have gone back since.
  const int64_t newest = std::max(made_for[kCacheHeader + 1], before);
  const auto held = [&](int64_t places, int64_t need) {
    if (before - need >= newest - places) return;
    c.fail_value("lengths",
                 "such that the rings still hold the " + std::to_string(need) +
                     " tokens before it, which they do at most " + std::to_string(places - need) +
                     " tokens back",
                 std::to_string(before) + row + ", which had " + std::to_string(newest));
  };
  const CachePlaces places(capacity, attrs);
  const int64_t l = attrs.compress_block_size, s = attrs.compress_stride;
  if (!attrs.shared_kv) held(places.window, std::min(before, attrs.window_size - 1));
  held(places.raw, before - windows_of(before, l, s) * s);
}

}  // namespace

SeqList cache_step_counts(const Context& c) {
  const int64_t rows = c.dim(kIn.selected, 0);
  SeqList counts(rows, rows > 0 ? c.dim(kIn.query, 0) / rows : 0);
  const SeqList* const ends = c.values(kIn.actual_seq_len);
  if (ends == nullptr) return counts;
  for (int64_t b = 0; b < rows; ++b) counts[b] = (*ends)[b] - (b == 0 ? 0 : (*ends)[b - 1]);
  return counts;
}

void check_cache_state(const Context& c, const int64_t* state) {
  const SeqList counts = cache_step_counts(c);
  const auto row = [&](size_t b) { return state + b * (kCacheHeader + 2); };
  for (size_t b = 0; b < counts.size(); ++b) {
    check_sizes(c, row(b));
    check_dtype(c, c.dtype(kIn.selected), row(b)[kCacheDType]);
    check_layer(c, static_cast<int64_t>(b), c.attrs<NsaCacheStepAttrs>().layer, row(b)[kCacheLayer],
                row(b)[kCacheHeader]);
  }
  for (size_t b = 0; b < counts.size(); ++b)
    check_room(c, static_cast<int64_t>(b), row(b), counts[b]);
}

}  // namespace nsa
