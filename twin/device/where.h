// The place in a kernel's source that an error names.
#pragma once

#if defined(__GNUC__)
#define TWIN_API __attribute__((visibility("default")))
#else
#define TWIN_API
#endif

namespace twin {

struct Where {
  const char* file = nullptr;
  int line = 0;
};

// A default argument of this kind gives the place of the call that leaves the argument out, through
// any number of functions whose own argument is defaulted in the same way.
inline Where Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}

}  // namespace twin
