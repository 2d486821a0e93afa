#include "twin/cube/mmad.h"

#include <vector>

#include "twin/cube/fractal.h"
#include "twin/cube/mmad_math.h"
#include "twin/device/saturation.h"

namespace twin {
namespace {

using AscendC::MmadParams;

constexpr int kDst = 0, kFm = 1, kFilter = 2, kBias = 3;
// The hardware does not order Mmads on one tile of C that have fewer fractals than these.
constexpr uint64_t kOrderedFractals = 10;

// Sizes of one Mmad, in elements and fractals.
struct Shape {
  uint64_t m, n, k;
  uint64_t filter_k;    // rows of B, half of k in sparse products
  uint64_t c0;          // elements in 32 bytes
  uint64_t m1, n1, k1;  // fractals; k1 as A is laid out
  uint64_t tail_bytes;  // of the last, partial block of K; 0 when K fills its blocks
  uint64_t filter_tail_bytes;
  bool vector;  // m is 1: A is one row of K elements
  // Rows of A and columns of B with values: padding up to m and n may hold none, and then their
  // part of C holds none.
  uint64_t held_m, held_n;
};

Shape ShapeOf(MmadType type, const MmadParams& params) {
  Shape s{};
  s.m = params.m;
  s.n = params.n;
  s.k = params.k;
  const uint64_t bits = ElementBits(type);
  s.c0 = 256 / bits;
  s.m1 = CeilDivide(s.m, kFractalRows);
  s.n1 = CeilDivide(s.n, kFractalRows);
  s.k1 = CeilDivide(s.k, s.c0);
  if (type == MmadType::kFloat && params.kDirectionAlign) s.k1 = 2 * CeilDivide(s.k, 16);
  s.filter_k = type == MmadType::kSparse ? s.k / 2 : s.k;
  s.tail_bytes = s.k % s.c0 * bits / 8;
  s.filter_tail_bytes = s.filter_k % s.c0 * bits / 8;
  s.vector = s.m == 1;
  return s;
}

void CheckArguments(Instr* instr, const MmadParams& params, MmadType type, bool with_bias) {
  CheckField(*instr, "m", params.m.wide(), 0, 4095);
  CheckField(*instr, "n", params.n.wide(), 0, 4095);
  CheckField(*instr, "k", params.k.wide(), 0, 4095);
  const int64_t flag = params.unitFlag.wide();
  instr->Check(flag == 0 || flag == 2 || flag == 3, "unitFlag is %lld, expected 0, 2 or 3",
               static_cast<long long>(flag));
  instr->Check(type != MmadType::kInt4 || params.k % 2 == 0,
               "k is %u, it has to be even with int4b_t", static_cast<unsigned>(params.k));
  instr->Check(type != MmadType::kSparse || params.k % 4 == 0,
               "k is %u, it has to be a multiple of 4: two of four elements take part",
               static_cast<unsigned>(params.k));
  instr->InMemory(kDst, {Hardware::L0C});
  instr->InMemory(kFm, {Hardware::L0A});
  instr->InMemory(kFilter, {Hardware::L0B});
  if (with_bias) instr->InMemory(kBias, {Hardware::BIAS});
}

// How many of `count` rows of 32 bytes hold a value in their first `bytes`, apart from those at the
// end; at least one.
template <typename At>
uint64_t HeldRows(const Instr& instr, int operand, uint64_t count, uint64_t bytes, At at) {
  const LocalView& view = *instr.operand(operand).local;
  const uint32_t wanted = ~0u >> (kBlockBytes - bytes);
  while (count > 1) {
    const uint64_t begin = at(count - 1);
    // Beyond the memory the read itself is what fails.
    if (view.address + begin >= MemoryBytes(view.memory())) return count;
    if (view.address % kBlockBytes != 0 || (instr.Held(operand, begin) & wanted) != 0) return count;
    --count;
  }
  return count;
}

void FindHeld(const Instr& instr, MmadType type, Shape* s) {
  const uint64_t bytes = CeilDivide(std::min(s->k, s->c0) * ElementBits(type), 8);
  s->held_m = HeldRows(instr, kFm, s->m, bytes, [&](uint64_t row) {
    return row / kFractalRows * s->k1 * kFractalBytes + row % kFractalRows * kBlockBytes;
  });
  const uint64_t filter_bytes = CeilDivide(std::min(s->filter_k, s->c0) * ElementBits(type), 8);
  s->held_n =
      HeldRows(instr, kFilter, s->n, filter_bytes, [](uint64_t row) { return row * kBlockBytes; });
}

void ReadA(Instr* instr, const Shape& s) {
  if (s.vector) {
    const uint64_t bytes = s.k / s.c0 * kBlockBytes + s.tail_bytes;
    instr->Read(kFm, Bytes{0, bytes}, kFractalBytes);
    return;
  }
  const uint64_t whole = s.k / s.c0;
  for (uint64_t block = 0; block * kFractalRows < s.held_m; ++block) {
    const uint64_t begin = block * s.k1 * kFractalBytes;
    const uint64_t rows = std::min(kFractalRows, s.held_m - block * kFractalRows);
    instr->Read(kFm, Rows{begin, whole, rows * kBlockBytes, kFractalBytes}, kFractalBytes);
    if (s.tail_bytes > 0) {
      instr->Read(kFm, Rows{begin + whole * kFractalBytes, rows, s.tail_bytes, kBlockBytes},
                  kFractalBytes);
    }
  }
}

void ReadB(Instr* instr, const Shape& s) {
  const uint64_t whole = s.filter_k / s.c0;
  const uint64_t pitch = s.n1 * kFractalBytes;
  instr->Read(kFilter, Rows{0, whole, s.held_n * kBlockBytes, pitch}, kFractalBytes);
  if (s.filter_tail_bytes > 0) {
    instr->Read(kFilter, Rows{whole * pitch, s.held_n, s.filter_tail_bytes, kBlockBytes},
                kFractalBytes);
  }
}

// Padding columns need no bias either.
void FindHeldBias(const Instr& instr, Shape* s) {
  const LocalView& view = *instr.operand(kBias).local;
  const uint64_t end = view.address + s->held_n * 4;
  if (end > MemoryBytes(Hardware::BIAS)) return;
  const Shadow& shadow = UseMemory(instr.core(), Hardware::BIAS).shadow;
  const auto held = [&](uint64_t column) {
    return shadow.Unwritten(view.address + column * 4, 4) == 0;
  };
  while (s->held_n > 1 && !held(s->held_n - 1)) --s->held_n;
}

// Bytes of C inside the shape: of whole column blocks, and of the last, partial one.
void ReadC(Instr* instr, const Shape& s) {
  const uint64_t pitch = s.m1 * kResultFractalBytes;
  const uint64_t whole = s.held_n / kFractalRows, tail = s.held_n % kFractalRows;
  instr->Read(kDst, Rows{0, whole, s.held_m * kResultRowBytes, pitch}, kResultFractalBytes);
  if (tail > 0) {
    instr->Read(kDst, Rows{whole * pitch, s.held_m, tail * 4, kResultRowBytes},
                kResultFractalBytes);
  }
}

// Whole fractals are written; what lies outside the shape is of no use to anybody.
void WriteC(Instr* instr, const Shape& s) {
  const uint64_t pitch = s.m1 * kResultFractalBytes;
  instr->Write(kDst, Bytes{0, s.n1 * pitch}, kResultFractalBytes);
  const uint64_t used = s.held_m * kResultRowBytes;
  const uint64_t held_blocks = CeilDivide(s.held_n, kFractalRows);
  for (uint64_t block = 0; block < s.n1; ++block) {
    const uint64_t kept = block < held_blocks ? used : 0;
    if (kept < pitch) instr->Scramble(kDst, {block * pitch + kept, pitch - kept});
  }
  const uint64_t tail = s.held_n % kFractalRows * 4;
  for (uint64_t row = 0; row < s.held_m && tail > 0; ++row) {
    instr->Scramble(
        kDst, {(held_blocks - 1) * pitch + row * kResultRowBytes + tail, kResultRowBytes - tail});
  }
}

// Mmads follow each other on the tile of C without a barrier when they are long enough.
void OrderAfterEarlier(Instr* instr, const Shape& s) {
  Core& core = instr->core();
  CubeState& state = CubeStateOf(core);
  const int m = PipeIndex(PIPE_M);
  if (core.seen[m][m] >= state.first_small) state.first_small = 0;
  const bool small = (s.m / 16) * (s.n / 16) < kOrderedFractals;
  if (small) {
    if (state.first_small == 0) state.first_small = instr->seq();
    return;
  }
  instr->KnowComplete(PIPE_M, (state.first_small == 0 ? instr->seq() : state.first_small) - 1);
}

// The rows of B where the index says: of every four elements of K the first number is the place of
// the first row, the second that of the second, counted from the second element on.
template <typename At>
void Spread(const Instr& instr, const Shape& s, const uint8_t* b, At b_at, MmadArrays* arrays) {
  const CubeState& state = CubeStateOf(instr.core());
  const uint64_t first = instr.operand(kFilter).local->address / kFractalBytes;
  for (uint64_t column = 0; column < arrays->n; ++column) {
    for (uint64_t row = 0; row < s.filter_k; row += 2) {
      const uint64_t fractal = first + b_at(row, column) / 8 / kFractalBytes;
      instr.Check(fractal < state.sparse_index.size() && state.sparse_index[fractal].set,
                  "no LoadDataWithSparse has loaded the index of fractal %llu of L0B",
                  static_cast<unsigned long long>(fractal));
      const uint8_t* const index =
          state.sparse_index[fractal].bytes + column % kFractalRows * kBlockBytes / 4;
      const uint64_t bit = row % s.c0 * 2;
      const uint32_t pair = index[bit / 8] >> bit % 8 & 15;
      const uint32_t x = pair & 3, y = pair >> 2;
      instr.Check(x < 3 && y < 3,
                  "the index of row %llu, column %llu of filter is %u, %u; each is "
                  "0, 1 or 2",
                  static_cast<unsigned long long>(row), static_cast<unsigned long long>(column), x,
                  y);
      const auto put = [&](uint64_t place, uint64_t from) {
        const uint64_t i = (column / 16 * arrays->k + 2 * row + place) * 16 + column % 16;
        arrays->b_whole[i] += WholeAt(MmadType::kInt8, b, b_at(from, column));
      };
      put(x, row);
      put(std::max(x, y + 1), row + 1);
    }
  }
}

// Where an element lies, in bits from the start of its operand.
uint64_t BitOfA(MmadType type, const Shape& s, uint64_t row, uint64_t k) {
  const uint64_t element_bits = ElementBits(type);
  if (s.vector) return k * element_bits;
  const uint64_t fractal = row / kFractalRows * s.k1 + k / s.c0;
  return 8 * (fractal * kFractalBytes + row % kFractalRows * kBlockBytes) + k % s.c0 * element_bits;
}
uint64_t BitOfB(MmadType type, const Shape& s, uint64_t k, uint64_t column) {
  const uint64_t fractal = k / s.c0 * s.n1 + column / kFractalRows;
  return 8 * (fractal * kFractalBytes + column % kFractalRows * kBlockBytes) +
         k % s.c0 * ElementBits(type);
}

// An element of C holds no value where its row of A, its column of B or what it starts from lacks
// one. `start` is the operand of that, or negative.
void CarryProduct(Instr* instr, MmadType type, const Shape& s, int start) {
  instr->OnImages([&] {
    const uint64_t width = CeilDivide(ElementBits(type), 8);
    const uint8_t* const a = instr->Data<uint8_t>(kFm);
    const uint8_t* const b = instr->Data<uint8_t>(kFilter);
    std::vector<bool> rows(s.held_m), columns(s.held_n);
    for (uint64_t row = 0; row < s.held_m; ++row) {
      for (uint64_t k = 0; k < s.k && !rows[row]; ++k) {
        rows[row] = Lacks(a + BitOfA(type, s, row, k) / 8, width);
      }
    }
    for (uint64_t column = 0; column < s.held_n; ++column) {
      for (uint64_t k = 0; k < s.filter_k && !columns[column]; ++k) {
        columns[column] = Lacks(b + BitOfB(type, s, k, column) / 8, width);
      }
    }
    uint8_t* const c = instr->Data<uint8_t>(kDst);
    const uint8_t* const from = start < 0 ? nullptr : instr->Data<uint8_t>(start);
    for (uint64_t row = 0; row < s.held_m; ++row) {
      for (uint64_t column = 0; column < s.held_n; ++column) {
        const uint64_t at = column / kFractalRows * s.m1 * kResultFractalBytes +
                            row * kResultRowBytes + column % kFractalRows * 4;
        const bool lacks = start >= 0 && Lacks(from + (start == kBias ? 4 * column : at), 4);
        SetLacks(c + at, 4, lacks || rows[row] || columns[column]);
      }
    }
  });
}

MmadArrays Gather(const Instr& instr, MmadType type, const Shape& s) {
  MmadArrays arrays;
  arrays.m = s.held_m;
  arrays.n = s.held_n;
  arrays.k = s.k;
  arrays.c_rows = s.m1 * kFractalRows;
  arrays.c0 = s.c0;
  const uint8_t* a = instr.Data<uint8_t>(kFm);
  const uint8_t* b = instr.Data<uint8_t>(kFilter);
  const auto a_at = [&](uint64_t row, uint64_t k) { return BitOfA(type, s, row, k); };
  const auto b_at = [&](uint64_t k, uint64_t column) { return BitOfB(type, s, k, column); };
  LoadOperands(&arrays, type, a, b, a_at, b_at);
  if (type == MmadType::kSparse) Spread(instr, s, b, b_at, &arrays);
  return arrays;
}

}  // namespace

void RunMmad(MmadType type, const Operand& dst, const Operand& fm, const Operand& filter,
             const Operand* bias, const MmadParams& params, const Where& where) {
  const char* const name = type == MmadType::kSparse ? "MmadWithSparse" : "Mmad";
  Instr instr(name, PIPE_M, where, {dst, fm, filter});
  if (bias != nullptr) instr.SetOperand(kBias, *bias);
  CheckArguments(&instr, params, type, bias != nullptr);
  Shape s = ShapeOf(type, params);
  if (s.m == 0 || s.n == 0 || s.k == 0) {
    instr.Warn("instruction without effect", "m, n or k is 0");
    return;
  }
  // isBias is a field of the form without a bias tensor.
  const bool zero = params.cmatrixInitVal && (bias != nullptr || !params.isBias);
  const bool table = bias != nullptr || (params.cmatrixSource && !zero);
  instr.Check(
      bias == nullptr || !zero,
      "cmatrixInitVal is true, so C starts from 0 and bias has no effect; with a bias it is "
      "false");
  const UnitRange units{dst.local->address / kResultFractalBytes, s.m1, s.n1, s.m1};
  TakeUnits(&instr, units, params.unitFlag.wide(), true);
  OrderAfterEarlier(&instr, s);
  instr.ReadsCtrl();

  LocalView table_view;
  if (table && bias == nullptr) {
    // Without a tensor the bias lies at the start of the table.
    table_view.position = AscendC::TPosition::C2;
    table_view.bytes = MemoryBytes(Hardware::BIAS);
    instr.SetOperand(kBias, Operand("bias", dst.dtype, 4, table_view));
  }
  FindHeld(instr, type, &s);
  if (table) FindHeldBias(instr, &s);
  for (int operand : {kDst, kFm, kFilter, kBias}) instr.Carries(operand);
  ReadA(&instr, s);
  ReadB(&instr, s);
  if (table) {
    instr.Read(kBias, Bytes{0, s.held_n * 4}, 128);
  } else if (!zero) {
    ReadC(&instr, s);
  }
  WriteC(&instr, s);
  instr.CountRepeats(s.m1 * s.n1 * CeilDivide(s.k, s.c0));

  const MmadArrays arrays = Gather(instr, type, s);
  if (arrays.nan && !instr.missing()) {
    instr.Warn("NaN given to Mmad", "an element of fm or filter is NaN, which CANN says to avoid");
  }
  const MmadStart from{zero ? nullptr : instr.Data<uint8_t>(table ? kBias : kDst), table};
  const bool saturate = FloatSaturates(instr.core());
  Multiply(arrays, from, saturate, instr.Data<uint8_t>(kDst));
  if (instr.missing()) CarryProduct(&instr, type, s, zero ? -1 : table ? kBias : kDst);
}

}  // namespace twin
