// opbuild FOLDER [KERNEL_PREFIX [MOST_COMBINATIONS]]: see WriteOperators. Linked with the operators
// it is for.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "twin/host/opbuild.h"

int main(int count, char** arguments) {
  const char* most = count == 4 ? arguments[3] : "";
  char* end = nullptr;
  const unsigned long long combinations = std::strtoull(most, &end, 10);
  if (count < 2 || count > 4 || *end != '\0') {
    std::fprintf(stderr, "usage: %s FOLDER [KERNEL_PREFIX [MOST_COMBINATIONS]]\n", arguments[0]);
    return 2;
  }
  try {
    twin::WriteOperators(arguments[1], count > 2 ? arguments[2] : "",
                         combinations == 0 ? SIZE_MAX : combinations);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opbuild: %s\n", error.what());
    return 1;
  }
  return 0;
}
