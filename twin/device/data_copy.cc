#include "twin/device/data_copy.h"

#include <algorithm>
#include <cstring>

#include "twin/device/launch_state.h"

namespace twin {
namespace {

using AscendC::DataCopyParams;

constexpr int64_t kMostBlocks = 4095;

Hardware MemoryOf(const Operand& operand) {
  return operand.global != nullptr ? Hardware::GM : operand.local->memory();
}

// The pipe of a copy between two memories; PIPE_ALL where there is no such path.
pipe_t CopyPipe(Hardware from, Hardware to) {
  if (from == Hardware::GM && (to == Hardware::UB || to == Hardware::L1)) return PIPE_MTE2;
  if (to == Hardware::GM && (from == Hardware::UB || from == Hardware::L1)) return PIPE_MTE3;
  if (from == Hardware::UB && to == Hardware::UB) return PIPE_V;
  return PIPE_ALL;
}

// The bias table and the fixpipe buffer count in units of their own.
bool ToTable(const Operand& dst, const Operand& src) {
  const Hardware to = MemoryOf(dst);
  return MemoryOf(src) == Hardware::L1 && (to == Hardware::BIAS || to == Hardware::FIXBUF);
}

pipe_t CheckedPipe(const char* name, const Operand& dst, const Operand& src, const Where& where) {
  const pipe_t pipe = CopyPipe(MemoryOf(src), MemoryOf(dst));
  if (pipe == PIPE_ALL) {
    Fail(name, where,
         Format("there is no path from %s to %s on this architecture", MemoryName(MemoryOf(src)),
                MemoryName(MemoryOf(dst))));
  }
  return pipe;
}

void CheckGlobalAlignment(const Instr& instr, const Operand& operand) {
  if (operand.global == nullptr) return;
  const auto address = reinterpret_cast<uintptr_t>(operand.global->address);
  instr.Check(address % operand.element == 0,
              "%s lies at a GM address that is not a multiple of its element's %u bytes",
              operand.role, operand.element);
}

// Rows of a copy inside one memory share no bytes, or are the same.
void CheckRowsApart(const Instr& instr, const LocalView& d, const Rows& dst, const LocalView& s,
                    const Rows& src) {
  uint64_t i = 0, j = 0;
  while (i < dst.rows && j < src.rows) {
    const uint64_t d_begin = d.address + i * dst.pitch, s_begin = s.address + j * src.pitch;
    if (d_begin + dst.row_bytes <= s_begin) {
      ++i;
    } else if (s_begin + src.row_bytes <= d_begin) {
      ++j;
    } else {
      instr.Fail(Format("illegal overlap: block %llu of dst shares bytes with block %llu of src",
                        static_cast<unsigned long long>(i), static_cast<unsigned long long>(j)));
    }
  }
}

void CopyRows(uint8_t* dst, uint64_t dst_pitch, const uint8_t* src, uint64_t src_pitch,
              uint64_t rows, uint64_t bytes) {
  for (uint64_t row = 0; row < rows; ++row) {
    std::memcpy(dst + row * dst_pitch, src + row * src_pitch, bytes);
  }
}

template <typename T>
T Combine(AtomicOperation operation, T old, T value) {
  if (operation == kAtomicMax) return value > old ? value : old;
  if (operation == kAtomicMin) return value < old ? value : old;
  if constexpr (std::is_integral<T>::value) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(old) + static_cast<U>(value)));
  } else {
    return old + value;
  }
}

template <typename T>
void CombineRow(AtomicOperation operation, uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    T old, value;
    std::memcpy(&old, dst + at, sizeof(T));
    std::memcpy(&value, src + at, sizeof(T));
    if constexpr (std::is_same<T, bfloat16_t>::value) {
      value = bfloat16_t(Combine(operation, static_cast<float>(old), static_cast<float>(value)));
    } else if constexpr (std::is_same<T, half>::value) {
      value = half(Combine(operation, static_cast<float>(old), static_cast<float>(value)));
    } else {
      value = Combine(operation, old, value);
    }
    std::memcpy(dst + at, &value, sizeof(T));
  }
}

