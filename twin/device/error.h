// Errors and warnings that a kernel causes.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "twin/device/where.h"

namespace twin {

// Raises an Error on the running core; the first of a launch is the one that is reported. While
// another is on its way through the kernel's destructors the core ends here and now.
[[noreturn]] TWIN_API void Raise(const std::string& message);

// Names kernel, file, line, instruction and operands.
class TWIN_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

TWIN_API std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));

// For what is wrong outside an instruction: "kernel add, file.h:12, AIV 3: <what>: <message>".
[[noreturn]] TWIN_API void Fail(const char* what, const Where& where, const std::string& message);
// Counted under `kind`; the first of each kind and place is printed.
TWIN_API void Warn(const char* kind, const Where& where, const std::string& message);

}  // namespace twin
