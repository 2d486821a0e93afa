// A launch in a stream's order, which is what `run` makes of kernel<<<blocks, l2, stream>>>(...).
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "twin/device/where.h"

namespace twin {

// On which cores a kernel runs: as it says itself, or as the words before its name do.
enum class LaunchCores { kDeclared, kVector, kCube };

// An error is printed and ends the process with status 1, as that of the kernel does when the
// stream is waited for.
TWIN_API void EnqueueKernel(const char* name, LaunchCores cores, uint32_t blocks, void* stream,
                            const std::vector<const void*>& pointers,
                            const std::function<void()>& entry);

class StreamLaunch {
 public:
  // The second argument of the brackets is reserved in CANN.
  template <typename Reserved = int>
  StreamLaunch(const char* name, LaunchCores cores, uint32_t blocks, Reserved = {},
               void* stream = nullptr)
      : name_(name), cores_(cores), blocks_(blocks), stream_(stream) {}

  // A function that takes the kernel's arguments.
  template <typename Kernel>
  auto operator()(Kernel kernel) const {
    return [launch = *this, kernel](auto... arguments) {
      EnqueueKernel(launch.name_, launch.cores_, launch.blocks_, launch.stream_,
                    {Pointer(arguments)...}, [=] { kernel(arguments...); });
    };
  }

 private:
  template <typename Value>
  static const void* Pointer(const Value& value) {
    if constexpr (std::is_pointer<Value>::value) return value;
    return nullptr;
  }

  const char* name_;
  LaunchCores cores_;
  uint32_t blocks_;
  void* stream_;
};

}  // namespace twin
