// L1 to the bias table (on MTE1) and to the fixpipe buffer (on FIX).
#include <cstring>

#include "twin/device/data_copy.h"

namespace twin {
namespace {

using AscendC::DataCopyParams;

// Bytes of a copy: `pitch` from the start of a block to the start of the next.
struct TableCopy {
  uint64_t blocks, src_bytes, src_pitch, dst_bytes, dst_pitch;
  uint32_t align;
};

// Gaps from end to start; blockLen and dstGap count 64 bytes, srcGap 32. A half becomes a float, so
// that a block is twice as long in the table.
TableCopy BiasCopy(const DataCopyParams& params, bool widens) {
  const uint64_t src = uint64_t{params.blockLen} * 64;
  const uint64_t dst = widens ? 2 * src : src;
  return {params.blockCount,
          src,
          src + uint64_t{params.srcGap} * kBlockBytes,
          dst,
          dst + uint64_t{params.dstGap} * 64,
          64};
}

// Strides from start to start; blockLen and dstGap count 128 bytes, srcGap 32.
TableCopy FixpipeCopy(const DataCopyParams& params) {
  const uint64_t bytes = uint64_t{params.blockLen} * 128;
  return {params.blockCount,
          bytes,
          uint64_t{params.srcGap} * kBlockBytes,
          bytes,
          uint64_t{params.dstGap} * 128,
          128};
}

bool Is(const Operand& operand, const char* a, const char* b) {
  return std::strcmp(operand.dtype, a) == 0 || std::strcmp(operand.dtype, b) == 0;
}

// Element for element; one without a value leaves none.
void CopyElements(Instr* instr, uint64_t to, uint64_t from, uint64_t bytes, bool widens) {
  const uint32_t element = instr->operand(1).element, wide = instr->operand(0).element;
  const uint32_t wanted = (1u << element) - 1;
  uint8_t* out = instr->Data<uint8_t>(0) + to;
  const uint8_t* in = instr->Data<uint8_t>(1) + from;
  for (uint64_t at = 0; at < bytes; at += element, out += wide) {
    if (widens) {
      uint16_t bits;
      std::memcpy(&bits, in + at, 2);
      const float value = HalfBitsToFloat(bits);
      std::memcpy(out, &value, 4);
    } else {
      std::memcpy(out, in + at, element);
    }
    const uint32_t held = instr->Held(1, from + at) >> (from + at) % kBlockBytes;
    if ((held & wanted) != wanted) instr->Scramble(0, {to + at / element * wide, wide});
  }
}

}  // namespace

void CopyToTable(const Operand& dst, const Operand& src, const DataCopyParams& params,
                 const Where& where) {
  const bool bias = dst.local->memory() == Hardware::BIAS;
  Instr instr("DataCopy", bias ? PIPE_MTE1 : PIPE_FIX, where, {dst, src});
  instr.InMemory(0, {Hardware::BIAS, Hardware::FIXBUF});
  instr.InMemory(1, {Hardware::L1});
  if (bias) {
    instr.Check(Is(dst, "float", "int32_t"), "the bias table takes float or int32_t, dst is %s",
                dst.dtype);
  } else {
    instr.Check(Is(dst, "uint64_t", "uint64_t"), "the fixpipe buffer takes uint64_t, dst is %s",
                dst.dtype);
  }
  CheckBlocks(instr, params);
  if (params.blockCount == 0 || params.blockLen == 0) {
    instr.Warn("instruction without effect", "blockCount or blockLen is 0");
    return;
  }
  const bool widens = src.element < dst.element;
  const TableCopy copy = bias ? BiasCopy(params, widens) : FixpipeCopy(params);
  instr.Check(copy.blocks == 1 || copy.dst_pitch >= copy.dst_bytes,
              "dstGap is %u, from start to start, and lets the blocks of %llu bytes overlap",
              static_cast<unsigned>(params.dstGap),
              static_cast<unsigned long long>(copy.dst_bytes));
  // The last block is copied whole: what lies behind the last element need not hold a value.
  for (uint64_t i = 0; i < copy.blocks; ++i) {
    instr.ReadHeld(1, Bytes{i * copy.src_pitch, copy.src_bytes});
  }
  instr.Write(0, Rows{0, copy.blocks, copy.dst_bytes, copy.dst_pitch}, copy.align);
  for (uint64_t i = 0; i < copy.blocks; ++i) {
    CopyElements(&instr, i * copy.dst_pitch, i * copy.src_pitch, copy.src_bytes, widens);
  }
}

void CopyToTable(const Operand& dst, const Operand& src, uint32_t count, const Where& where) {
  const uint64_t unit = dst.local->memory() == Hardware::BIAS ? 64 : 128;
  const uint64_t bytes = uint64_t{count} * src.element;
  if (bytes % unit != 0 || bytes / unit > 65535) {
    Fail("DataCopy", where,
         Format("count %u is %llu bytes, not a multiple of %llu up to 65535 of them: the %s is "
                "written in such blocks",
                count, static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(unit), MemoryName(dst.local->memory())));
  }
  const AscendC::DataCopyParams params(1, static_cast<uint16_t>(bytes / unit), 0, 0);
  CopyToTable(dst, src, params, where);
}

}  // namespace twin
