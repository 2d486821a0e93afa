// Scratch of a thread.
#pragma once

#include "cpu/engine/plan/topk.h"
#include "cpu/engine/step/decode.h"
#include "cpu/engine/threads/scratch.h"
#include "cpu/nsa_decode/decode_plan.h"

namespace nsa::cpu {
namespace {

struct DecodeThread {
  char* keys;      // [kStepKeys, words of D] words, where a copy is needed
  char* values;    // [kStepKeys, row] elements, likewise
  float* s;        // [kStepKeys, lanes]
  float* p_words;  // [kStepKeys / 2, lanes] of probabilities of two keys
  float* words;    // [kStepKeys / 2, row] of values of two keys, on tiles
  float* sums;     // [lanes, row] a split's output, on tiles, where the group does not fill them
  float* factor;   // [lanes]
  float* prob;     // [compressed keys]
  float* score;    // [score_room(blocks)]
  Candidates best;
  float* max;   // [branches, lanes]
  float* sum;   // [branches, lanes]
  float* rows;  // [G, row]
  float* row;   // [2, row]
  Run* runs;    // [2 kStepKeys] of a step's values and the next one's keys

  static DecodeThread carve(Arena& arena, const DecodePlan& plan, int64_t max_cmp_keys,
                            int64_t max_blocks) {
    const int64_t lanes = decode_lanes(plan.G), row = value_row_size(plan.Dv);
    DecodeThread t;
    t.keys = arena.take<char>(kStepKeys * decode_words(plan.D) * 4);
    t.values = arena.take<char>(kStepKeys * row * 4);
    t.s = arena.take<float>(kStepKeys * lanes);
    t.p_words = arena.take<float>(kStepKeys / 2 * lanes);
    t.words = arena.take<float>(kStepKeys / 2 * row);
    t.sums = arena.take<float>(lanes * row);
    t.factor = arena.take<float>(lanes);
    t.prob = arena.take<float>(max_cmp_keys);
    t.score = arena.take<float>(score_room(max_blocks));
    if (plan.choose) t.best = Candidates::carve(arena, plan.count, max_blocks);
    t.max = arena.take<float>(kBranches * lanes);
    t.sum = arena.take<float>(kBranches * lanes);
    t.rows = arena.take<float>(plan.G * row);
    t.row = arena.take<float>(2 * row);
    t.runs = arena.take<Run>(2 * kStepKeys);
    return t;
  }
};

int64_t decode_thread_size(const DecodePlan& plan, int64_t max_cmp_keys, int64_t max_blocks) {
  Arena arena;
  DecodeThread::carve(arena, plan, max_cmp_keys, max_blocks);
  return arena.used;
}

}  // namespace
}  // namespace nsa::cpu
