// Fractals of 512 bytes, one a repeat, and squares that are transposed on the way.
#include <algorithm>
#include <cstring>
#include <vector>

#include "twin/cube/fractal.h"
#include "twin/cube/load_data.h"
#include "twin/device/launch_state.h"

namespace twin {
namespace {

using AscendC::LoadData2DParams;
using AscendC::LoadData2dTransposeParams;

uint32_t TargetAlign(const Operand& dst) {
  return dst.local->memory() == Hardware::L1 ? kBlockBytes : kFractalBytes;
}

// Source fractal or square of each repeat.
std::vector<uint64_t> Sources(const Instr& instr, int64_t start, int64_t stride, int64_t repeats,
                              bool down) {
  std::vector<uint64_t> result;
  for (int64_t i = 0; i < repeats; ++i) {
    const int64_t at = down ? start - i * stride : start + i * stride;
    instr.Check(
        at >= 0, "repeat %lld reads before the start of src: startIndex %lld, srcStride %lld",
        static_cast<long long>(i), static_cast<long long>(start), static_cast<long long>(stride));
    result.push_back(static_cast<uint64_t>(at));
  }
  return result;
}

void Check2D(Instr* instr, const LoadData2DParams& params, bool from_gm, bool to_l1,
             uint32_t element) {
  CheckField(*instr, "startIndex", params.startIndex.wide(), 0, 65535);
  CheckField(*instr, "repeatTimes", params.repeatTimes.wide(), 0, 255);
  CheckField(*instr, "srcStride", params.srcStride.wide(), 0, 65535);
  CheckField(*instr, "dstGap", params.dstGap.wide(), 0, 65535);
  CheckField(*instr, "sid", params.sid.wide(), 0, 15);
  CheckField(*instr, "addrMode", params.addrMode.wide(), 0, from_gm && to_l1 ? 1 : 0);
  instr->Check(!params.ifTranspose || !from_gm,
               "ifTranspose is only for L1 to L0A and L1 to L0B; src lies in GM");
  instr->Check(!params.ifTranspose || element == 2,
               "ifTranspose takes 16-bit types, src has %u bits; use LoadDataWithTranspose or "
               "LoadData3DParamsV2",
               8 * element);
}

void CheckTransposing(Instr* instr, const LoadData2dTransposeParams& params) {
  instr->InMemory(0, {Hardware::L0A, Hardware::L0B});
  instr->InMemory(1, {Hardware::L1});
  CheckField(*instr, "startIndex", params.startIndex.wide(), 0, 65535);
  CheckField(*instr, "repeatTimes", params.repeatTimes.wide(), 0, 255);
  CheckField(*instr, "srcStride", params.srcStride.wide(), 0, 65535);
  CheckField(*instr, "dstGap", params.dstGap.wide(), 0, 65535);
  CheckField(*instr, "dstFracGap", params.dstFracGap.wide(), 0, 65535);
  CheckField(*instr, "addrMode", params.addrMode.wide(), 0, 1);
}

// Moves an element; one without a value leaves none.
void MoveElement(Instr* instr, uint64_t to, uint64_t from, uint32_t element) {
  std::memcpy(instr->Data<uint8_t>(0) + to, instr->Data<uint8_t>(1) + from, element);
  const uint64_t wanted = (uint64_t{1} << element) - 1;
  const uint64_t held = instr->Held(1, from / kBlockBytes * kBlockBytes) >> from % kBlockBytes;
  if ((held & wanted) != wanted) instr->Scramble(0, {to, element});
}

// 16 x 16 elements of 16 bits.
void TransposeFractal(Instr* instr, uint64_t to, uint64_t from) {
  for (uint64_t row = 0; row < 16; ++row) {
    for (uint64_t column = 0; column < 16; ++column) {
      MoveElement(instr, to + row * 32 + column * 2, from + column * 32 + row * 2, 2);
    }
  }
}

void CopyFractal(Instr* instr, uint64_t to, uint64_t from) {
  std::memcpy(instr->Data<uint8_t>(0) + to, instr->Data<uint8_t>(1) + from, kFractalBytes);
  for (uint64_t at = 0; at < kFractalBytes; at += kBlockBytes) {
    const uint32_t held = instr->Held(1, from + at);
    for (uint64_t byte = 0; held != ~0u && byte < kBlockBytes; ++byte) {
      if (!(held >> byte & 1)) instr->Scramble(0, {to + at + byte, 1});
    }
  }
}

}  // namespace

void RunLoad2D(const Operand& dst, const Operand& src, const LoadData2DParams& params,
               const Where& where) {
  const bool from_gm = src.global != nullptr;
  if (from_gm) MaySwitch(ThisCore("LoadData", where));
  Instr instr("LoadData", from_gm ? PIPE_MTE2 : PIPE_MTE1, where, {dst, src});
  if (from_gm) {
    instr.InMemory(0, {Hardware::L1, Hardware::L0A, Hardware::L0B});
  } else {
    instr.InMemory(0, {Hardware::L0A, Hardware::L0B});
    instr.InMemory(1, {Hardware::L1});
  }
  const bool to_l1 = dst.local->memory() == Hardware::L1;
  Check2D(&instr, params, from_gm, to_l1, src.element);
  if (params.repeatTimes == 0) {
    instr.Warn("instruction without effect", "repeatTimes is 0");
    return;
  }
  const uint64_t repeats = params.repeatTimes;
  const std::vector<uint64_t> sources =
      Sources(instr, params.startIndex, params.srcStride, params.repeatTimes, params.addrMode == 1);
  for (const uint64_t fractal : sources) {
    instr.ReadHeld(1, Bytes{fractal * kFractalBytes, kFractalBytes});
  }
  const uint64_t pitch = (uint64_t{params.dstGap} + 1) * kFractalBytes;
  instr.Write(0, Rows{0, repeats, kFractalBytes, pitch}, TargetAlign(dst));
  instr.CountRepeats(repeats);
  for (uint64_t i = 0; i < repeats; ++i) {
    if (params.ifTranspose) {
      TransposeFractal(&instr, i * pitch, sources[i] * kFractalBytes);
    } else {
      CopyFractal(&instr, i * pitch, sources[i] * kFractalBytes);
    }
  }
}

void RunLoadTranspose(const Operand& dst, const Operand& src,
                      const LoadData2dTransposeParams& params, const Where& where) {
  Instr instr("LoadDataWithTranspose", PIPE_MTE1, where, {dst, src});
  CheckTransposing(&instr, params);
  if (params.repeatTimes == 0) {
    instr.Warn("instruction without effect", "repeatTimes is 0");
    return;
  }
  const uint32_t element = src.element;
  const uint64_t side = element == 1 ? 32 : 16;
  const uint64_t c0 = kBlockBytes / element;
  const uint64_t fractals = element == 2 ? 1 : 2;
  const uint64_t square = fractals * kFractalBytes;
  const std::vector<uint64_t> sources =
      Sources(instr, params.startIndex, params.srcStride, params.repeatTimes, params.addrMode == 1);
  for (const uint64_t i : sources) instr.ReadHeld(1, Bytes{i * square, square});

  // Fractal j of repeat i of the result.
  const auto target = [&](uint64_t i, uint64_t j) {
    return i * (uint64_t{params.dstGap} + 1) + j * (uint64_t{params.dstFracGap} + 1);
  };
  std::vector<uint64_t> targets;
  for (uint64_t i = 0; i < sources.size(); ++i) {
    for (uint64_t j = 0; j < fractals; ++j) targets.push_back(target(i, j));
  }
  for (const uint64_t fractal : targets) {
    instr.Write(0, Bytes{fractal * kFractalBytes, kFractalBytes}, kFractalBytes);
  }
  std::sort(targets.begin(), targets.end());
  const auto twice = std::adjacent_find(targets.begin(), targets.end());
  if (twice != targets.end()) {
    instr.Fail(
        Format("illegal overlap: dstGap %u and dstFracGap %u write fractal %llu of dst twice",
               static_cast<unsigned>(params.dstGap), static_cast<unsigned>(params.dstFracGap),
               static_cast<unsigned long long>(*twice)));
  }
  instr.CountRepeats(sources.size());
  // Where an element of a square lies: of 8 bits two fractals below each other, of 32 bits two
  // beside each other.
  const auto at = [&](uint64_t row, uint64_t column) {
    return (row / 16 + column / c0) * kFractalBytes + row % 16 * kBlockBytes +
           column % c0 * element;
  };
  for (uint64_t i = 0; i < sources.size(); ++i) {
    for (uint64_t row = 0; row < side; ++row) {
      for (uint64_t column = 0; column < side; ++column) {
        const uint64_t place = at(row, column);
        MoveElement(&instr,
                    target(i, place / kFractalBytes) * kFractalBytes + place % kFractalBytes,
                    sources[i] * square + at(column, row), element);
      }
    }
  }
}

void RunLoadSparse(const Operand& dst, const Operand& src, const Operand& idx,
                   const LoadData2DParams& params, const Where& where) {
  Instr instr("LoadDataWithSparse", PIPE_MTE1, where, {dst, src, idx});
  instr.InMemory(0, {Hardware::L0B});
  instr.InMemory(1, {Hardware::L1});
  instr.InMemory(2, {Hardware::L1});
  CheckField(instr, "startIndex", params.startIndex.wide(), 0, 65535);
  CheckField(instr, "repeatTimes", params.repeatTimes.wide(), 0, 255);
  const uint64_t start = params.startIndex, repeats = params.repeatTimes;
  if (repeats == 0) {
    instr.Warn("instruction without effect", "repeatTimes is 0");
    return;
  }
  auto& index = CubeStateOf(instr.core()).sparse_index;
  constexpr uint64_t kIndexBytes = sizeof(CubeState::SparseIndex::bytes);
  instr.ReadHeld(1, Bytes{start * kFractalBytes, repeats * kFractalBytes});
  instr.Read(2, Bytes{start * kIndexBytes, repeats * kIndexBytes});
  instr.Write(0, Bytes{0, repeats * kFractalBytes}, kFractalBytes);
  instr.CountRepeats(repeats);
  index.resize(MemoryBytes(Hardware::L0B) / kFractalBytes);
  for (uint64_t i = 0; i < repeats; ++i) {
    CopyFractal(&instr, i * kFractalBytes, (start + i) * kFractalBytes);
    CubeState::SparseIndex& target = index[dst.local->address / kFractalBytes + i];
    std::memcpy(target.bytes, instr.Data<uint8_t>(2) + (start + i) * kIndexBytes, kIndexBytes);
    target.set = true;
  }
}

}  // namespace twin
