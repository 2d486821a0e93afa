#include "twin/host/log.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "twin/clock/plain_numbers.h"

namespace twin {

namespace {

struct Recent {
  std::string text;
  uint64_t count = 0;
};

Recent& RecentOfThread() {
  thread_local Recent recent;
  return recent;
}

// CANN numbers them so; errors and warnings by default.
LogLevel LowestPrinted() {
  const char* text = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
  if (text == nullptr || text[0] < '0' || text[0] > '3' || text[1] != '\0') {
    return LogLevel::kWarning;
  }
  return static_cast<LogLevel>(text[0] - '0');
}

}  // namespace

void LogText(LogLevel level, const std::string& who, const std::string& text) {
  if (level == LogLevel::kError) {
    Recent& recent = RecentOfThread();
    recent.text = who.empty() ? text : who + ": " + text;
    ++recent.count;
  }
  if (level < LowestPrinted()) return;
  constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  std::fprintf(stderr, "[%s] %s%s%s\n", kNames[static_cast<int>(level)], who.c_str(),
               who.empty() ? "" : ": ", text.c_str());
}

void Log(LogLevel level, const char* who, const char* format, ...) {
  const twin::PlainNumbers plain;
  va_list list;
  va_start(list, format);
  va_list again;
  va_copy(again, list);
  const int length = std::vsnprintf(nullptr, 0, format, list);
  va_end(list);
  std::string text(length < 0 ? 0 : static_cast<size_t>(length), '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  LogText(level, who, text);
}

uint64_t ErrorCount() { return RecentOfThread().count; }

std::string TakeRecentError() {
  std::string text;
  text.swap(RecentOfThread().text);
  return text;
}

}  // namespace twin
