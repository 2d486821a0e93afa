#include "infer/format.h"

#include <charconv>
#include <limits>

namespace nsa {

std::string format_shape(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += shape[i] < 0 ? "?" : std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string format_dtypes(DTypeSet set) {
  std::vector<const char*> names;
  for (int id = 0; id < 64; ++id) {
    if ((set >> id) & 1) names.push_back(dtype_name(static_cast<DType>(id)));
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string format_float(double value) {
  // Independent of the process's locale, whose decimal point printf takes.
  char text[32];
  constexpr int kDigits = 9;
  const std::to_chars_result end =
      std::to_chars(text, text + sizeof(text), value, std::chars_format::general, kDigits);
  return {text, end.ptr};
}

int64_t product(std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  bool unknown = false;
  for (int64_t factor : factors) {
    if (factor == 0) return 0;
    if (factor < 0) {
      unknown = true;
    } else if (result > std::numeric_limits<int64_t>::max() / factor) {
      result = std::numeric_limits<int64_t>::max();
    } else {
      result *= factor;
    }
  }
  return unknown ? kUnknownDim : result;
}

int64_t numel(const TensorDesc& desc) {
  if (!desc.known_rank) return kUnknownDim;
  int64_t count = 1;
  for (int64_t size : desc.shape) count = product({count, size});
  return count;
}

std::string format_range(int64_t value, int64_t min, int64_t max) {
  if (max != kNoMax) return "in [" + std::to_string(min) + ", " + std::to_string(max) + "]";
  return value < min ? ">= " + std::to_string(min) : "at most " + std::to_string(max);
}

std::string format_value(const Attrs::Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number) + " (int)";
  if (const auto* number = std::get_if<double>(&value)) return format_float(*number) + " (float)";
  return "'" + std::get<std::string>(value) + "' (str)";
}

}  // namespace nsa
