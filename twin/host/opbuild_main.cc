// opbuild FOLDER [KERNEL_PREFIX [UNITS]]: see WriteOperators. Linked with the operators
// it is for.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "twin/host/opbuild.h"

int main(int count, char** arguments) {
  const char* given = count == 4 ? arguments[3] : "";
  char* end = nullptr;
  const unsigned long long units = std::strtoull(given, &end, 10);
  if (count < 2 || count > 4 || *end != '\0') {
    std::fprintf(stderr, "usage: %s FOLDER [KERNEL_PREFIX [UNITS]]\n", arguments[0]);
    return 2;
  }
  try {
    twin::WriteOperators(arguments[1], count > 2 ? arguments[2] : "", units);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opbuild: %s\n", error.what());
    return 1;
  }
  return 0;
}
