#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "twin/adv/softmax_run.h"
#include "twin/adv/softmax_tiling.h"
#include "twin/adv/work_space.h"
#include "twin/vector/cast.h"
#include "twin/vector/reduce_values.h"

namespace twin {
namespace {

using AscendC::SoftMaxShapeInfo;

constexpr uint32_t kFractal = 16;  // columns of a fractal in NZ layout

// The instruction calls its operands so.
enum Index { kDst, kSrc, kSum, kMax, kInSum, kInMax, kExpMax, kReduceMax, kTmp, kOperands };

float ToFloat(const uint8_t* element, uint32_t width) {
  if (width == 4) {
    float value;
    std::memcpy(&value, element, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, element, 2);
  return HalfBitsToFloat(bits);
}

void FromFloat(float value, uint8_t* element, uint32_t width) {
  if (width == 4) {
    std::memcpy(element, &value, 4);
    return;
  }
  const half rounded = CastOne<half>(value, CastScalar{RoundMode::CAST_RINT, true, 0});
  std::memcpy(element, &rounded, 2);
}

// 64 lanes take the columns in turn, their sums are added in a tree.
float RowSum(const float* values, uint32_t n) {
  float lanes[64] = {};
  bool active[64] = {};
  for (uint32_t i = 0; i < n; ++i) {
    lanes[i % 64] = active[i % 64] ? lanes[i % 64] + values[i] : values[i];
    active[i % 64] = true;
  }
  float sum = 0;
  TreeSum(lanes, active, 64, &sum);
  return sum;
}

class Softmax {
 public:
  Softmax(const SoftmaxCall& call, const SoftmaxOperands& operands)
      : call_(call),
        shape_(call.shape),
        instr_(call.name, PIPE_V, call.where, {operands.dst, operands.src}) {
    const Operand* all[kOperands] = {&operands.dst,     &operands.src,        &operands.sum,
                                     &operands.max,     &operands.in_sum,     &operands.in_max,
                                     &operands.exp_max, &operands.reduce_max, &operands.tmp};
    for (int i = 0; i < kOperands; ++i) {
      present_[i] = all[i]->local != nullptr;
      if (!present_[i]) continue;
      instr_.SetOperand(i, *all[i]);
      instr_.InMemory(i, {Hardware::UB});
      width_[i] = all[i]->element;
    }
    CheckShape();
    TakeWorkSpace(instr_, present_[kTmp] ? kTmp : -1, Space());
    CheckTmpApart();
  }

  void Run() {
    Declare();
    const uint32_t padded = shape_.srcK;
    std::vector<float> x(padded), other(padded);
    for (uint32_t row = 0; row < shape_.oriSrcM; ++row) {
      LoadRow(kSrc, row, &x);
      if (call_.kind == SoftmaxKind::kGradFront) {
        LoadRow(kInSum, row, &other);
        for (uint32_t c = 0; c < padded; ++c) x[c] *= other[c];
        StoreStat(kDst, row, RowSum(x.data(), shape_.oriSrcK));
        continue;
      }
      Normalise(row, &x);
    }
    if (instr_.missing()) Carry();
  }

 private:
  void CheckShape() {
    const uint32_t per_block = kBlockBytes / width_[kSrc];
    instr_.Check(shape_.srcM != 0 && shape_.srcK != 0,
                 "softmaxShapeInfo is empty and srcTensor has no shape");
    instr_.Check(shape_.srcK % per_block == 0,
                 "srcK is %u, rows have to fill blocks of 32 bytes: a multiple of %u", shape_.srcK,
                 per_block);
    instr_.Check(shape_.oriSrcM <= shape_.srcM && shape_.oriSrcK <= shape_.srcK &&
                     shape_.oriSrcM != 0 && shape_.oriSrcK != 0,
                 "oriSrcM and oriSrcK are %u and %u, they have to be 1 to srcM and srcK, %u and %u",
                 shape_.oriSrcM, shape_.oriSrcK, shape_.srcM, shape_.srcK);
    instr_.Check(!call_.nz || shape_.srcK % kFractal == 0,
                 "srcK is %u, the NZ layout needs a multiple of 16", shape_.srcK);
    const bool fits = call_.tiling.srcM == shape_.srcM && call_.tiling.srcK == shape_.srcK;
    instr_.Check(
        fits || call_.check_tiling,
        "the tiling is for %u rows of %u, the shape is %u rows of %u, and isCheckTiling is "
        "off",
        call_.tiling.srcM, call_.tiling.srcK, shape_.srcM, shape_.srcK);
    instr_.Check(!fits || call_.tiling.reduceM != 0,
                 "the tiling has no rows in a pass: its temporary space was too small");
  }

  // Bytes of temporary space: of the tiling's pass, or of one row when the tiling does not fit.
  uint64_t Space() const {
    const uint32_t k = shape_.srcK;
    const uint32_t stat = width_[kMax] != 0     ? width_[kMax]
                          : width_[kInMax] != 0 ? width_[kInMax]
                                                : width_[kSrc];
    uint32_t row = SoftmaxRowSpace(k, stat);
    if (call_.kind == SoftmaxKind::kGradFront) row = GradRowSpace(k, width_[kSrc], true);
    if (call_.kind == SoftmaxKind::kFlash || call_.kind == SoftmaxKind::kFlashUpdate) {
      row =
          FlashRowSpace(k, width_[kSrc], stat, FlashBasicBlock(shape_.srcM, k, call_.basic_block));
    }
    const bool fits = call_.tiling.srcM == shape_.srcM && call_.tiling.srcK == k;
    return sizeof(float) * static_cast<uint64_t>(row) * (fits ? call_.tiling.reduceM : 1);
  }

  void CheckTmpApart() {
    if (!present_[kTmp]) return;
    const Bytes tmp{0, Space()};
    for (int i = 0; i < kTmp; ++i) {
      if (!present_[i]) continue;
      const bool data = i == kSrc || (i == kDst && call_.kind != SoftmaxKind::kGradFront) ||
                        (i == kInSum && call_.kind == SoftmaxKind::kGradFront);
      instr_.CheckDisjoint(i, data ? DataBytes(i) : StatBytes(i), kTmp, tmp);
    }
  }

  Bytes DataBytes(int operand) const {
    const uint64_t rows = call_.nz ? shape_.srcM : shape_.oriSrcM;
    return {0, rows * shape_.srcK * width_[operand]};
  }
  Bytes StatBytes(int operand) const {
    return {0, shape_.oriSrcM *
                   static_cast<uint64_t>(call_.one_per_row ? width_[operand] : kBlockBytes)};
  }
  // All columns of the rows, padding included: it takes part in the arithmetic.
  void DeclareData(int operand, bool write) {
    Rows rows{0, 1, DataBytes(operand).count, 0};
    if (call_.nz) {
      const uint64_t width = kFractal * width_[operand];
      rows = {0, shape_.srcK / kFractal, shape_.oriSrcM * width, shape_.srcM * width};
    }
    write ? instr_.Write(operand, rows) : instr_.Read(operand, rows);
  }
  void Declare() {
    for (int i : {kSrc, kInSum, kInMax}) instr_.Carries(i);
    const bool grad = call_.kind == SoftmaxKind::kGradFront;
    DeclareData(kSrc, false);
    if (grad) DeclareData(kInSum, false);
    for (int i : {kInSum, kInMax}) {
      if (present_[i] && !(grad && i == kInSum)) instr_.Read(i, StatBytes(i));
    }
    if (grad) {
      instr_.Write(kDst, StatBytes(kDst));
    } else {
      DeclareData(kDst, true);
    }
    for (int i : {kSum, kMax, kExpMax, kReduceMax}) {
      if (present_[i]) instr_.Write(i, StatBytes(i));
    }
    const uint64_t elements = uint64_t{shape_.oriSrcM} * shape_.srcK;
    instr_.CountRepeats((elements + 63) / 64);
  }

  uint64_t At(uint32_t row, uint32_t column) const {
    if (!call_.nz) return uint64_t{row} * shape_.srcK + column;
    return uint64_t{column / kFractal} * shape_.srcM * kFractal + uint64_t{row} * kFractal +
           column % kFractal;
  }
  void LoadRow(int operand, uint32_t row, std::vector<float>* values) const {
    const uint8_t* data = instr_.Data<uint8_t>(operand);
    for (uint32_t c = 0; c < shape_.srcK; ++c) {
      (*values)[c] = ToFloat(data + At(row, c) * width_[operand], width_[operand]);
    }
  }
  float LoadStat(int operand, uint32_t row) const {
    const uint64_t pitch = call_.one_per_row ? width_[operand] : kBlockBytes;
    return ToFloat(instr_.Data<uint8_t>(operand) + row * pitch, width_[operand]);
  }
  void StoreStat(int operand, uint32_t row, float value) const {
    if (!present_[operand]) return;
    const uint32_t width = width_[operand];
    const uint32_t copies = call_.one_per_row ? 1 : kBlockBytes / width;
    uint8_t* data = instr_.Data<uint8_t>(operand) + uint64_t{row} * copies * width;
    for (uint32_t i = 0; i < copies; ++i) FromFloat(value, data + i * width, width);
  }

  // The row becomes exp(x - max), divided by the sum but for the flash forms.
  void Normalise(uint32_t row, std::vector<float>* x) {
    const bool simple = call_.kind == SoftmaxKind::kSimple;
    const bool update = call_.kind == SoftmaxKind::kFlashUpdate;
    float max;
    if (simple) {
      max = LoadStat(kInMax, row);
    } else {
      max = *std::max_element(x->begin(), x->begin() + shape_.oriSrcK);
      StoreStat(kReduceMax, row, max);
    }
    float correction = 0;
    if (update) {
      const float before = LoadStat(kInMax, row);
      max = std::max(before, max);
      correction = Exp(before - max);
    }
    for (float& value : *x) value = Exp(value - max);
    float sum = simple ? LoadStat(kInSum, row) : RowSum(x->data(), shape_.oriSrcK);
    if (update) {
      const float carried = correction * LoadStat(kInSum, row);
      sum = carried + sum;
    }
    const bool divide = simple || call_.kind == SoftmaxKind::kSoftmax;
    uint8_t* dst = instr_.Data<uint8_t>(kDst);
    for (uint32_t c = 0; c < shape_.srcK; ++c) {
      const float value = divide ? (*x)[c] / sum : (*x)[c];
      FromFloat(value, dst + At(row, c) * width_[kDst], width_[kDst]);
    }
    StoreStat(kSum, row, sum);
    StoreStat(kMax, row, max);
    StoreStat(kExpMax, row, correction);
  }
  // A statistic depends on all columns of its row but the padding, an element on itself and on its
  // row's statistics.
  void Carry() {
    const bool grad = call_.kind == SoftmaxKind::kGradFront;
    instr_.OnImages([&] {
      for (uint32_t row = 0; row < shape_.oriSrcM; ++row) {
        std::vector<bool> lacking(shape_.srcK);
        for (uint32_t c = 0; c < shape_.srcK; ++c) {
          lacking[c] = DataLacks(kSrc, row, c) || (grad && DataLacks(kInSum, row, c));
        }
        bool lacks = std::find(lacking.begin(), lacking.begin() + shape_.oriSrcK, true) !=
                     lacking.begin() + shape_.oriSrcK;
        for (int i : {kInSum, kInMax}) {
          if (present_[i] && !grad) lacks |= Lacks(StatImage(i, row), width_[i]);
        }
        for (uint32_t c = 0; c < shape_.srcK && !grad; ++c) {
          SetLacks(instr_.Data<uint8_t>(kDst) + At(row, c) * width_[kDst], width_[kDst],
                   lacks || lacking[c]);
        }
        for (int i : {kSum, kMax, kExpMax, kReduceMax}) {
          if (present_[i]) SetLacks(StatImage(i, row), StatPitch(i), lacks);
        }
        if (grad) SetLacks(StatImage(kDst, row), StatPitch(kDst), lacks);
      }
    });
  }
  bool DataLacks(int operand, uint32_t row, uint32_t column) const {
    const uint32_t width = width_[operand];
    return Lacks(instr_.Data<uint8_t>(operand) + At(row, column) * width, width);
  }
  uint64_t StatPitch(int operand) const {
    return call_.one_per_row ? width_[operand] : kBlockBytes;
  }
  uint8_t* StatImage(int operand, uint32_t row) const {
    return instr_.Data<uint8_t>(operand) + row * StatPitch(operand);
  }
  static float Exp(float value) { return static_cast<float>(std::exp(static_cast<double>(value))); }

  const SoftmaxCall& call_;
  const SoftMaxShapeInfo shape_;
  Instr instr_;
  bool present_[kOperands] = {};
  uint32_t width_[kOperands] = {};
};

}  // namespace

void RunSoftmax(const SoftmaxCall& call, const SoftmaxOperands& operands) {
  EnterLibrary(call.name, call.where);
  Softmax(call, operands).Run();
}

}  // namespace twin
