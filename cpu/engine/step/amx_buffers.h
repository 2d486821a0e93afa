// Scratch of the steps on AMX tiles. Plain data, which every translation unit can name;
// only one with tiles has it.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/step/online_softmax.h"
#include "cpu/engine/step/tile_matmul.h"

namespace nsa::cpu {
namespace {

constexpr int64_t kTile32Rows = 2 * kAmxTile;                   // rows of a 32-row tile
constexpr int64_t kTile32x32Keys = 2 * kAmxTile;                // keys of a 32 x 32 tile of scores
constexpr int64_t kStepTile32x32 = kTileKeys / kTile32x32Keys;  // of a step
constexpr int64_t kTile32Words = padded_row(kTileKeys / 2);     // between rows of probabilities

struct AmxStepBuffers {
  float* scores;    // [2, kTile32Rows, kTile32x32Keys] tiles: one in work, one of exponentials
  float* p;         // [2, kTile32Rows, kTile32Words] probabilities of two steps
  float* sum;       // [kTile32Rows, W] of the exponentials, lane by lane
  float* step_sum;  // [kTile32Rows, W] those of the last step
  float* top;       // [kTile32Rows, W] the largest raw products
  float* base;      // [kTile32Rows] what exponents are taken against
  float* factor;    // [W]

  static AmxStepBuffers carve(Arena& arena) {
    AmxStepBuffers b;
    b.scores = arena.take<float>(2 * kTile32Rows * kTile32x32Keys);
    b.p = arena.take<float>(2 * kTile32Rows * kTile32Words);
    b.sum = arena.take<float>(kTile32Rows * W);
    b.step_sum = arena.take<float>(kTile32Rows * W);
    b.top = arena.take<float>(kTile32Rows * W);
    b.base = arena.take<float>(kTile32Rows);
    b.factor = arena.take<float>(W);
    return b;
  }
};

// Softmax state per row: `sum` is the sum of exp(score - base). `base` is one of the row's scores,
// -inf before the first one; the maximum minus the base is at most kSlack.
struct GatheredStates {
  float *base, *sum, *top;

  static GatheredStates carve(Arena& arena, int64_t rows) {
    return {arena.take<float>(rows), arena.take<float>(rows), arena.take<float>(rows)};
  }
  void clear(int64_t rows) const {
    fill(base, rows, -kInfinity);
    fill(sum, rows, 0.0f);
    fill(top, rows, -kInfinity);
  }
  // State of row r, after its output o was scaled to the row's own maximum.
  SoftmaxState row(int64_t r, float* o, int64_t lanes) const {
    if (!(top[r] > base[r]) || !in_exp_range(top[r])) return {base[r], sum[r]};
    const float factor = exp1(base[r] - top[r]);
    scale_row(o, lanes, factor);
    return {top[r], sum[r] * factor};
  }
};

// A KV block of kKvBlockKeys keys, of which the rows see [lo, hi).
struct GatheredKvBlock {
  const float *keys, *values;
  int64_t lo, hi;
};

// A 16-row tile: heads of a query, and KV blocks that it sees keys of.
struct GatheredTile16 {
  static constexpr int64_t kMost = 3;
  const float* q;  // words, ldq apart
  float* o;        // rows, padded_row(Dv) apart
  int64_t row;     // of the states
  int64_t count = 0;
  GatheredKvBlock kv_blocks[kMost];
};

// The longest row of scores, of words as bf16x3.
constexpr int64_t kGatheredRow = WordForm{2, kAmxTile, kBf16x3Terms}.words(kKvBlockKeys);

struct GatheredBuffers {
  float*
      scores;  // [2, kMost, kAmxTile, Form::kRow] of two 16-row tiles; words of probabilities later
  float* top;  // [kAmxTile, W] the largest raw products
  float* sum;  // [kAmxTile, W] of the exponentials, lane by lane
  float* base;  // [kAmxTile]

  static GatheredBuffers carve(Arena& arena) {
    GatheredBuffers b;
    b.scores = arena.take<float>(2 * GatheredTile16::kMost * kAmxTile * kGatheredRow);
    b.top = arena.take<float>(kAmxTile * W);
    b.sum = arena.take<float>(kAmxTile * W);
    b.base = arena.take<float>(kAmxTile);
    return b;
  }
};

}  // namespace
}  // namespace nsa::cpu
