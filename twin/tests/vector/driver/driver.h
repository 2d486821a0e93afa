// Runs one vector API on an image of the unified buffer. The Python tests describe a call by the
// API's name, its data types, its form and a list of numbers.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel_operator.h"

namespace vector_test {

// How the mask is given, and in which mode the mask register is.
enum Form {
  kCount,           // n elements
  kMask,            // first lanes of every repeat
  kBits,            // bits
  kCounter,         // SetMaskCount, then the mask form with a number of elements
  kOutsideMask,     // SetVectorMask(lanes), isSetMask = false
  kOutsideBits,     // SetVectorMask(high, low), isSetMask = false
  kOutsideCounter,  // SetMaskCount, SetVectorMask<COUNTER>(n), isSetMask = false
};

struct Call {
  std::string api;
  std::vector<std::string> types;
  int form = kCount;
  uint64_t mask[2] = {0, 0};  // count, lanes, or bits (low, high)
  int64_t repeats = 1;
  std::vector<int64_t> args;
  int64_t* results = nullptr;  // [16]
  AscendC::LocalTensor<uint8_t> ub;

  // The tensor at a byte offset of the image.
  template <typename T>
  AscendC::LocalTensor<T> At(size_t index) const {
    return ub[static_cast<uint32_t>(args.at(index))].template ReinterpretCast<T>();
  }
  template <typename T>
  T Bits(size_t index) const {
    T value;
    std::memcpy(static_cast<void*>(&value), &args.at(index), sizeof(value));
    return value;
  }
  int64_t operator[](size_t index) const { return args.at(index); }
};

using Runner = std::function<void(const Call&)>;
std::map<std::string, Runner>& Runners();

struct Register {
  Register(const char* api, Runner runner) { Runners()[api] = std::move(runner); }
};

// Calls f(T()) for the type of that name.
template <typename... T, typename F>
void WithType(const std::string& name, F f) {
  const bool found = ((name == twin::TypeName<T>() ? (f(T()), true) : false) || ...);
  if (!found) throw std::invalid_argument("no case for the type " + name);
}

// Calls f(mask, isSetMask) in the call's mode; f is generic over uint64_t and uint64_t*.
template <typename F>
void WithMask(const Call& call, F f) {
  uint64_t bits[2] = {call.mask[0], call.mask[1]};
  uint64_t* words = bits;
  switch (call.form) {
    case kMask:
      f(call.mask[0], std::true_type());
      break;
    case kBits:
      f(words, std::true_type());
      break;
    case kCounter:
      AscendC::SetMaskCount();
      f(call.mask[0], std::true_type());
      AscendC::SetMaskNorm();
      AscendC::ResetMask();
      break;
    case kOutsideMask:
      AscendC::SetMaskNorm();
      if (call.types.back() == "half" || call.types.back().find("16") != std::string::npos) {
        AscendC::SetVectorMask<half>(static_cast<int32_t>(call.mask[0]));
      } else {
        AscendC::SetVectorMask<float>(static_cast<int32_t>(call.mask[0]));
      }
      f(AscendC::MASK_PLACEHOLDER, std::false_type());
      AscendC::ResetMask();
      break;
    case kOutsideBits:
      AscendC::SetVectorMask<half, AscendC::MaskMode::NORMAL>(call.mask[1], call.mask[0]);
      f(AscendC::MASK_PLACEHOLDER, std::false_type());
      AscendC::ResetMask();
      break;
    case kOutsideCounter:
      AscendC::SetMaskCount();
      AscendC::SetVectorMask<half, AscendC::MaskMode::COUNTER>(static_cast<int32_t>(call.mask[0]));
      f(AscendC::MASK_PLACEHOLDER, std::false_type());
      AscendC::SetMaskNorm();
      AscendC::ResetMask();
      break;
    default:
      throw std::invalid_argument("a count is no mask");
  }
}

}  // namespace vector_test
