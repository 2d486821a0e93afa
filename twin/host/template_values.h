// The values of a template parameter as its macro is written: ASCENDC_TPL_UI_RANGE, the number of
// ranges and their ends; ASCENDC_TPL_UI_LIST and numbers; ASCENDC_TPL_UI_MIX, ranges, numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twin {

enum TemplateKind : uint32_t {
  kTemplateDtype = 0,
  kTemplateFormat = 1,
  kTemplateUint = 2,
  kTemplateBool = 3,
  kTemplateKernelType = 4,
  kTemplateDeterministic = 5,
  kTemplateSharedKernelType = 6,
};

// Where the numbers behind the ranges begin.
constexpr size_t UintNumbers(const uint64_t* words, size_t size) {
  return size == 0 || words[0] == 1 ? 1 : 2 + 2 * words[1];
}

constexpr size_t UintCount(const uint64_t* words, size_t size) {
  const size_t numbers = UintNumbers(words, size);
  size_t count = 0;
  for (size_t i = 2; i + 1 < numbers && i + 1 < size; i += 2) count += words[i + 1] - words[i] + 1;
  return size > numbers && words[0] != 0 ? count + size - numbers : count;
}

constexpr uint64_t UintValue(const uint64_t* words, size_t size, size_t index) {
  const size_t numbers = UintNumbers(words, size);
  for (size_t i = 2; i + 1 < numbers && i + 1 < size; i += 2) {
    const size_t count = words[i + 1] - words[i] + 1;
    if (index < count) return words[i] + index;
    index -= count;
  }
  return words[numbers + index];
}

}  // namespace twin
