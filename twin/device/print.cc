#include "twin/device/print.h"

#include <cstdarg>
#include <cstdio>

#include "twin/device/launch_state.h"

namespace twin {

void Print(const char* format, ...) {
  if (current_launch == nullptr || current_launch->probing) return;
  va_list list;
  va_start(list, format);
  std::vprintf(format, list);
  va_end(list);
}

void Dump(const Operand& tensor, uint32_t desc, uint32_t count,
          double (*number)(const uint8_t* from, uint64_t index), const Where& where) {
  Core& core = ThisCore("DumpTensor", where);
  if (core.launch->probing) return;
  const uint8_t* from;
  uint64_t bytes = 0;
  const char* memory = "GM";
  if (tensor.local != nullptr) {
    const LocalView& view = *tensor.local;
    from = UseMemory(core, view.memory()).data + view.address;
    bytes = std::min(view.bytes, MemoryBytes(view.memory()) - view.address);
    memory = MemoryName(view.memory());
  } else {
    const GlobalView& view = *tensor.global;
    from = view.address;
    const GlobalBuffer* buffer = FindGlobalBuffer(from);
    if (buffer != nullptr) bytes = static_cast<uint64_t>(buffer->address + buffer->bytes - from);
  }
  const uint64_t held = std::min<uint64_t>(count, bytes / tensor.element);
  std::printf("DumpTensor: desc=%u, %s, %s, %s, %s:%d\n[", desc, CoreName(core).c_str(), memory,
              tensor.dtype, where.file, where.line);
  for (uint64_t i = 0; i < held; ++i) std::printf("%s%g", i > 0 ? ", " : "", number(from, i));
  std::printf("]%s\n", held < count ? " and no more" : "");
}

void AssertFailed(const char* condition, const Where& where) {
  Fail("ascendc_assert", where, Format("%s does not hold", condition));
}

}  // namespace twin
