// Inputs, attributes and outputs of NsaCacheStep.
#pragma once

#include <algorithm>
#include <array>

#include "infer/declare.h"

namespace nsa {

// Sizes that the shapes of caches do not tell apart, and what the rotary angles follow from, as the
// bits of doubles; 0 for those that dense attention does not have.
inline constexpr std::array<const char*, 10> kCacheSizes{
    "head_dim",  "value_head_dim", "rope_theta",          "rope_factor",     "rope_low",
    "rope_high", "window_size",    "compress_block_size", "compress_stride", "shared_kv"};

// A row's state begins with them, the caches' dtype (a DType), and the number of the layer whose
// tokens are in it (CacheLayer); 0: of any.
inline constexpr size_t kCacheDType = kCacheSizes.size(), kCacheLayer = kCacheDType + 1;
inline constexpr size_t kCacheHeader = kCacheLayer + 1;

// The parts of a layer's number; 0: not known. A cache outlives its process, in which alone `own`
// tells layers apart.
struct CacheLayer {
  int64_t process;  // which process made the layer: 18 bits, at random
  int64_t config;   // of what else decides the keys and values: 16 bits of a checksum
  int64_t place;    // 1 + the last number in the names of its parameters: 11 bits
  int64_t own;      // 15 bits

  explicit constexpr CacheLayer(int64_t number)
      : process(number >> 42 & 0x3ffff),
        config(number >> 26 & 0xffff),
        place(number >> 15 & 0x7ff),
        own(number & 0x7fff) {}
};

// The caches [B, N2, places, D + Dv] hold of every row and head first `places` keys, then as many
// values. `selected`: those of the selected branch, or of all tokens; a token has the place of its
// position. `others`: the compressed tokens, the ring of the window and that of the tokens of open
// compression windows, one after another. With `shared_kv` all branches have one set of keys and
// values, and the window's are read where the selected branch has them.
//
// `angles` and `fine_angles`, each with rows of D cosines and D sines, both twice the D / 2 that
// there are: where a kernel has no sines, those of the multiples of kAngleStep and of all positions
// below it, which add up to the angle of a position.
//
// `state` [B, kCacheHeader + 2]: what the caches were made for, the length of the row, and the most
// tokens that it has had since it was empty. Of each row, so that whoever reorders the rows of all
// three Tensors has the cache of these rows.
struct NsaCacheStepInputs : Inputs {
  size_t query = required("query", Elements::kFloat32, "T, N1, D");
  size_t key = required("key", Elements::kFloat32, "T, `sets * N2`, D");
  size_t value = required("value", Elements::kFloat32, "T, `sets * N2`, Dv");
  size_t selected = required("selected", Elements::kFloat, "B, N2, capacity?, `D + Dv`");
  size_t state = required("state", Elements::kInt64, "B, header + 2");
  size_t actual_seq_len = optional("actual_seq_len", Elements::kList);
  size_t gates = optional("gates", Elements::kFloat32, "T, 3, N1");
  size_t weight_k = optional("weight_k", Elements::kFloat32, "compress_block_size, N2");
  size_t weight_v = optional("weight_v", Elements::kFloat32, "compress_block_size, N2");
  size_t position_k = optional("position_k", Elements::kFloat32, "compress_block_size, N2, D");
  size_t position_v = optional("position_v", Elements::kFloat32, "compress_block_size, N2, Dv");
  size_t others = optional("others", Elements::kSameFloat, "B, N2, places, `D + Dv`");
  size_t angles = optional("angles", Elements::kFloat32, "positions / 2048?, 2 D");
  size_t fine_angles = optional("fine_angles", Elements::kFloat32, "2048, 2 D");
};
inline constexpr NsaCacheStepInputs kNsaCacheStepInputs;

struct NsaCacheStepAttrs : SelectionAttrs {
  float scale_value;
  double theta;  // base of the rotary angles
  // Pair i of a head turns by theta^(-2 i / D), divided by the factor in the share by which i is on
  // its way from low to high, between 0 and 1.
  double rope_factor = 1;
  double rope_low = 0;
  double rope_high = 1;
  bool shared_kv = false;  // one set of keys and values for all branches
  int64_t window_size;
  int64_t rollback = 0;  // tokens by which a row with full rings can go back
  int64_t layer = 0;     // number of the layer, see CacheLayer

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaCacheStepAttrs;
    attr.required("scale_value", &Self::scale_value);
    attr.required("theta", &Self::theta);
    attr.optional("rope_factor", &Self::rope_factor);
    attr.optional("rope_low", &Self::rope_low);
    attr.optional("rope_high", &Self::rope_high);
    attr.optional("shared_kv", &Self::shared_kv);
    attr.required("window_size", &Self::window_size, 1);
    attr.optional("rollback", &Self::rollback, 0);
    attr.optional("compress_block_size", &Self::compress_block_size, 1);
    attr.optional("compress_stride", &Self::compress_stride, 1);
    attr.optional("select_block_size", &Self::select_block_size, 1);
    attr.optional("select_block_count", &Self::select_block_count, 1);
    attr.optional("init_blocks", &Self::init_blocks, 0);
    attr.optional("local_blocks", &Self::local_blocks, 0);
    attr.optional("layer", &Self::layer, 0);
    attr.optional("importance", &Self::importance);
  }
};

// Places of the parts of `others`.
struct CachePlaces {
  int64_t compressed, window, raw;

  CachePlaces(int64_t capacity, const NsaCacheStepAttrs& a)
      : compressed(capacity < a.compress_block_size
                       ? 1
                       : (capacity - a.compress_block_size) / a.compress_stride + 1),
        window(a.shared_kv ? 0 : std::min(capacity, a.window_size + a.rollback)),
        raw(std::min(capacity, a.compress_block_size + a.rollback)) {}

  int64_t all() const { return compressed + window + raw; }
};

struct NsaCacheStepOutputs : Outputs {
  size_t attention_out = add("attention_out", Result::kFloat, "T, N1, Dv");
};
inline constexpr NsaCacheStepOutputs kNsaCacheStepOutputs;

}  // namespace nsa
