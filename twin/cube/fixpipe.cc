#include "twin/cube/fixpipe.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "twin/cube/fixpipe_value.h"
#include "twin/cube/fractal.h"
#include "twin/device/launch_state.h"
#include "twin/device/sync.h"

namespace twin {
namespace {

using AscendC::FixpipeParamsV220;

constexpr int kDst = 0, kSrc = 1, kFactors = 2;

const char* const kQuantNames[] = {"NoQuant",     "F322F16",      "F322BF16", "DEQF16", "VDEQF16",
                                   "QF322B8_PRE", "VQF322B8_PRE", "REQ8",     "VREQ8"};

QuantMode_t ExpectedMode(const Operand& dst, const Operand& src, bool with_factors) {
  if (std::strcmp(dst.dtype, src.dtype) == 0) return QuantMode_t::NoQuant;
  if (std::strcmp(src.dtype, "int32_t") == 0) {
    return with_factors ? QuantMode_t::VDEQF16 : QuantMode_t::DEQF16;
  }
  return std::strcmp(dst.dtype, "half") == 0 ? QuantMode_t::F322F16 : QuantMode_t::F322BF16;
}

void CheckArguments(Instr* instr, const FixpipeParamsV220& p, bool to_nd, bool to_l1) {
  CheckField(*instr, "nSize", p.nSize.wide(), 0, 4095);
  CheckField(*instr, "mSize", p.mSize.wide(), 0, to_nd ? 8192 : 65535);
  CheckField(*instr, "srcStride", p.srcStride.wide(), 0, 65535);
  CheckField(*instr, "dstStride", p.dstStride.wide(), 0, 0xffffffff);
  CheckField(*instr, "ndNum", p.ndNum.wide(), 0, 65535);
  instr->Check(p.dstStride != 0, "dstStride is 0, expected at least 1");
  const int64_t flag = p.unitFlag.wide();
  instr->Check(flag == 0 || flag == 2 || flag == 3, "unitFlag is %lld, expected 0, 2 or 3",
               static_cast<long long>(flag));
  if (p.ndNum > 1) {
    CheckField(*instr, "srcNdStride", p.srcNdStride.wide(), 1, 512);
    CheckField(*instr, "dstNdStride", p.dstNdStride.wide(), 1, 65535);
  }
  if (p.isChannelSplit) {
    instr->Check(!to_nd && !to_l1 && std::strcmp(instr->operand(kDst).dtype, "float") == 0,
                 "isChannelSplit takes float to GM with CFG_NZ");
    instr->Check(flag == 0, "isChannelSplit and unitFlag exclude each other");
  }
  const unsigned columns = p.isChannelSplit ? 8 : 16;
  instr->Check(to_nd || p.nSize % columns == 0,
               "nSize is %u, expected a multiple of %u with CFG_NZ", static_cast<unsigned>(p.nSize),
               columns);
  instr->InMemory(kSrc, {Hardware::L0C});
  if (to_l1) instr->InMemory(kDst, {Hardware::L1});
}

void CheckMode(Instr* instr, const FixpipeParamsV220& p, bool with_factors) {
  const QuantMode_t expected =
      ExpectedMode(instr->operand(kDst), instr->operand(kSrc), with_factors);
  const int given = static_cast<int>(p.quantPre);
  instr->Check(given >= 0 && given < 9, "quantPre is %d, which is no QuantMode_t", given);
  instr->Check(p.quantPre == expected, "quantPre is %s, %s to %s%s takes %s", kQuantNames[given],
               instr->operand(kSrc).dtype, instr->operand(kDst).dtype,
               with_factors ? " with cbufWorkspace" : "", kQuantNames[static_cast<int>(expected)]);
  instr->Check(!with_factors || p.quantPre == QuantMode_t::VDEQF16,
               "cbufWorkspace is only for VDEQF16, quantPre is %s", kQuantNames[given]);
}

// A matrix [rows, columns] in L0C from byte `begin` of src on, `pitch` bytes between column blocks.
struct Source {
  uint64_t begin, rows, columns, pitch;
  uint64_t defined;  // columns that hold a value
};

// The last column block of a result is written whole, its surplus columns with nothing to rely on.
// An output in NZ has them too.
uint64_t DefinedColumns(const Instr& instr, const Source& s, bool to_nd) {
  const uint64_t last = (s.columns - 1) / 16;
  if (to_nd) return s.columns;
  const LocalView& view = *instr.operand(kSrc).local;
  const uint64_t at = view.address + s.begin + last * s.pitch;
  if (at + kResultRowBytes > MemoryBytes(Hardware::L0C)) return s.columns;
  const Shadow& shadow = UseMemory(instr.core(), Hardware::L0C).shadow;
  uint64_t columns = s.columns - last * 16;
  while (columns > 1 && shadow.Unwritten(at + (columns - 1) * 4, 4) > 0) --columns;
  return last * 16 + columns;
}

void ReadSource(Instr* instr, const Source& s) {
  const uint64_t whole = s.defined / 16, tail = s.defined % 16;
  for (uint64_t block = 0; block < whole; ++block) {
    instr->Read(kSrc, Bytes{s.begin + block * s.pitch, s.rows * kResultRowBytes}, kResultRowBytes);
  }
  if (tail > 0) {
    instr->Read(kSrc, Rows{s.begin + whole * s.pitch, s.rows, tail * 4, kResultRowBytes},
                kResultRowBytes);
  }
}

void CheckTargetsApart(const Instr& instr, const FixpipeParamsV220& p, bool to_nd,
                       uint64_t element) {
  if (!to_nd) {
    const uint64_t columns = p.isChannelSplit ? 8 : 16;
    const uint64_t block = uint64_t{p.mSize} * columns * element;
    instr.Check(
        p.nSize <= columns || uint64_t{p.dstStride} * kBlockBytes >= block,
        "illegal overlap: dstStride is %u blocks of 32 bytes, a column block has %llu bytes",
        static_cast<unsigned>(p.dstStride), static_cast<unsigned long long>(block));
    return;
  }
  instr.Check(p.mSize <= 1 || p.dstStride >= p.nSize,
              "illegal overlap: dstStride is %u elements, a row has nSize %u",
              static_cast<unsigned>(p.dstStride), static_cast<unsigned>(p.nSize));
  if (p.ndNum <= 1) return;
  std::vector<uint64_t> starts;
  for (uint64_t matrix = 0; matrix < p.ndNum; ++matrix) {
    for (uint64_t row = 0; row < p.mSize; ++row) {
      starts.push_back(matrix * p.dstNdStride + row * p.dstStride);
    }
  }
  std::sort(starts.begin(), starts.end());
  for (size_t i = 1; i < starts.size(); ++i) {
    instr.Check(
        starts[i] - starts[i - 1] >= p.nSize,
        "illegal overlap: dstNdStride is %u elements, dstStride %u, and rows of nSize %u of "
        "two matrices meet",
        static_cast<unsigned>(p.dstNdStride), static_cast<unsigned>(p.dstStride),
        static_cast<unsigned>(p.nSize));
  }
}

// Marks the columns of dst without a value.
void Spoil(Instr* instr, const Rows& rows) {
  const Operand& dst = instr->operand(kDst);
  for (uint64_t row = 0; row < rows.rows; ++row) {
    const uint64_t begin = rows.begin + row * rows.pitch;
    if (dst.local != nullptr) {
      instr->Scramble(kDst, {begin, rows.row_bytes});
      continue;
    }
    GlobalBuffer& buffer = *dst.global->buffer;
    if (!buffer.tracked) continue;
    const auto start = static_cast<uint64_t>(dst.global->address - buffer.address);
    buffer.shadow.MarkUnwritten(start + begin, rows.row_bytes);
  }
}

// Stores `rows` rows of `columns` elements, packed in `values`.
void Store(Instr* instr, const Rows& rows, const uint8_t* values) {
  if (instr->operand(kDst).global != nullptr) {
    StoreGlobal(instr, kDst, rows, values, rows.row_bytes);
    return;
  }
  instr->Write(kDst, rows);
  uint8_t* to = instr->Data<uint8_t>(kDst) + rows.begin;
  for (uint64_t row = 0; row < rows.rows; ++row) {
    std::memcpy(to + row * rows.pitch, values + row * rows.row_bytes, rows.row_bytes);
  }
}

// Columns [first, first + count) of all rows, converted and packed.
std::vector<uint8_t> Convert(const Instr& instr, const FixpipeValue& value, const Source& s,
                             uint64_t first, uint64_t count) {
  const uint64_t element = instr.operand(kDst).element;
  std::vector<uint8_t> result(s.rows * count * element);
  const uint8_t* from = instr.Data<uint8_t>(kSrc) + s.begin;
  uint8_t* to = result.data();
  for (uint64_t row = 0; row < s.rows; ++row) {
    for (uint64_t column = first; column < first + count; ++column, to += element) {
      value.Convert(from + column / 16 * s.pitch + row * kResultRowBytes + column % 16 * 4, column,
                    to);
    }
  }
  return result;
}

// Like Convert and Store, for an element without a value.
void CarryStored(Instr* instr, const Rows& rows, const Source& s, uint64_t first, uint64_t count) {
  const uint64_t element = instr->operand(kDst).element;
  instr->OnImages([&] {
    const uint8_t* from = instr->Data<uint8_t>(kSrc) + s.begin;
    for (uint64_t row = 0; row < s.rows; ++row) {
      uint8_t* to = instr->Data<uint8_t>(kDst) + rows.begin + row * rows.pitch;
      for (uint64_t column = first; column < first + count; ++column, to += element) {
        const uint64_t at = column / 16 * s.pitch + row * kResultRowBytes + column % 16 * 4;
        SetLacks(to, element, Lacks(from + at, 4));
      }
    }
  });
}

void StoreMatrix(Instr* instr, const FixpipeValue& value, const Source& s, bool to_nd,
                 const FixpipeParamsV220& p, uint64_t begin) {
  const uint64_t element = instr->operand(kDst).element;
  if (to_nd) {
    const std::vector<uint8_t> values = Convert(*instr, value, s, 0, s.columns);
    const Rows rows{begin, s.rows, s.columns * element, p.dstStride * element};
    Store(instr, rows, values.data());
    if (instr->missing()) CarryStored(instr, rows, s, 0, s.columns);
    return;
  }
  const uint64_t columns = p.isChannelSplit ? 8 : 16;
  const uint64_t row_bytes = columns * element;
  for (uint64_t first = 0; first < s.columns; first += columns) {
    const std::vector<uint8_t> values = Convert(*instr, value, s, first, columns);
    const uint64_t at = begin + first / columns * p.dstStride * kBlockBytes;
    const Rows rows{at, s.rows, row_bytes, row_bytes};
    Store(instr, rows, values.data());
    if (instr->missing()) CarryStored(instr, rows, s, first, columns);
    if (first + columns > s.defined) {
      const uint64_t kept = s.defined > first ? s.defined - first : 0;
      Spoil(instr, Rows{at + kept * element, s.rows, row_bytes - kept * element, row_bytes});
    }
  }
}

void TakeSourceUnits(Instr* instr, const FixpipeParamsV220& p, const Source& s) {
  const LocalView& view = *instr->operand(kSrc).local;
  for (uint64_t block = 0; block < CeilDivide(s.columns, 16); ++block) {
    const uint64_t at = view.address + s.begin + block * s.pitch;
    const uint64_t first = at / kResultFractalBytes;
    const uint64_t end = CeilDivide(at + s.rows * kResultRowBytes, kResultFractalBytes);
    TakeUnits(instr, {first, end - first, 1, 0}, p.unitFlag.wide(), false);
  }
}

}  // namespace

void RunFixpipe(const FixpipeCall& call, const Operand& dst, const Operand& src,
                const FixpipeParamsV220& params, const Where& where) {
  const bool to_l1 = dst.local != nullptr, to_nd = call.to_nd;
  Core& core = ThisCore(call.name, where);
  if (!to_l1) MaySwitch(core);
  if (call.barrier && core.cube) Barrier(PIPE_FIX, where);
  Instr instr(call.name, PIPE_FIX, where, {dst, src});
  if (call.factors != nullptr) instr.SetOperand(kFactors, *call.factors);
  CheckArguments(&instr, params, to_nd, to_l1);
  CheckMode(&instr, params, call.factors != nullptr);
  if (params.nSize == 0 || params.mSize == 0 || (to_nd && params.ndNum == 0)) {
    instr.Warn("instruction without effect", "nSize, mSize or ndNum is 0");
    return;
  }
  if (!to_l1 && !to_nd && dst.global->buffer != nullptr) {
    instr.Check((dst.global->address - dst.global->buffer->address) % kBlockBytes == 0,
                "dst lies %lld bytes into its buffer; NZ needs a multiple of 32",
                static_cast<long long>(dst.global->address - dst.global->buffer->address));
  }
  FixpipeValue value = MakeFixpipeValue(instr, params);
  instr.ReadsCtrl();
  if (call.factors != nullptr) {
    instr.Read(kFactors, Bytes{0, uint64_t{params.nSize} * 8});
    value.factors = instr.Data<uint8_t>(kFactors);
  }
  const uint64_t matrices = to_nd ? uint64_t{params.ndNum} : 1;
  std::vector<Source> sources;
  for (uint64_t i = 0; i < matrices; ++i) {
    Source s{i * params.srcNdStride * kResultFractalBytes, params.mSize, params.nSize,
             params.srcStride * kResultRowBytes, 0};
    s.defined = DefinedColumns(instr, s, to_nd);
    TakeSourceUnits(&instr, params, s);
    sources.push_back(s);
  }
  instr.Carries(kSrc);
  for (const Source& s : sources) ReadSource(&instr, s);
  CheckTargetsApart(instr, params, to_nd, dst.element);
  for (uint64_t i = 0; i < matrices; ++i) {
    StoreMatrix(&instr, value, sources[i], to_nd, params, i * params.dstNdStride * dst.element);
  }
  instr.CountRepeats(matrices * CeilDivide(params.mSize, 16) * CeilDivide(params.nSize, 16));
}

}  // namespace twin
