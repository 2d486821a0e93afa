// A string that keeps its text whoever compiled the code at either end.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "graph/types.h"

namespace ge {

class AscendString {
 public:
  AscendString() = default;
  AscendString(const char_t* name) : AscendString(name, name == nullptr ? 0 : std::strlen(name)) {}
  AscendString(const char_t* name, size_t length) {
    if (name != nullptr) text_ = std::make_shared<std::string>(name, length);
  }

  const char_t* GetString() const { return text_ == nullptr ? "" : text_->c_str(); }
  size_t GetLength() const { return text_ == nullptr ? 0 : text_->size(); }
  size_t Hash() const { return std::hash<std::string>()(GetString()); }

  bool operator<(const AscendString& other) const { return Compare(other.GetString()) < 0; }
  bool operator>(const AscendString& other) const { return Compare(other.GetString()) > 0; }
  bool operator<=(const AscendString& other) const { return Compare(other.GetString()) <= 0; }
  bool operator>=(const AscendString& other) const { return Compare(other.GetString()) >= 0; }
  bool operator==(const AscendString& other) const { return Compare(other.GetString()) == 0; }
  bool operator!=(const AscendString& other) const { return Compare(other.GetString()) != 0; }
  bool operator==(const char_t* other) const { return Compare(other == nullptr ? "" : other) == 0; }
  bool operator!=(const char_t* other) const { return !(*this == other); }

 private:
  int Compare(const char_t* other) const { return std::strcmp(GetString(), other); }

  std::shared_ptr<std::string> text_;
};

}  // namespace ge

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
