// Casts of a kernel under checked_casts.h. Driven by test_narrowing.py through ctypes.
#include "tests/ascendc/launcher.h"
// Behind all that is no kernel.
#include "tests/ascendc/checked_casts.h"

namespace {

template <typename To>
int64_t Cast(int64_t value) {
  return int64_t{static_cast<To>(value)};
}

}  // namespace

// Casts to one of five types.
extern "C" __attribute__((visibility("default"))) int64_t narrow(int64_t value, int64_t type,
                                                                 runner::Result* result) {
  runner::Launcher launcher("narrow", 0, result);
  const int64_t tiling = 0;
  int64_t cast = 0;
  launcher.run(1, tiling, [&] {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    cast = type == 0   ? Cast<uint8_t>(value)
           : type == 1 ? Cast<uint16_t>(value)
           : type == 2 ? Cast<int16_t>(value)
           : type == 3 ? Cast<uint32_t>(value)
                       : Cast<int32_t>(value);
  });
  return cast;
}
