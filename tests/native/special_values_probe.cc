// Results of the basic functions for NaN, infinities, denormals and zeros of either sign, on the
// instruction set that the build names. Prints "function input ... : output
// ..." in bits, a line for each call; the test knows what is right.
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cpu/block_indexer/scores.h"
#include "cpu/engine/plan/topk.h"
#include "cpu/engine/plan/topk_tokens.h"
#include "cpu/lightning_indexer/divergence.h"

namespace nsa::cpu {
namespace {

constexpr float kDenormal = 1e-40f, kLeast = 1.401298464e-45f;

const std::vector<float> kValues = {0.0f,
                                    -0.0f,
                                    kLeast,
                                    -kLeast,
                                    kDenormal,
                                    -kDenormal,
                                    kFloatMin,
                                    -kFloatMin,
                                    1.0f,
                                    -1.0f,
                                    -0.3f,
                                    -20.0f,
                                    -80.0f,
                                    -90.0f,
                                    -125.0f,
                                    -130.0f,
                                    -1e10f,
                                    -1e38f,
                                    -kFloatMax,
                                    kFloatMax,
                                    1e10f,
                                    -kInfinity,
                                    kInfinity,
                                    __builtin_nanf(""),
                                    -__builtin_nanf("")};

uint32_t bits(float x) { return bits_of(x); }

void print_floats(const std::vector<float>& x) {
  for (const float value : x) std::printf(" %08" PRIx32, bits(value));
}

void report(const char* name, const std::vector<float>& input, const std::vector<float>& output) {
  std::printf("%s", name);
  print_floats(input);
  std::printf(" :");
  print_floats(output);
  std::printf("\n");
}

// A function of vectors, each value in each lane among zeros.
template <class Function>
void of_lanes(const char* name, const Function& function) {
  for (const float value : kValues) {
    for (int lane = 0; lane < W; ++lane) {
      float x[W] = {}, y[W];
      x[lane] = value;
      store(y, function(load(x)));
      report(name, {value}, {y[lane]});
    }
  }
}

// Two operands, of which the second is what comes of NaN.
template <class Function>
void of_pairs(const char* name, const Function& function) {
  for (const float a : kValues) {
    for (const float b : kValues) {
      float y[W];
      store(y, function(set1(a), set1(b)));
      report(name, {a, b}, {y[W - 1]});
    }
  }
}

// A row of whole vectors: some numbers, and each value at each place.
template <class Function>
void of_rows(const char* name, const Function& function) {
  constexpr int64_t n = 2 * kLanePad;
  for (const float value : kValues) {
    for (int64_t at = 0; at < n; at += 7) {
      std::vector<float> row(n);
      for (int64_t j = 0; j < n; ++j) row[j] = -static_cast<float>(j % 5);
      row[at] = value;
      const std::vector<float> given = row;
      report(name, given, {function(row.data(), n)});
    }
  }
}

void conversions() {
  for (const float value : kValues) {
    float x[W], back[W];
    uint16_t half[W];
    for (int lane = 0; lane < W; ++lane) x[lane] = value;
    store_f16(half, load(x));
    store(back, load_f16(half));
    report("float16", {value}, {back[0], f16_to_float(float_to_f16(value))});
    store_bf16(half, load(x));
    store(back, load_bf16(half));
    report("bfloat16", {value}, {back[0], bf16_to_float(float_to_bf16(value))});
  }
}

void logarithms() {
  for (const float value : kValues) {
    double log = log_of(value);
    uint64_t as_bits;
    std::memcpy(&as_bits, &log, 8);
    std::printf("log %08" PRIx32 " : %016" PRIx64 "\n", bits(value), as_bits);
  }
}

// The order of all values, twice, as picks and as blocks.
void orders() {
  std::vector<float> scores = kValues;
  scores.insert(scores.end(), kValues.rbegin(), kValues.rend());
  const auto n = static_cast<int64_t>(scores.size());
  std::vector<char> memory(1 << 20);
  Arena arena{memory.data()};
  TopkTokens picks = TopkTokens::carve(arena, n);
  const TopkSpace space = TopkSpace::carve(arena, n);
  picks.clear();
  picks.add(scores.data(), 0, n, space);
  picks.finish(space);
  report("scores", scores, {});
  std::printf("picks :");
  for (int64_t i = 0; i < picks.n; ++i) std::printf(" %d", picks.index[i]);
  std::printf("\npicked :");
  for (int64_t i = 0; i < picks.n; ++i) std::printf(" %08" PRIx32, bits(score_of(picks.rank[i])));
  const Candidates candidates = Candidates::carve(arena, n, n);
  std::vector<float> room(score_room(n));
  for (int64_t i = 0; i < n; ++i) room[i] = scores[i];
  std::vector<int32_t> blocks(n);
  choose_blocks(TopkRule{nullptr, 0, -1, 0}, room.data(), n, n, blocks.data(), candidates);
  std::printf("\nblocks :");
  for (const int32_t block : blocks) std::printf(" %d", block);
  std::printf("\n");
}

// Two keys: p of both, scores of both, and the divergence.
void divergences() {
  const float some[] = {0.0f,      -0.0f,      1.0f,      kDenormal,
                        kInfinity, -kInfinity, kFloatMax, __builtin_nanf("")};
  for (const float a : some) {
    for (const float b : some) {
      for (const float p : {0.0f, -0.0f, 0.5f, 1.0f, kDenormal, __builtin_nanf("")}) {
        std::vector<float> mass(kLanePad), score(kLanePad);
        mass[0] = p;
        mass[1] = p == 1.0f ? 0.0f : 0.5f;
        score[0] = a;
        score[1] = b;
        const std::vector<float> given = {mass[0], mass[1], a, b};
        report("divergence", given,
               {static_cast<float>(divergence_gradient(mass.data(), score.data(), 2))});
      }
    }
  }
}

int run() {
  of_lanes("exp", [](V x) { return exp(x); });
  of_lanes("exp2", [](V x) { return exp2(x); });
  of_pairs("max", [](V a, V b) { return max(a, b); });
  of_pairs("min", [](V a, V b) { return min(a, b); });
  of_pairs("less", [](V a, V b) { return where_lt(a, b, set1(1.0f), zero()); });
  of_rows("largest", [](float* x, int64_t n) { return largest(x, n); });
  of_rows("raw_max", [](float* x, int64_t n) { return raw_max(x, n); });
  of_rows("scaled_max", [](float* x, int64_t n) { return scaled_max(x, n, 1.0f); });
  of_rows("all_finite", [](float* x, int64_t n) { return all_finite(x, n) ? 1.0f : 0.0f; });
  conversions();
  logarithms();
  orders();
  divergences();
  return 0;
}

}  // namespace
}  // namespace nsa::cpu

int main() { return nsa::cpu::run(); }
