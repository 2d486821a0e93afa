#include "twin/adv/work_space.h"

#include <algorithm>

namespace twin {

uint32_t EndOfBuffers(const Where& where) {
  uint32_t end = 0;
  for (const Buffer& buffer : ThisCore("UB", where).buffers) {
    if (buffer.alive && buffer.memory == Hardware::UB) {
      end = std::max(end, buffer.address + buffer.bytes);
    }
  }
  return end;
}

uint32_t FreeUb(const Where& where) {
  // The last 256 bytes are the framework's.
  constexpr uint32_t kUsable = 192 * 1024 - 256;
  const uint32_t end = EndOfBuffers(where);
  return end < kUsable ? kUsable - end : 0;
}

void EnterLibrary(const char* name, const Where& where) {
  Core& core = ThisCore(name, where);
  Order(core, PIPE_V, PIPE_V);
  core.registers.counter_mode = false;
  core.registers.mask[0] = core.registers.mask[1] = ~uint64_t{0};
  core.registers.mask_kind = 0;
}

void CheckApart(const char* name, const LocalView& dst, const LocalView& src, uint64_t bytes,
                const Where& where) {
  const bool same_memory = AscendC::GetPhyType(dst.position) == AscendC::GetPhyType(src.position);
  if (same_memory && dst.address < src.address + bytes && src.address < dst.address + bytes) {
    Fail(name, where, "source and destination share bytes");
  }
}

void TakeWorkSpace(Instr& instr, int tmp, uint64_t needed) {
  if (tmp >= 0) {
    const uint32_t bytes = instr.operand(tmp).local->bytes;
    instr.Check(bytes >= needed, "%s has %u bytes, %llu are needed", instr.operand(tmp).role, bytes,
                static_cast<unsigned long long>(needed));
    if (needed == 0) return;
    instr.Write(tmp, Bytes{0, needed});
    instr.Scramble(tmp, Bytes{0, needed});
    return;
  }
  const uint32_t bytes = FreeUb(instr.where());
  instr.Check(bytes >= needed, "the API takes %llu bytes of UB that no buffer holds, there are %u",
              static_cast<unsigned long long>(needed), bytes);
}

}  // namespace twin
