#include "twin/device/error.h"

#include <cstdarg>
#include <cstdio>
#include <exception>

#include "twin/clock/plain_numbers.h"
#include "twin/device/launch_state.h"
#include "twin/device/narrowed.h"

namespace twin {

Error::Error(const std::string& message) : std::runtime_error(message) {}

std::string Format(const char* format, ...) {
  const PlainNumbers plain;
  va_list list;
  va_start(list, format);
  char text[1024];
  const int length = vsnprintf(text, sizeof(text), format, list);
  va_end(list);
  if (length < static_cast<int>(sizeof(text))) return text;
  std::string longer(static_cast<size_t>(length) + 1, '\0');
  va_start(list, format);
  vsnprintf(longer.data(), longer.size(), format, list);
  va_end(list);
  longer.pop_back();
  return longer;
}

std::string CoreName(const Core& core) {
  return core.cube
             ? Format("AIC %u", core.block)
             : Format("AIV %u", static_cast<unsigned>(core.block * core.launch->aiv_per_block +
                                                      core.sub_block));
}

std::string PlaceName(const Core* core, const Where& where) {
  std::string text;
  if (core != nullptr) text = "kernel " + core->launch->options.kernel + ", ";
  if (where.file != nullptr) {
    text += Format("%s:%d", where.file, where.line);
  } else if (core != nullptr && core->last_where.file != nullptr) {
    text +=
        Format("after %s at %s:%d", core->last_name, core->last_where.file, core->last_where.line);
  } else {
    text += core != nullptr ? "before its first instruction" : "outside of a kernel";
  }
  if (core != nullptr) text += ", " + CoreName(*core);
  return text;
}

void Raise(const std::string& message) {
  if (current_core != nullptr) {
    std::string& first = current_core->launch->error;
    if (first.empty()) first = message;
    if (std::uncaught_exceptions() > 0) current_core->fiber->Abandon();
  }
  throw Error(message);
}

void LeaveKernel() {
  if (std::uncaught_exceptions() > 0) current_core->fiber->Abandon();
  throw Cancelled{};
}

void Fail(const char* what, const Where& where, const std::string& message) {
  Raise(PlaceName(current_core, where) + ": " + what + ": " + message);
}

void WrongNumber(size_t given, size_t expected) {
  Fail("parameter structure", {},
       Format("%zu values in braces, its constructor takes %zu", given, expected));
}

void Warn(const char* kind, const Where& where, const std::string& message) {
  // The search for the kernel type runs its first steps once more.
  if (current_launch == nullptr || current_launch->probing) return;
  const char* file = where.file == nullptr ? "" : where.file;
  Warning& warning = current_launch->warnings[{kind, {file, where.line}}];
  if (warning.count++ > 0) return;
  warning.kind = kind;
  const bool at_end = current_core == nullptr && where.file == nullptr;
  warning.message = (at_end ? "kernel " + current_launch->options.kernel + ", at its end"
                            : PlaceName(current_core, where)) +
                    ": " + message;
  if (current_launch->options.print_warnings) {
    std::fprintf(stderr, "twin warning: %s\n", warning.message.c_str());
  }
}

}  // namespace twin
