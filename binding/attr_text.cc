#include "binding/attr_text.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace nsa {

namespace {

[[noreturn]] void malformed(std::string_view item) {
  throw std::invalid_argument("malformed operator attribute '" + std::string(item) + "'");
}

Attrs::Value parse_value(std::string_view item, char type, const std::string& text) {
  char* end = nullptr;
  switch (type) {
    case 'i': {
      const int64_t value = std::strtoll(text.c_str(), &end, 10);
      if (end == text.c_str() || *end != '\0') malformed(item);
      return value;
    }
    case 'f': {
      const double value = std::strtod(text.c_str(), &end);
      if (end == text.c_str() || *end != '\0') malformed(item);
      return value;
    }
    case 's':
      return text;
    default:
      malformed(item);
  }
}

}  // namespace

Attrs parse_attrs(std::string_view text) {
  Attrs attrs;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(';'));
    text.remove_prefix(item.size() == text.size() ? item.size() : item.size() + 1);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals + 1 == item.size()) malformed(item);
    attrs.set(item.substr(0, equals),
              parse_value(item, item[equals + 1], std::string(item.substr(equals + 2))));
  }
  return attrs;
}

}  // namespace nsa
