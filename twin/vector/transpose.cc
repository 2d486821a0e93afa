#include "twin/vector/transpose.h"

#include <cstring>
#include <string>
#include <vector>

namespace twin {
namespace {

using AscendC::TransposeParamsExt;
using AscendC::TransposeType;

constexpr int kBlocksOfTile = 16;
constexpr uint64_t kTileBytes = 512;  // 16 x 16 elements of two bytes

void TransposeTile(Instr& instr) {
  for (int i = 0; i < 2; ++i) instr.InMemory(i, {Hardware::UB});
  const Bytes tile{0, kTileBytes};
  if (instr.Data<uint8_t>(0) != instr.Data<uint8_t>(1)) instr.CheckDisjoint(0, tile, 1, tile);
  instr.Carries(1);
  instr.Read(1, tile);
  instr.Write(0, tile);
  instr.CountRepeats(1);
  instr.MoveBytes([&] {
    uint16_t source[256];
    std::memcpy(source, instr.Data<uint8_t>(1), kTileBytes);
    uint16_t* dst = instr.Data<uint16_t>(0);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 16; ++column) {
        dst[16 * row + column] = source[16 * column + row];
      }
    }
  });
}

// [n, outer, inner] to [n, inner, outer]: with (outer, inner) = (c, hw) NCHW becomes NHWC.
void SwapAxes(uint8_t* dst, const uint8_t* src, uint64_t n, uint64_t outer, uint64_t inner,
              uint32_t width) {
  for (uint64_t image = 0; image < n; ++image) {
    const uint64_t base = image * outer * inner;
    for (uint64_t i = 0; i < outer; ++i) {
      for (uint64_t k = 0; k < inner; ++k) {
        std::memcpy(dst + (base + k * outer + i) * width, src + (base + i * inner + k) * width,
                    width);
      }
    }
  }
}

void TransposeImages(Instr& instr, const TransposeParamsExt& p, uint32_t width) {
  const bool to_nhwc = p.transposeType == TransposeType::TRANSPOSE_NCHW2NHWC;
  const uint64_t plane = uint64_t{p.hSize} * p.wSize;
  instr.Check(p.cSize <= 4095, "cSize is %u, it has to be 0 to 4095", p.cSize);
  instr.Check(plane <= 4095, "hSize * wSize is %llu, it has to be 0 to 4095",
              static_cast<unsigned long long>(plane));
  if (p.nSize == 0 || p.cSize == 0 || plane == 0) return;
  instr.Check(plane * width % kBlockBytes == 0,
              "hSize * wSize elements are %llu bytes, they have to fill blocks of 32 bytes",
              static_cast<unsigned long long>(plane * width));
  for (int i = 0; i < 3; ++i) instr.InMemory(i, {Hardware::UB});
  const uint64_t rows = width == 1 ? 32 : 16;
  const uint64_t planes = to_nhwc ? p.cSize + 2u : 2u * p.cSize + 1u;
  const uint64_t needed = planes * rows * kBlockBytes;
  instr.Check(instr.operand(2).local->bytes >= needed,
              "sharedTmpBuffer has %u bytes, %llu are needed", instr.operand(2).local->bytes,
              static_cast<unsigned long long>(needed));
  const Bytes all{0, p.nSize * p.cSize * plane * width};
  instr.CheckDisjoint(0, all, 1, all);
  instr.CheckDisjoint(0, all, 2, Bytes{0, needed});
  instr.CheckDisjoint(1, all, 2, Bytes{0, needed});
  instr.Carries(1);
  instr.Read(1, all);
  instr.Write(0, all);
  instr.Scramble(2, Bytes{0, needed});
  const uint64_t outer = to_nhwc ? p.cSize : plane, inner = to_nhwc ? plane : p.cSize;
  instr.MoveBytes([&] {
    SwapAxes(instr.Data<uint8_t>(0), instr.Data<uint8_t>(1), p.nSize, outer, inner, width);
  });
}

void CheckParams(const Instr& instr, const AscendC::TransDataTo5HDParams& params, uint32_t width) {
  const auto check = [&](const char* name, int64_t value, int64_t limit) {
    instr.Check(value >= 0 && value <= limit, "%s is %lld, it has to be 0 to %lld", name,
                static_cast<long long>(value), static_cast<long long>(limit));
  };
  check("repeatTimes", params.repeatTimes.wide(), 255);
  check("dstRepStride", params.dstRepStride.wide(), 65535);
  check("srcRepStride", params.srcRepStride.wide(), 65535);
  instr.Check(width == 1 || (!params.dstHighHalf && !params.srcHighHalf),
              "dstHighHalf and srcHighHalf are for 8-bit types");
}

}  // namespace

void RunTranspose16(const Where& where, const Operand& dst, const Operand& src) {
  Instr instr("Transpose", PIPE_V, where, {dst, src});
  TransposeTile(instr);
}

void RunTransposeExt(const Where& where, const Operand& dst, const Operand& src, const Operand& tmp,
                     const TransposeParamsExt& params) {
  Instr instr("Transpose", PIPE_V, where, {dst, src, tmp});
  switch (params.transposeType) {
    case TransposeType::TRANSPOSE_TYPE_NONE:
      return;
    case TransposeType::TRANSPOSE_ND2ND_B16:
      instr.Check(std::string(dst.dtype) == "uint16_t",
                  "TRANSPOSE_ND2ND_B16 takes uint16_t, not %s", dst.dtype);
      instr.Check(params.hSize == 16 && params.wSize == 16,
                  "hSize and wSize are %u and %u, both have to be 16", params.hSize, params.wSize);
      TransposeTile(instr);
      return;
    case TransposeType::TRANSPOSE_NCHW2NHWC:
    case TransposeType::TRANSPOSE_NHWC2NCHW:
      TransposeImages(instr, params, dst.element);
      return;
    default:
      instr.Fail(Format("transposeType %d is not supported on dav-c220",
                        static_cast<int>(params.transposeType)));
  }
}

