// What the steps on AMX tiles keep in scratch. Plain data, which every translation unit can name;
// only one with tiles has it.
#pragma once

#include "cpu/engine/plan/plan.h"
#include "cpu/engine/step/online_softmax.h"
#include "cpu/engine/step/tile_matmul.h"

namespace nsa::cpu {
namespace {

constexpr int64_t kSwathRows = 2 * kAmxTile;                // rows of a swath
constexpr int64_t kSquareKeys = 2 * kAmxTile;               // keys of a square of scores
constexpr int64_t kStepSquares = kTileKeys / kSquareKeys;   // of a step
constexpr int64_t kSwathWords = padded_row(kTileKeys / 2);  // between rows of probabilities

struct AmxStepBuffers {
  float* scores;    // [2, kSwathRows, kSquareKeys] squares: one in work, one of exponentials
  float* p;         // [2, kSwathRows, kSwathWords] probabilities of two steps
  float* sum;       // [kSwathRows, W] of the exponentials, lane by lane
  float* step_sum;  // [kSwathRows, W] those of the last step
  float* top;       // [kSwathRows, W] the largest raw products
  float* base;      // [kSwathRows] what exponents are taken against
  float* factor;    // [W]

  static AmxStepBuffers carve(Arena& arena) {
    AmxStepBuffers b;
    b.scores = arena.take<float>(2 * kSwathRows * kSquareKeys);
    b.p = arena.take<float>(2 * kSwathRows * kSwathWords);
    b.sum = arena.take<float>(kSwathRows * W);
    b.step_sum = arena.take<float>(kSwathRows * W);
    b.top = arena.take<float>(kSwathRows * W);
    b.base = arena.take<float>(kSwathRows);
    b.factor = arena.take<float>(W);
    return b;
  }
};

// Of rows: sums are of exponentials against the base, which is a score of the row, or -inf where it
// has seen none, and which its largest score exceeds by kSlack at most.
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
  // Of row r, whose output o is brought to the row's own maximum.
  SoftmaxState row(int64_t r, float* o, int64_t lanes) const {
    if (!(top[r] > base[r]) || !moderate(top[r])) return {base[r], sum[r]};
    const float factor = exp1(base[r] - top[r]);
    scale_row(o, lanes, factor);
    return {top[r], sum[r] * factor};
  }
};

// A slab of kSlabKeys keys, of which the rows see [lo, hi).
struct GatheredSlab {
  const float *keys, *values;
  int64_t lo, hi;
};

// A strip of rows, heads of a query, and slabs that it sees keys of.
struct GatheredStrip {
  static constexpr int64_t kMost = 3;
  const float* q;  // words, ldq apart
  float* o;        // rows, padded_row(Dv) apart
  int64_t row;     // of the states
  int64_t count = 0;
  GatheredSlab slabs[kMost];
};

// The longest row of scores, of words in pieces.
constexpr int64_t kGatheredRow = WordForm{2, kAmxTile, kPieces}.words(kSlabKeys);

struct GatheredBuffers {
  float* scores;  // [2, kMost, kAmxTile, Form::kRow] of two strips; words of probabilities later
  float* top;     // [kAmxTile, W] the largest raw products
  float* sum;     // [kAmxTile, W] of the exponentials, lane by lane
  float* base;    // [kAmxTile]

  static GatheredBuffers carve(Arena& arena) {
    GatheredBuffers b;
    b.scores = arena.take<float>(2 * GatheredStrip::kMost * kAmxTile * kGatheredRow);
    b.top = arena.take<float>(kAmxTile * W);
    b.sum = arena.take<float>(kAmxTile * W);
    b.base = arena.take<float>(kAmxTile);
    return b;
  }
};

}  // namespace
}  // namespace nsa::cpu