using RowCombiner = void (*)(AtomicOperation, uint8_t*, const uint8_t*, uint64_t);
RowCombiner CombinerOf(const std::string& dtype) {
  if (dtype == "float") return CombineRow<float>;
  if (dtype == "half") return CombineRow<half>;
  if (dtype == "bfloat16_t") return CombineRow<bfloat16_t>;
  if (dtype == "int32_t") return CombineRow<int32_t>;
  if (dtype == "int16_t") return CombineRow<int16_t>;
  return CombineRow<int8_t>;
}

// A store without a value; a sum with it holds none either, element by element.
void CarryStored(Instr* instr, const Rows& dst_rows, uint64_t src_pitch) {
  const bool atomic = instr->core().registers.atomic != kAtomicNone;
  const uint64_t element = instr->operand(0).element;
  instr->OnImages([&] {
    uint8_t* to = instr->Data<uint8_t>(0);
    const uint8_t* from = instr->Data<uint8_t>(1);
    if (!atomic) {
      CopyRows(to, dst_rows.pitch, from, src_pitch, dst_rows.rows, dst_rows.row_bytes);
      return;
    }
    for (uint64_t row = 0; row < dst_rows.rows; ++row, to += dst_rows.pitch, from += src_pitch) {
      for (uint64_t at = 0; at < dst_rows.row_bytes; at += element) {
        SetLacks(to + at, element, Lacks(from + at, element));
      }
    }
  });
}

// A copy of rows between any two memories; the parameters are checked.
void Transfer(Instr* instr, const Operand& dst, const Operand& src, const Rows& dst_rows,
              const Rows& src_rows) {
  instr->Carries(1);
  instr->Read(1, src_rows);
  if (dst.global != nullptr) {
    StoreGlobal(instr, 0, dst_rows, instr->Data<uint8_t>(1), src_rows.pitch);
    if (instr->missing()) CarryStored(instr, dst_rows, src_rows.pitch);
    return;
  }
  if (src.local != nullptr) {
    CheckRowsApart(*instr, *dst.local, dst_rows, *src.local, src_rows);
  }
  instr->Write(0, dst_rows);
  instr->MoveBytes([&] {
    CopyRows(instr->Data<uint8_t>(0), dst_rows.pitch, instr->Data<uint8_t>(1), src_rows.pitch,
             dst_rows.rows, dst_rows.row_bytes);
  });
}

void CheckPadBlocks(const Instr& instr, const PadBlocks& blocks, uint32_t element) {
  CheckField(instr, "blockCount", blocks.count, 0, kMostBlocks);
  CheckField(instr, "blockLen", blocks.length, 0, blocks.most_length);
  CheckField(instr, "srcStride", blocks.src_stride, 0, blocks.most_stride);
  CheckField(instr, "dstStride", blocks.dst_stride, 0, blocks.most_stride);
  instr.Check(blocks.length % element == 0,
              "blockLen is %lld bytes, expected a multiple of the element's %u",
              static_cast<long long>(blocks.length), element);
}

void CheckPadding(const Instr& instr, const char* name, int64_t elements, uint32_t width) {
  instr.Check(elements >= 0 && elements * width <= kBlockBytes,
              "%s is %lld elements, %lld bytes, expected at most 32 bytes", name,
              static_cast<long long>(elements), static_cast<long long>(elements * width));
}

// DataCopyPad surrounds a row in UB with this.
enum class Filling { kFirstElement, kValue, kUndefined };

}  // namespace

void StoreGlobal(Instr* instr, int operand, const Rows& rows, const uint8_t* src,
                 uint64_t src_pitch) {
  const Registers& registers = instr->core().registers;
  if (registers.atomic == kAtomicNone) {
    instr->Write(operand, rows);
    CopyRows(instr->Data<uint8_t>(operand) + rows.begin, rows.pitch, src, src_pitch, rows.rows,
             rows.row_bytes);
    return;
  }
  const char* dtype = instr->operand(operand).dtype;
  instr->Check(std::strcmp(dtype, registers.atomic_dtype) == 0,
               "atomic stores are on for %s (%s:%d), this one stores %s", registers.atomic_dtype,
               registers.atomic_where.file, registers.atomic_where.line, dtype);
  instr->WriteAtomic(operand, rows);
  const RowCombiner combine = CombinerOf(dtype);
  uint8_t* dst = instr->Data<uint8_t>(operand) + rows.begin;
  for (uint64_t row = 0; row < rows.rows; ++row) {
    combine(registers.atomic, dst + row * rows.pitch, src + row * src_pitch, rows.row_bytes);
  }
}

