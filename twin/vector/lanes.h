// How vector instructions go over their operands. An instruction runs in repeats of up to 256 bytes
// of its widest type; each repeat is eight data blocks, and a mask says which elements (lanes) of a
// repeat take part. The three forms of CANN's API differ only in where the mask comes from:
//
//   count      counter mode for the length of one instruction, operands contiguous
//   mask       the first lanes of each repeat
//   mask bits  one bit per lane
//
// With isSetMask = false the mask register is used as an earlier SetVectorMask left it.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "twin/device/core.h"
#include "twin/device/instr.h"
#include "twin/device/narrowed.h"

namespace twin {

// Registers::mask holds one of these.
enum MaskKind : uint8_t { kMaskEither = 0, kMaskLanes, kMaskCount };

struct MaskArgument {
  enum Form : uint8_t { kCount, kFirst, kBits };

  Form form;
  bool set;              // isSetMask
  int64_t value;         // elements (kCount), lanes (kFirst)
  const uint64_t* bits;  // [2] (kBits)
  int64_t repeats;

  static MaskArgument Count(int64_t elements, bool set = true) {
    return {kCount, set, elements, nullptr, 1};
  }
  template <typename T>
  static MaskArgument First(uint64_t lanes, const T& repeats, bool set) {
    return {kFirst, set, static_cast<int64_t>(lanes), nullptr, twin::Wide(repeats)};
  }
  template <typename T>
  static MaskArgument Bits(const uint64_t* bits, const T& repeats, bool set) {
    return {kBits, set, 0, bits, twin::Wide(repeats)};
  }
};

// An operand's blocks: strides in data blocks, and how they were named in the call.
struct Strides {
  int64_t block;
  int64_t repeat;
  const char* block_name;
  const char* repeat_name;
  int64_t block_limit = 65535;
  int64_t repeat_limit = 255;
};

// The first `count` bits, of 128.
void LanesToMask(uint64_t count, uint64_t mask[2]);

// The repeats that an instruction runs: `whole` of them under a mask, then, in counter mode, one
// more with the first `tail` lanes.
struct Plan {
  uint32_t lanes = 0;  // of a repeat
  uint64_t mask[2] = {0, 0};
  uint64_t whole = 0;
  uint32_t tail = 0;
  bool all = false;         // every lane of a whole repeat takes part
  bool contiguous = false;  // count form: strides are ignored

  uint64_t repeats() const { return whole + (tail != 0); }
  bool empty() const { return repeats() == 0 || (whole != 0 && (mask[0] | mask[1]) == 0); }
  bool active(uint32_t lane) const { return (mask[lane >> 6] >> (lane & 63)) & 1; }
};

// Checks mask and repeat, sets the mask register, and says what will run.
Plan MakePlan(const Instr& instr, const MaskArgument& mask, uint32_t lanes);
// After the count form the device is in normal mode with a full mask.
void EndPlan(const Instr& instr, const MaskArgument& mask);

void CheckStrides(const Instr& instr, const Strides& strides);

// One operand as the lanes of a plan. `width` is its element's bytes.
class LaneOperand {
 public:
  LaneOperand() = default;
  LaneOperand(const Instr& instr, int operand, uint32_t width, const Plan& plan,
              const Strides& strides, bool destination);

  void Read(Instr& instr) const;
  void Write(Instr& instr) const;
  // CANN's rule on addresses that overlap, towards a source of the same plan. It is a rule of the
  // forms with repeats: the count form warns, and then returns true.
  bool CheckOverlap(const Instr& instr, const LaneOperand& source) const;
  // Whether two repeats take part with the same byte.
  bool RepeatsMeet() const;
  // Every lane has one element of one tensor.
  bool SameAs(const LaneOperand& other) const;

  // Lanes of the operand's image; while Data leads there.
  LaneOperand OnImage(const Instr& instr) const {
    LaneOperand image = *this;
    image.base_ = instr.Data<uint8_t>(operand_);
    return image;
  }

  uint8_t* base() const { return base_; }
  uint64_t Offset(uint64_t repeat, uint32_t lane) const {
    return kBlockBytes * (repeat * repeat_ + (lane / per_block_) * static_cast<uint64_t>(block_)) +
           static_cast<uint64_t>(lane % per_block_) * width_;
  }
  uint8_t* At(uint64_t repeat, uint32_t lane) const { return base_ + Offset(repeat, lane); }
  uint32_t width() const { return width_; }
  uint32_t per_block() const { return per_block_; }
  bool dense_repeat() const { return block_ == 1; }
  bool dense() const { return dense_repeat() && repeat_ * kBlockBytes == lanes_ * width_; }
  uint64_t bytes() const { return plan_elements_ * width_; }

 private:
  Lanes Whole() const;
  Lanes Tail() const;

  int operand_ = -1;
  uint32_t width_ = 0;
  uint32_t per_block_ = 0;
  uint32_t lanes_ = 0;
  uint32_t block_ = 1;
  uint32_t repeat_ = 8;
  uint64_t plan_elements_ = 0;  // when every lane of every repeat takes part
  const Plan* plan_ = nullptr;
  uint8_t* base_ = nullptr;
};

// n consecutive elements of every operand; `b` and `scalar` may be unused.
using LaneFunction = void (*)(uint8_t* dst, const uint8_t* a, const uint8_t* b, uint64_t scalar,
                              size_t n);

// Repeat by repeat, each reading all its lanes before it writes: for operands that overlap.
void RunRepeats(const Plan& plan, const LaneOperand& dst, const LaneOperand* a,
                const LaneOperand* b, uint64_t scalar, LaneFunction function);
// Calls `function` over runs of consecutive lanes that take part.
void RunLanes(const Plan& plan, const LaneOperand& dst, const LaneOperand* a, const LaneOperand* b,
              uint64_t scalar, LaneFunction function);

// Like RunLanes, on images: an element of dst without a value for every element of a source, or of
// dst itself where it is read, that lacks a byte.
void CarryLanes(Instr& instr, const Plan& plan, const LaneOperand& dst, const LaneOperand* a,
                const LaneOperand* b, bool reads_dst, bool by_repeats);

// A selection between `src` and a constant, on images: element i of dst is that of src where
// `kept`.
void CarryKept(Instr& instr, int dst, int src, const std::vector<bool>& kept);

template <typename T>
uint64_t ScalarBits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}
template <typename T>
T FromScalarBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace twin
