// Numbers that environment variables give.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>

namespace twin {

// The variable's number, nothing where it is unset or empty. Throws std::invalid_argument for a
// text that is no number in that range.
inline std::optional<uint64_t> EnvironmentNumber(const char* variable, uint64_t least,
                                                 uint64_t most) {
  const char* text = std::getenv(variable);
  if (text == nullptr || text[0] == '\0') return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < least ||
      value > most) {
    throw std::invalid_argument(std::string(variable) + " must be a number from " +
                                std::to_string(least) + " to " + std::to_string(most) + ", got '" +
                                text + "'");
  }
  return value;
}

}  // namespace twin
