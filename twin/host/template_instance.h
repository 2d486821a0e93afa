// Kernels that are templates: the instances of a unit, worked out from its declarations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "kernel_operator.h"
#include "twin/host/template_values.h"

namespace twin {

template <uint32_t kKind, uint32_t kBits, uint64_t... words>
struct TemplateParam {
  static constexpr uint32_t kind = kKind;
  static constexpr uint32_t bits = kBits;
  static constexpr uint64_t list[] = {words...};
  static constexpr size_t size = sizeof...(words);
  static constexpr size_t choices = kind == kTemplateUint ? UintCount(list, size) : size;
  static constexpr uint64_t Value(size_t index) {
    return kind == kTemplateUint ? UintValue(list, size, index) : list[index];
  }
};

// The macros make these, by values, so that a list may end in a comma.
template <typename... P>
struct TemplateDeclared {
  constexpr TemplateDeclared(P...) {}
};
template <typename... P>
struct TemplateSelection {
  constexpr TemplateSelection(P...) {}
};
template <typename... S>
struct TemplateSelected {
  constexpr TemplateSelected(S...) {}
};

constexpr size_t kMostTemplateParams = 64;

// One combination of values.
struct TemplateChoice {
  uint64_t values[kMostTemplateParams] = {};
  size_t count = 0;
  uint64_t key = 0;
  int64_t kernel_type = -1;  // as ASCENDC_TPL_AIV_ONLY and so on, or -1
  bool deterministic = false;
  bool built = true;  // of this unit's dtypes
};

template <typename P>
constexpr void Choose(TemplateChoice& choice, size_t& index) {
  const uint64_t value = P::Value(index % P::choices);
  index /= P::choices;
  if (P::kind == kTemplateKernelType) {
    choice.kernel_type = static_cast<int64_t>(value);
  } else if (P::kind == kTemplateDeterministic) {
    choice.deterministic = value != 0;
  } else {
    if (P::kind == kTemplateSharedKernelType) choice.kernel_type = static_cast<int64_t>(value);
    choice.values[choice.count++] = value;
  }
}

template <typename P>
constexpr void Encode(TemplateChoice& choice, size_t& at, uint32_t& bits, const uint64_t* inputs,
                      const uint64_t* outputs) {
  constexpr uint64_t kInput = 100000000, kOutput = 900000000;
  const uint64_t value = choice.values[at++];
  uint64_t code = value;
  if (P::kind == kTemplateUint) {
    for (code = 0; code < P::choices && P::Value(code) != value; ++code) {
    }
  }
  // This unit has one value of a parameter that stands for the dtype of an argument.
  if (P::kind == kTemplateDtype && P::list[0] >= kOutput) {
    choice.built = choice.built && value == outputs[P::list[0] - kOutput];
  } else if (P::kind == kTemplateDtype && P::list[0] >= kInput) {
    choice.built = choice.built && value == inputs[P::list[0] - kInput];
  }
  choice.key |= code << bits;
  bits += P::bits;
}

template <typename... P>
constexpr size_t Combinations(const TemplateSelection<P...>*) {
  return (size_t{1} * ... * P::choices);
}
template <typename... S>
constexpr size_t Combinations(const TemplateSelected<S...>&) {
  return (size_t{0} + ... + Combinations(static_cast<const S*>(nullptr)));
}

template <typename... P>
constexpr bool Take(TemplateChoice& choice, size_t& index, const TemplateSelection<P...>* of) {
  const size_t here = Combinations(of);
  if (index >= here) {
    index -= here;
    return false;
  }
  (Choose<P>(choice, index), ...);
  return true;
}

// Combination `index` of all that are selected.
template <typename... P, typename... S>
constexpr TemplateChoice Combination(const TemplateDeclared<P...>&, const TemplateSelected<S...>&,
                                     size_t index, const uint64_t* inputs,
                                     const uint64_t* outputs) {
  TemplateChoice choice;
  (void)(Take(choice, index, static_cast<const S*>(nullptr)) || ...);
  size_t at = 0;
  uint32_t bits = 0;
  (Encode<P>(choice, at, bits, inputs, outputs), ...);
#ifndef DETERMINISTIC_MODE
  if (choice.deterministic) choice.built = false;
#endif
  return choice;
}

template <uint64_t dtype>
struct TypeFromId;
#define TWIN_TYPE_OF(id, name) \
  template <>                  \
  struct TypeFromId<id> {      \
    using type = name;         \
  };
TWIN_TYPE_OF(0, float)
TWIN_TYPE_OF(1, half)
TWIN_TYPE_OF(2, int8_t)
TWIN_TYPE_OF(3, int32_t)
TWIN_TYPE_OF(4, uint8_t)
TWIN_TYPE_OF(6, int16_t)
TWIN_TYPE_OF(7, uint16_t)
TWIN_TYPE_OF(8, uint32_t)
TWIN_TYPE_OF(9, int64_t)
TWIN_TYPE_OF(10, uint64_t)
TWIN_TYPE_OF(11, double)
TWIN_TYPE_OF(12, bool)
TWIN_TYPE_OF(27, bfloat16_t)
TWIN_TYPE_OF(29, AscendC::int4b_t)
#undef TWIN_TYPE_OF

inline void DeclareTemplateType(int64_t type) {
  switch (type) {
    case 0:
      return DeclareKernelType(KernelType::kAivOnly);
    case 1:
      return DeclareKernelType(KernelType::kAicOnly);
    case 4:
      return DeclareKernelType(KernelType::kMixAiv10);
    case 5:
      return DeclareKernelType(KernelType::kMixAic10);
    case 6:
      return DeclareKernelType(KernelType::kMixAic11);
    case 7:
      return DeclareKernelType(KernelType::kMixAic12);
    default:
      return;
  }
}

[[noreturn]] inline void NoCombination(uint64_t key) {
  Fail("the kernel", Here(),
       Format("tiling key %llu stands for no combination of ASCENDC_TPL_SEL",
              static_cast<unsigned long long>(key)));
}

}  // namespace twin
