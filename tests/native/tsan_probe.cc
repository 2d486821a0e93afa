// Shows that the ThreadSanitizer set-up works: "race" must be reported, "clean" must not.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cpu/engine/threads/team.h"
#include "cpu/runtime.h"

int main(int argc, char** argv) {
  const bool race = argc > 1 && std::strcmp(argv[1], "race") == 0;
  std::vector<int64_t> values(100000);
  int64_t total = 0;
  const auto count = static_cast<int64_t>(values.size());
  for (int round = 0; round < 20; ++round) {
    nsa::cpu::set_num_threads(2 + round % 3);
    nsa::cpu::start_team();
    nsa::cpu::parallel_region(4, [&](const nsa::cpu::Member& member) {
      member.dynamic_for(count / 64, [&](int64_t n) {
        for (int64_t i = 64 * n; i < 64 * (n + 1); ++i) values[i] += i;
      });
      member.barrier();
      // Reads values that others wrote before the barrier, and in the region before.
      member.static_for(count, [&](int64_t i) {
        values[i] *= 2;
        if (race) total += values[i];
      });
    });
  }
  std::printf("%ld\n", static_cast<long>(total + values[1]));
  return 0;
}
