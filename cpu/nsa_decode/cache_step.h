// Parameters of NsaCacheStep: new tokens of every row go into the caches of a layer, and attend.
#pragma once

#include "cpu/nsa_decode/params.h"

namespace nsa::cpu {

// Keys [places, D] and values [places, Dv] of every row and head; token t stands in place t, in
// rings at t % places.
struct BranchCache {
  void *key, *value;  // of the first row and head
  int64_t places;
  int64_t head_stride;  // elements from one head to the next
};

struct NsaCacheStepParams {
  const float* query;       // [T, N1, D], the rows' tokens one after another, not rotated
  const float* key;         // [T, sets * N2, D], not rotated; sets: compressed, selected, window,
                            // or one that is shared
  const float* value;       // [T, sets * N2, Dv]
  const float* gates;       // [T, 3, N1]; nullptr: dense attention, whose one set is in `selected`
  const float* weight_k;    // [l, N2]
  const float* weight_v;    // [l, N2]
  const float* position_k;  // [l, N2, D]
  const float* position_v;  // [l, N2, Dv]
  BranchCache compressed, selected, window;  // the last is a ring, unless it is the selected one
  BranchCache raw;                           // the compression's tokens, a ring
  int64_t* lengths;                          // [B] tokens of every row, raised
  int64_t* written;      // [B] the most that a row has had since it was empty, raised; both also
                         // by a step that ends with an exception
  const int64_t* count;  // [B] new tokens of every row
  void* attention_out;   // [T, N1, Dv] of the caches' dtype
  ElemType dtype;        // of the caches
  int64_t T, B, N1, N2, D, Dv;
  int64_t window_size;  // dense: tokens that a query sees
  SelectionAttrs rule;
  float scale;
  double theta;  // base of the rotary embedding's wavelengths
  double rope_factor, rope_low, rope_high;
  bool shared;  // all branches have one set of keys and values

  bool separate() const { return gates && !shared; }
  int64_t sets() const { return separate() ? 3 : 1; }
};

void nsa_cache_step(const NsaCacheStepParams& p);

// Attention over the last window_size tokens of the selected branch's cache; reads nothing else.
void dense_decode(const NsaDecodeParams& p);

}  // namespace nsa::cpu
