// Shows that the ThreadSanitizer set-up works: "race" must be reported, "clean" must not.
#include <cstdio>
#include <cstring>
#include <vector>

int main(int argc, char** argv) {
  const bool race = argc > 1 && std::strcmp(argv[1], "race") == 0;
  std::vector<long> values(100000);
  long total = 0;
  const long count = static_cast<long>(values.size());
  for (int round = 0; round < 20; ++round) {
#pragma omp parallel for schedule(dynamic, 64) num_threads(4)
    for (long i = 0; i < count; ++i) values[i] += i;
    // What one region wrote, other threads of the next one read: only its barrier orders the two.
#pragma omp parallel for schedule(static) num_threads(4)
    for (long i = 0; i < count; ++i) {
      values[i] *= 2;
      if (race) total += values[i];
    }
  }
  std::printf("%ld\n", total + values[1]);
  return 0;
}
