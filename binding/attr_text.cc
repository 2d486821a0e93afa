#include "binding/attr_text.h"

#include <charconv>
#include <stdexcept>
#include <string>
#include <system_error>

namespace nsa {

namespace {

[[noreturn]] void malformed(std::string_view item) {
  throw std::invalid_argument("malformed operator attribute '" + std::string(item) + "'");
}

// Independent of the process's locale, whose decimal point strtod() takes.
template <class Number>
Number parse_number(std::string_view item, std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const std::from_chars_result parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) malformed(item);
  return value;
}

Attrs::Value parse_value(std::string_view item, char type, std::string_view text) {
  switch (type) {
    case 'i':
      return parse_number<int64_t>(item, text);
    case 'f':
      return parse_number<double>(item, text);
    case 's':
      return std::string(text);
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
    attrs.set(item.substr(0, equals), parse_value(item, item[equals + 1], item.substr(equals + 2)));
  }
  return attrs;
}

}  // namespace nsa
