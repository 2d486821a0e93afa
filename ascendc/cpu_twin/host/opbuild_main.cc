// opbuild FOLDER [KERNEL_PREFIX]: see WriteOperators. Linked with the operators it is for.
#include <cstdio>
#include <exception>

#include "ascendc/cpu_twin/host/opbuild.h"

int main(int count, char** arguments) {
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: %s FOLDER [KERNEL_PREFIX]\n", arguments[0]);
    return 2;
  }
  try {
    twin::WriteOperators(arguments[1], count == 3 ? arguments[2] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opbuild: %s\n", error.what());
    return 1;
  }
  return 0;
}
