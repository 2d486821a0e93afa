#include "twin/host/stream_launch.h"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "twin/device/icpu.h"
#include "twin/host/streams.h"

namespace twin {

void EnqueueKernel(const char* name, LaunchCores cores, uint32_t blocks, void* stream,
                   const std::vector<const void*>& pointers, const std::function<void()>& entry) {
  std::optional<KernelMode> mode;
  if (cores == LaunchCores::kVector) mode = KernelMode::AIV_MODE;
  if (cores == LaunchCores::kCube) mode = KernelMode::AIC_MODE;
  const std::string kept = name;
  const aclError status = Enqueue(name, stream, [=] {
    RunOnHost(kept.c_str(), blocks, pointers, entry, mode);
    return ACL_SUCCESS;
  });
  if (status == ACL_SUCCESS) return;
  std::fprintf(stderr, "twin error: %s: the launch is refused with status %d\n", name,
               static_cast<int>(status));
  std::exit(1);
}

}  // namespace twin