void RunTransDataTo5HD(const Where& where, const Operand (&blocks)[32],
                       const AscendC::TransDataTo5HDParams& params) {
  Instr instr("TransDataTo5HD", PIPE_V, where, {blocks[0], blocks[16]});
  const uint32_t width = blocks[0].element;
  CheckParams(instr, params, width);
  const uint64_t repeats = static_cast<uint64_t>(params.repeatTimes.wide());
  // A single repeat already starts one stride on.
  const uint64_t first = repeats == 1 ? 1 : 0;
  const uint64_t bytes = width == 1 ? kBlockBytes / 2 : kBlockBytes;
  const uint64_t src_half = params.srcHighHalf ? bytes : 0;
  const uint64_t dst_half = params.dstHighHalf ? bytes : 0;
  const uint64_t columns = bytes / width;
  const auto set = [&](int operand, int block) {
    instr.SetOperand(operand, blocks[block]);
    instr.InMemory(operand, {Hardware::UB});
  };
  instr.Carries(1);
  for (uint64_t r = first; r < first + repeats; ++r) {
    const uint64_t from =
        kBlockBytes * r * static_cast<uint64_t>(params.srcRepStride.wide()) + src_half;
    const uint64_t to =
        kBlockBytes * r * static_cast<uint64_t>(params.dstRepStride.wide()) + dst_half;
    for (int i = 0; i < kBlocksOfTile; ++i) {
      set(1, kBlocksOfTile + i);
      instr.Read(1, Bytes{from, bytes}, src_half == 0 ? kBlockBytes : kBlockBytes / 2);
    }
    for (int i = 0; i < kBlocksOfTile; ++i) {
      set(0, i);
      instr.Write(0, Bytes{to, bytes}, dst_half == 0 ? kBlockBytes : kBlockBytes / 2);
    }
    instr.MoveBytes([&] {
      std::vector<uint8_t> rows(kBlocksOfTile * bytes);
      for (int i = 0; i < kBlocksOfTile; ++i) {
        set(1, kBlocksOfTile + i);
        std::memcpy(&rows[i * bytes], instr.Data<uint8_t>(1) + from, bytes);
      }
      // The columns of 16 elements, one after the other, fill the destination blocks in order.
      std::vector<uint8_t> turned(rows.size());
      for (uint64_t column = 0; column < columns; ++column) {
        for (uint64_t row = 0; row < kBlocksOfTile; ++row) {
          std::memcpy(&turned[(column * kBlocksOfTile + row) * width],
                      &rows[row * bytes + column * width], width);
        }
      }
      for (int i = 0; i < kBlocksOfTile; ++i) {
        set(0, i);
        std::memcpy(instr.Data<uint8_t>(0) + to, &turned[i * bytes], bytes);
      }
    });
  }
  instr.CountRepeats(repeats);
}

void RunTransDataTo5HD(const Where& where, const char* dtype, uint32_t width, const uint64_t* dst,
                       const uint64_t* src, const AscendC::TransDataTo5HDParams& params) {
  Core& core = ThisCore("TransDataTo5HD", where);
  const uint64_t begin = reinterpret_cast<uint64_t>(UseMemory(core, Hardware::UB).data);
  const uint32_t size = MemoryBytes(Hardware::UB);
  LocalView views[32];
  Operand blocks[32];
  for (int i = 0; i < 32; ++i) {
    const uint64_t address = i < 16 ? dst[i] : src[i - 16];
    if (address < begin || address >= begin + size) {
      Fail("TransDataTo5HD", where,
           Format("%s[%d] is not the address of a tensor in UB", i < 16 ? "dstList" : "srcList",
                  i % 16));
    }
    views[i].address = static_cast<uint32_t>(address - begin);
    views[i].bytes = size - views[i].address;
    views[i].position = TPosition::VECCALC;
    blocks[i] = Operand(i < 16 ? "dstList" : "srcList", dtype, width, views[i]);
  }
  RunTransDataTo5HD(where, blocks, params);
}

void RunTransDataTo5HD(const Where& where, const char* dtype, uint32_t width, const Operand& dst,
                       const Operand& src, const AscendC::TransDataTo5HDParams& params) {
  // The scalar unit loads the addresses into registers.
  uint64_t addresses[32];
  for (int i = 0; i < 32; ++i) {
    const Operand& list = i < 16 ? dst : src;
    std::memcpy(&addresses[i], ScalarRead(*list.local, static_cast<uint64_t>(i % 16), list, where),
                sizeof(uint64_t));
  }
  // It packs them into the first four words of each list on the way: the lists serve one call.
  for (uint64_t i = 0; i < 4; ++i) {
    for (const Operand* list : {&dst, &src}) {
      std::memset(ScalarWrite(*list->local, i, *list, where), 0xff, sizeof(uint64_t));
    }
  }
  Order(ThisCore("TransDataTo5HD", where), PIPE_S, PIPE_V);
  RunTransDataTo5HD(where, dtype, width, addresses, addresses + 16, params);
}

}  // namespace twin
