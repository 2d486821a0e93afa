#include "twin/adv/broadcast.h"

#include <cstring>

#include "twin/adv/work_space.h"

namespace twin {
namespace {

enum Index { kDst, kSrc, kTmp };

uint32_t AlignUp(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

uint32_t BroadcastSpace(const uint32_t dst[2], const uint32_t src[2], uint32_t width, bool most) {
  const uint32_t src_size = src[0] * src[1], dst_size = dst[0] * dst[1];
  // 8-bit data is broadcast as halves.
  uint32_t cast = 0;
  if (width == 1) {
    width = 2;
    cast = (AlignUp(src_size, 16) + AlignUp(dst_size, 16)) * width;
  }
  if (src_size == dst_size || src_size == 1) return cast == 0 ? 0 : cast + kBlockBytes;
  if (src[1] != 1) return cast + kBlockBytes;
  const uint32_t per_block = kBlockBytes / width;
  const uint32_t rows = most ? AlignUp(dst[0], 8) : per_block;
  const uint32_t copied = most ? dst[0] : per_block;
  const uint32_t columns = AlignUp(dst[1], per_block);
  return cast + rows * kBlockBytes + (columns == dst[1] ? 0 : copied * columns * width);
}

void RunBroadcast(const BroadcastCall& call, const Operand& dst, const Operand& src,
                  const Operand& tmp) {
  EnterLibrary("Broadcast", call.where);
  Instr instr("Broadcast", PIPE_V, call.where, {dst, src});
  const uint64_t width = src.element;
  const uint64_t src_size = uint64_t{call.src[0]} * call.src[1];
  const uint64_t dst_size = uint64_t{call.dst[0]} * call.dst[1];
  for (int i = 0; i < 2; ++i) {
    instr.InMemory(i, {Hardware::UB});
    instr.Check(call.src[i] != 0 && (call.src[i] == call.dst[i] || call.src[i] == 1),
                "a length of %u cannot be broadcast to %u", call.src[i], call.dst[i]);
  }
  if (call.dim == 2 && src_size != dst_size && src_size != 1) {
    instr.Check(call.src[call.axis] == 1, "axis is %d, whose length in srcShape is %u and not 1",
                call.axis, call.src[call.axis]);
    instr.Check(call.axis == 1 || call.src[1] * width % kBlockBytes == 0,
                "srcShape[1] is %u, with axis 0 it has to fill blocks of 32 bytes", call.src[1]);
  }
  const Bytes in{0, src_size * width}, out{0, dst_size * width};
  instr.CheckDisjoint(kDst, out, kSrc, in);
  instr.Carries(kSrc);
  instr.Read(kSrc, in);
  const uint32_t space = BroadcastSpace(call.dst, call.src, src.element, false);
  if (tmp.local != nullptr) {
    instr.SetOperand(kTmp, tmp);
    instr.CheckDisjoint(kDst, out, kTmp, Bytes{0, space});
    instr.CheckDisjoint(kSrc, in, kTmp, Bytes{0, space});
  }
  TakeWorkSpace(instr, tmp.local != nullptr ? kTmp : -1, space);
  instr.Write(kDst, out);
  instr.CountRepeats((dst_size * width + kRepeatBytes - 1) / kRepeatBytes);
  instr.MoveBytes([&] {
    const uint8_t* from = instr.Data<uint8_t>(kSrc);
    uint8_t* to = instr.Data<uint8_t>(kDst);
    for (uint64_t row = 0; row < call.dst[0]; ++row) {
      for (uint64_t column = 0; column < call.dst[1]; ++column) {
        const uint64_t at =
            (call.src[0] == 1 ? 0 : row * call.src[1]) + (call.src[1] == 1 ? 0 : column);
        std::memcpy(to + (row * call.dst[1] + column) * width, from + at * width, width);
      }
    }
  });
}

}  // namespace twin
