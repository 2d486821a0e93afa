// Chooses the instruction set once, before the first call, by asking the processor. This
// translation unit is compiled without any -m flag, so it runs everywhere.
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/runtime.h"

namespace nsa::cpu {

extern const KernelTable kernels_scalar;
#if defined(__x86_64__)
extern const KernelTable kernels_avx2, kernels_avx512, kernels_avx512_bf16, kernels_avx512_amx;
#ifdef NSA_AMX_MODEL
extern const KernelTable kernels_amx_model;  // of tests, for processors without AMX
#endif
#elif defined(__aarch64__)
extern const KernelTable kernels_neon;
#endif

namespace {

#if defined(__x86_64__) && !defined(NSA_AVX512_MODEL)
// The processor has bf16 tiles and the kernel lets this process use them: their register state is
// large, so Linux wants to be asked once per process.
bool amx_allowed() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

#if defined(__x86_64__)
// Not every compiler knows "f16c" as a name for __builtin_cpu_supports.
bool has_f16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

std::vector<const KernelTable*> available() {
#if defined(NSA_ONE_TABLE)
  return {&NSA_ONE_TABLE};  // in tests: the only one that is built
#endif
  std::vector<const KernelTable*> tables;
#if defined(__x86_64__)
  __builtin_cpu_init();
#if defined(NSA_AVX512_MODEL)
  constexpr bool avx512 = true, bf16 = true;  // in tests: written out for AVX2
#elif defined(NSA_WITHOUT_AVX512)
  constexpr bool avx512 = false, bf16 = false;  // in tests: not built
#else
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
#endif
#ifndef NSA_AVX512_MODEL
  if (bf16 && amx_allowed()) tables.push_back(&kernels_avx512_amx);
#endif
  if (bf16) tables.push_back(&kernels_avx512_bf16);
  if (avx512) tables.push_back(&kernels_avx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
    tables.push_back(&kernels_avx2);
#ifdef NSA_AMX_MODEL
  if (bf16) tables.push_back(&kernels_amx_model);
#endif
#elif defined(__aarch64__)
  tables.push_back(&kernels_neon);  // Advanced SIMD is part of the AArch64 baseline
#endif
  tables.push_back(&kernels_scalar);
  return tables;
}

// Escapes like Python's ascii(), because an environment variable may hold any bytes.
std::string printable(const std::string& text) {
  std::string shown;
  for (const unsigned char c : text.substr(0, 80)) {
    char escaped[5];
    std::snprintf(escaped, sizeof(escaped), "\\x%02x", c);
    shown += c >= ' ' && c < 0x7f ? std::string(1, static_cast<char>(c)) : escaped;
  }
  return shown;
}

const KernelTable* find(const std::string& name, const char* asked_by) {
  std::string known;
  for (const KernelTable* table : available()) {
    if (name == table->name) return table;
    known += known.empty() ? table->name : std::string(", ") + table->name;
  }
  throw std::invalid_argument(std::string(asked_by) + ": instruction set must be one of " + known +
                              " on this machine, got " + printable(name));
}

std::atomic<const KernelTable*> in_use{nullptr};

}  // namespace

const KernelTable& kernels() {
  const KernelTable* table = in_use.load(std::memory_order_acquire);
  if (table == nullptr) {
    constexpr const char* kVariable = "MINDSPORE_NSA_ISA";
    const char* forced = std::getenv(kVariable);
    table = forced && *forced ? find(forced, kVariable) : available().front();
    in_use.store(table, std::memory_order_release);
  }
  return *table;
}

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const KernelTable* table : available()) names.push_back(table->name);
  return names;
}

std::string isa() { return kernels().name; }

void set_isa(const std::string& name) {
  in_use.store(find(name, "set_isa"), std::memory_order_release);
}

}  // namespace nsa::cpu