void CheckBlocks(const Instr& instr, const DataCopyParams& params) {
  CheckField(instr, "blockCount", params.blockCount.wide(), 0, kMostBlocks);
  CheckField(instr, "blockLen", params.blockLen.wide(), 0, 65535);
  CheckField(instr, "srcGap", params.srcGap.wide(), 0, 65535);
  CheckField(instr, "dstGap", params.dstGap.wide(), 0, 65535);
}

void CopyCount(const Operand& dst, const Operand& src, uint32_t count, const Where& where) {
  const char* name = "DataCopy";
  if (ToTable(dst, src)) {
    CopyToTable(dst, src, count, where);
    return;
  }
  MaySwitch(ThisCore(name, where));
  Instr instr(name, CheckedPipe(name, dst, src, where), where, {dst, src});
  const uint64_t bytes = uint64_t{count} * src.element;
  instr.Check(
      bytes % kBlockBytes == 0,
      "count %u is %llu bytes, not a multiple of 32: the hardware drops the rest of the last "
      "block; use DataCopyPad",
      count, static_cast<unsigned long long>(bytes));
  CheckGlobalAlignment(instr, dst);
  CheckGlobalAlignment(instr, src);
  if (bytes == 0) return;
  Transfer(&instr, dst, src, {0, 1, bytes, bytes}, {0, 1, bytes, bytes});
}

void CopyBlocks(const Operand& dst, const Operand& src, const DataCopyParams& params,
                const Where& where) {
  const char* name = "DataCopy";
  if (ToTable(dst, src)) {
    CopyToTable(dst, src, params, where);
    return;
  }
  MaySwitch(ThisCore(name, where));
  Instr instr(name, CheckedPipe(name, dst, src, where), where, {dst, src});
  CheckBlocks(instr, params);
  CheckGlobalAlignment(instr, dst);
  CheckGlobalAlignment(instr, src);
  if (params.blockCount == 0 || params.blockLen == 0) return;
  const uint64_t bytes = uint64_t{params.blockLen} * kBlockBytes;
  Transfer(&instr, dst, src,
           {0, params.blockCount, bytes, bytes + uint64_t{params.dstGap} * kBlockBytes},
           {0, params.blockCount, bytes, bytes + uint64_t{params.srcGap} * kBlockBytes});
}

