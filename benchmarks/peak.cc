// Peak of the processor for `python -m benchmarks`, which compiles this for one instruction set: a
// loop of independent multiply-adds on registers, without memory. It adds the product x * y over
// and over, so that the result tells how many products it made.
#include <omp.h>

#include <cstdint>
#include <cstring>

#if defined(__AMX_BF16__) || defined(__AVX512BF16__)
#include <immintrin.h>
#endif
#if defined(__AMX_BF16__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

#if defined(__AVX512BF16__)
// Two bfloat16 numbers in one word; x has no more digits than they.
int pair_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<int>(bits | bits >> 16);
}
#endif

#if defined(__AMX_BF16__)

constexpr int kTile = 16;  // rows of a tile, and words in a row
constexpr int64_t kFlops = 2 * 4 * kTile * kTile * 2 * kTile;

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Four tiles of sums, two of each operand: all eight.
double products(int64_t steps, float x, float y) {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  syscall(SYS_arch_prctl, kRequestPermission, kTileData);
  const TileConfig config;
  _tile_loadconfig(&config);
  alignas(64) int left[kTile * kTile], right[kTile * kTile];
  for (int& word : left) word = pair_of(x);
  for (int& word : right) word = pair_of(y);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, left, 64);
  _tile_loadd(5, left, 64);
  _tile_loadd(6, right, 64);
  _tile_loadd(7, right, 64);
  for (int64_t step = 0; step < steps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float sums[4][kTile * kTile];
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  _tile_release();
  double total = 0;
  for (const auto& tile : sums) {
    for (float value : tile) total += value;
  }
  return total;
}

#else

#if defined(__AVX512F__)
constexpr int kLanes = 16, kRegisters = 12;
#elif defined(__AVX2__)
constexpr int kLanes = 8, kRegisters = 12;
#else
// Some Arm cores have four units, which need sixteen sums in flight.
constexpr int kLanes = 4, kRegisters = 24;
#endif
typedef float Vector __attribute__((vector_size(4 * kLanes)));

#if defined(__AVX512BF16__)
constexpr int64_t kFlops = 2 * 2 * kLanes * kRegisters;
using Operand = __m512bh;
Operand broadcast(float x) { return (__m512bh)_mm512_set1_epi32(pair_of(x)); }
Vector add_product(Vector sum, Operand x, Operand y) { return _mm512_dpbf16_ps(sum, x, y); }
#else
constexpr int64_t kFlops = 2 * kLanes * kRegisters;
using Operand = Vector;
Operand broadcast(float x) { return x - Vector{}; }
// One instruction: GCC contracts the two operations.
Vector add_product(Vector sum, Operand x, Operand y) { return sum + x * y; }
#endif

#if defined(__aarch64__)
#define NSA_HIDE(x) asm volatile("" : "+w"(x))
#else
#define NSA_HIDE(x) asm volatile("" : "+v"(x))
#endif

// Two units of four cycles of latency, or five, need ten sums in flight. The compiler must know
// neither that all sums are equal, nor that the product is the same in every step.
double products(int64_t steps, float x, float y) {
  Vector sums[kRegisters] = {};
#pragma GCC unroll 32
  for (int i = 0; i < kRegisters; ++i) NSA_HIDE(sums[i]);
  const Operand left = broadcast(x);
  Operand right = broadcast(y);
  for (int64_t step = 0; step < steps; ++step) {
    NSA_HIDE(right);
#pragma GCC unroll 32
    for (int i = 0; i < kRegisters; ++i) sums[i] = add_product(sums[i], left, right);
  }
  double total = 0;
  for (const Vector& sum : sums) {
    for (int lane = 0; lane < kLanes; ++lane) total += sum[lane];
  }
  return total;
}

#endif

}  // namespace

extern "C" {

// Operations of a step on one thread: two for each product.
int64_t nsa_peak_flops() { return kFlops; }

// The products of all threads, added up.
double nsa_peak_products(int64_t steps, float x, float y, int threads) {
  double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  total += products(steps, x, y);
  return total;
}

}  // extern "C"
