#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "binding/generated/by_hand.h"
#include "cpu/nsa_decode/cache_step.h"
#include "infer/nsa_cache_step.h"

namespace nsa {

namespace {

constexpr const NsaCacheStepInputs& kIn = kNsaCacheStepInputs;

// The caches of a Tensor that holds one or several of them, place after place.
class LayerCaches {
 public:
  LayerCaches(const CheckedCall& call, size_t input, int64_t dim)
      : data_(static_cast<char*>(call.in(input).data)),
        size_(dtype_size(call.in(input).dtype)),
        dim_(dim),
        width_(call.dim(input, 3)),
        head_stride_(call.dim(input, 2) * width_) {}

  cpu::LayerCache next(int64_t places) {
    char* key = data_;
    data_ += places * width_ * size_;
    return {key, key + places * dim_ * size_, places, head_stride_};
  }

 private:
  char* data_;
  int64_t size_, dim_, width_, head_stride_;
};

// "name value" of one of kCacheSizes.
std::string size_text(size_t i, int64_t value) {
  const std::string name = kCacheSizes[i];
  if (name.rfind("rope_", 0) != 0) return name + " " + std::to_string(value);
  double real;
  std::memcpy(&real, &value, sizeof(real));
  return name + " " + format_float(real);
}

// The state of every row, of which the kernel takes lengths one after another.
class RowStates {
 public:
  RowStates(int64_t* data, int64_t rows) : lengths(rows), written(rows), data_(data) {
    for (int64_t b = 0; b < rows; ++b) {
      lengths[b] = made_for(b)[kCacheHeader];
      written[b] = made_for(b)[kCacheHeader + 1];
    }
  }

  // kCacheSizes, the dtype and the layer.
  int64_t* made_for(int64_t b) const { return data_ + b * (kCacheHeader + 2); }

  // After a step that failed, rows are as long as before. What their rings have lost meanwhile,
  // `written` says; a row without tokens needs none of it.
  void store(bool failed, int64_t layer) {
    for (size_t b = 0; b < lengths.size(); ++b) {
      int64_t* const state = made_for(static_cast<int64_t>(b));
      int64_t* const row = state + kCacheHeader;
      if (!failed && row[0] != lengths[b]) {
        row[0] = lengths[b];
        state[kCacheLayer] = layer;
      }
      row[1] = row[0] == 0 ? 0 : written[b];
    }
  }

  std::vector<int64_t> lengths, written;

 private:
  int64_t* data_;
};

// Whether the caches are those of such a layer: others may have the same shapes.
void check_sizes(const Context& c, const cpu::NsaCacheStepParams& p, const int64_t* made_for) {
  std::array<int64_t, kCacheSizes.size()> sizes{p.D, p.Dv};
  size_t at = 2;
  for (const double real : {p.theta, p.rope_factor, p.rope_low, p.rope_high})
    std::memcpy(&sizes[at++], &real, sizeof(real));
  if (p.gates) {
    for (const int64_t size : {p.window_size, p.rule.compress_block_size, p.rule.compress_stride,
                               static_cast<int64_t>(p.shared)})
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

// Checks the rules that depend on lengths, before anything is written.
void check_room(const CheckedCall& call, const cpu::NsaCacheStepParams& p) {
  const Context& c = call.context;
  for (int64_t b = 0; b < p.B; ++b) {
    const int64_t before = p.lengths[b];
    const std::string row = " of row " + std::to_string(b);
    if (before < 0) c.fail_value("lengths", ">= 0", std::to_string(before) + row);
    // A state may hold any number: the sum could overflow int64.
    const int64_t after = before + std::min(p.count[b], INT64_MAX - before);
    if (after > p.selected.places) {
      c.fail_value("cache",
                   "of a capacity for " + std::to_string(after) + " tokens" + row + " (length " +
                       std::to_string(before) + ")",
                   "capacity " + std::to_string(p.selected.places));
    }
    if (!p.gates || p.count[b] == 0) continue;
    // A ring holds the newest tokens that were ever written; the length may have gone back since.
    const int64_t newest = std::max(p.written[b], before);
    const auto held = [&](const cpu::LayerCache& ring, int64_t need) {
      if (before - need >= newest - ring.places) return;
      c.fail_value("lengths",
                   "such that the rings still hold the " + std::to_string(need) +
                       " tokens before it, which they do at most " +
                       std::to_string(ring.places - need) + " tokens back",
                   std::to_string(before) + row + ", which had " + std::to_string(newest));
    };
    const int64_t l = p.rule.compress_block_size, s = p.rule.compress_stride;
    if (!p.shared) held(p.window, std::min(before, p.window_size - 1));
    held(p.raw, before - windows_of(before, l, s) * s);
  }
}

// The kernel's parameters, and what they point to.
struct StepCall {
  explicit StepCall(const CheckedCall& call)
      : states(static_cast<int64_t*>(call.in(kIn.state).data), call.dim(kIn.selected, 0)) {
    fill_nsa_cache_step(call, p);
    const int64_t capacity = call.dim(kIn.selected, 2);
    p.selected = LayerCaches(call, kIn.selected, p.D).next(capacity);
    if (p.gates != nullptr) {
      const CachePlaces places(capacity, call.attrs<NsaCacheStepAttrs>());
      LayerCaches others(call, kIn.others, p.D);
      p.compressed = others.next(places.compressed);
      p.window = others.next(places.window);
      p.raw = others.next(places.raw);
    }
    p.lengths = states.lengths.data();
    p.written = states.written.data();
    counts.assign(p.B, p.B > 0 ? p.T / p.B : 0);
    if (const int64_t* const ends = call.list(kIn.actual_seq_len)) {
      for (int64_t b = 0; b < p.B; ++b) counts[b] = ends[b] - (b == 0 ? 0 : ends[b - 1]);
    }
    p.count = counts.data();
  }
  StepCall(const StepCall&) = delete;
  StepCall& operator=(const StepCall&) = delete;

  RowStates states;
  std::vector<int64_t> counts;  // of every row
  cpu::NsaCacheStepParams p{};
};

}  // namespace

// Checks the rows' states before anything is written.
void check_nsa_cache_step(const CheckedCall& call) {
  const Context& c = call.context;
  const StepCall step(call);
  for (int64_t b = 0; b < step.p.B; ++b) {
    const int64_t* const made_for = step.states.made_for(b);
    check_sizes(c, step.p, made_for);
    check_dtype(c, call.in(kIn.selected).dtype, made_for[kCacheDType]);
    check_layer(c, b, call.attrs<NsaCacheStepAttrs>().layer, made_for[kCacheLayer],
                step.p.lengths[b]);
  }
  check_room(call, step.p);
}

void run_nsa_cache_step(const CheckedCall& call) {
  StepCall step(call);
  const int64_t layer = call.attrs<NsaCacheStepAttrs>().layer;
  try {
    cpu::nsa_cache_step(step.p);
  } catch (...) {
    step.states.store(true, layer);
    throw;
  }
  step.states.store(false, layer);
}

}  // namespace nsa
