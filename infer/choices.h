// Attributes that are one of a few words: an enumeration of them, whose values are the places in
// the list of names. Plain enough for the kernels' units.
#pragma once

#include <cstddef>

namespace nsa {

struct Choices {
  const char* const* names = nullptr;
  size_t count = 0;
};

// How the probabilities of compressed tokens become scores of blocks: as in CANN, or in the paper.
enum class Importance { kCann, kOverlap };
inline constexpr const char* kImportanceNames[] = {"cann", "overlap"};
constexpr Choices choices_of(Importance) { return {kImportanceNames, 2}; }

// Layouts of dense attention.
enum class InputLayout : int { kBSH, kSBH, kBSND, kBNSD, kTND };
inline constexpr const char* kInputLayoutNames[] = {"BSH", "SBH", "BSND", "BNSD", "TND"};
constexpr Choices choices_of(InputLayout) { return {kInputLayoutNames, 5}; }

// Layouts of queries of operators that read a cache.
enum class RowLayout { kTND, kBSND };
inline constexpr const char* kRowLayoutNames[] = {"TND", "BSND"};
constexpr Choices choices_of(RowLayout) { return {kRowLayoutNames, 2}; }

// Layouts of keys and values in a cache: pages of tokens of heads, or of heads of tokens.
enum class CacheLayout { kBNSD, kBSND };
inline constexpr const char* kCacheLayoutNames[] = {"BNSD", "BSND"};
constexpr Choices choices_of(CacheLayout) { return {kCacheLayoutNames, 2}; }

// Layouts of the operators that select tokens: batches, packed, and keys in pages.
enum class TokenLayout { kBSND, kTND };
inline constexpr const char* kTokenLayoutNames[] = {"BSND", "TND"};
constexpr Choices choices_of(TokenLayout) { return {kTokenLayoutNames, 2}; }
enum class KeyLayout { kBSND, kTND, kPaged };
inline constexpr const char* kKeyLayoutNames[] = {"BSND", "TND", "PA_BSND"};
constexpr Choices choices_of(KeyLayout) { return {kKeyLayoutNames, 3}; }

constexpr KeyLayout as_key_layout(TokenLayout layout) {
  return layout == TokenLayout::kTND ? KeyLayout::kTND : KeyLayout::kBSND;
}

// How a block of keys is scored by an indexer.
enum class BlockScore { kMax, kMean, kReluWeighted, kSoftmaxMax };
inline constexpr const char* kBlockScoreNames[] = {"max", "mean", "relu_weighted", "softmax_max"};
constexpr Choices choices_of(BlockScore) { return {kBlockScoreNames, 4}; }

// Dtypes of results, those that numbers are rounded to, and those of the operands of a product.
enum class FloatName { kFloat16, kBFloat16, kFloat32 };
inline constexpr const char* kFloatNames[] = {"float16", "bfloat16", "float32"};
constexpr Choices choices_of(FloatName) { return {kFloatNames, 3}; }
enum class HalfName { kFloat16, kBFloat16 };
constexpr Choices choices_of(HalfName) { return {kFloatNames, 2}; }
enum class OperandName { kBFloat16, kFloat32 };
constexpr Choices choices_of(OperandName) { return {kFloatNames + 1, 2}; }

template <class Choice>
constexpr const char* name_of(Choice choice) {
  return choices_of(choice).names[static_cast<int>(choice)];
}

}  // namespace nsa