void CopyPadIn(const Operand& dst, const Operand& src, const PadBlocks& blocks, const PadSpec& pad,
               const Where& where) {
  const char* name = "DataCopyPad";
  MaySwitch(ThisCore(name, where));
  Instr instr(name, PIPE_MTE2, where, {dst, src});
  instr.InMemory(0, {Hardware::UB});
  const uint32_t element = src.element;
  CheckPadBlocks(instr, blocks, element);
  CheckPadding(instr, "leftPadding", pad.left, element);
  CheckPadding(instr, "rightPadding", pad.right, element);
  instr.Check(!pad.pad || element < 8 || pad.value == 0, "paddingValue of a 64-bit type is not 0");
  if (blocks.count == 0 || blocks.length == 0) return;

  const auto left = static_cast<uint64_t>(pad.left) * element;
  const auto right = static_cast<uint64_t>(pad.right) * element;
  const auto length = static_cast<uint64_t>(blocks.length);
  const auto rows = static_cast<uint64_t>(blocks.count);
  const uint64_t source_pitch = length + static_cast<uint64_t>(blocks.src_stride);
  const uint64_t row = CeilDivide(left + length + right, kBlockBytes) * kBlockBytes;
  const uint64_t pitch = row + static_cast<uint64_t>(blocks.dst_stride) * kBlockBytes;
  instr.Carries(1);
  instr.Read(1, Rows{0, rows, length, source_pitch});
  instr.Write(0, Rows{0, rows, row, pitch});

  const Registers& registers = instr.core().registers;
  Filling filling = Filling::kFirstElement;
  uint64_t value = 0;
  if (!pad.pad && registers.pad_value_set) {
    filling = Filling::kValue;
    value = registers.pad_value;
  } else if (left + right > 0) {
    filling = pad.pad ? Filling::kValue : Filling::kUndefined;
    value = pad.value;
  }
  const auto copy = [&](bool fills) {
    uint8_t* to = instr.Data<uint8_t>(0);
    const uint8_t* from = instr.Data<uint8_t>(1);
    for (uint64_t r = 0; r < rows; ++r, to += pitch, from += source_pitch) {
      std::memcpy(to + left, from, length);
      if (!fills) continue;
      if (filling == Filling::kFirstElement) std::memcpy(&value, from, element);
      for (uint64_t at = 0; at < left; at += element) std::memcpy(to + at, &value, element);
      for (uint64_t at = left + length; at < row; at += element) {
        std::memcpy(to + at, &value, element);
      }
    }
  };
  copy(row != length && filling != Filling::kUndefined);
  // Around a row lie its first element, which may lack bytes, or a value.
  if (instr.missing()) {
    instr.OnImages([&] { copy(row != length && filling == Filling::kFirstElement); });
  }
  if (row == length || filling != Filling::kUndefined) return;
  for (uint64_t r = 0; r < rows; ++r) {
    instr.Scramble(0, {r * pitch, left});
    instr.Scramble(0, {r * pitch + left + length, row - left - length});
  }
}

void CopyPadOut(const char* name, const Operand& dst, const Operand& src, const PadBlocks& blocks,
                const Where& where) {
  MaySwitch(ThisCore(name, where));
  Instr instr(name, PIPE_MTE3, where, {dst, src});
  instr.InMemory(1, {Hardware::UB});
  CheckPadBlocks(instr, blocks, src.element);
  if (blocks.count == 0 || blocks.length == 0) return;
  const auto length = static_cast<uint64_t>(blocks.length);
  const auto rows = static_cast<uint64_t>(blocks.count);
  const uint64_t pitch =
      (CeilDivide(length, kBlockBytes) + static_cast<uint64_t>(blocks.src_stride)) * kBlockBytes;
  instr.Carries(1);
  instr.Read(1, Rows{0, rows, length, pitch});
  const Rows to{0, rows, length, length + static_cast<uint64_t>(blocks.dst_stride)};
  StoreGlobal(&instr, 0, to, instr.Data<uint8_t>(1), pitch);
  if (instr.missing()) CarryStored(&instr, to, pitch);
}

void SetAtomic(AtomicOperation operation, const char* dtype, const Where& where) {
  Core& core = ThisCore("SetAtomic", where);
  core.registers.atomic = operation;
  core.registers.atomic_dtype = dtype;
  core.registers.atomic_where = where;
}

void SetAtomicDtype(const char* dtype, const Where& where) {
  Core& core = ThisCore("SetAtomicType", where);
  // The operation is a register of its own, addition unless another was set.
  if (core.registers.atomic == kAtomicNone) core.registers.atomic = kAtomicAdd;
  core.registers.atomic_dtype = dtype;
  core.registers.atomic_where = where;
}

void SetPadValueBits(uint64_t bits, const Where& where) {
  Core& core = ThisCore("SetPadValue", where);
  core.registers.pad_value = bits;
  core.registers.pad_value_set = true;
}

void CheckPlainCopy(const AscendC::DataCopyEnhancedParams& params, const Where& where) {
  const AscendC::DataCopyEnhancedParams plain;
  if (params.deqScale == plain.deqScale && !params.isRelu && params.padMode == plain.padMode) {
    return;
  }
  Fail("DataCopy", where,
       "enhancedParams ask for a conversion, a ReLU or padding on the way, which dav-c220 does in "
       "Fixpipe and DataCopyPad");
}

}  // namespace twin
