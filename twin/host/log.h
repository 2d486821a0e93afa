// Errors of host calls: printed once, and kept for aclGetRecentErrMsg.
#pragma once

#include <string>

#include "log/log.h"

namespace twin {

void LogText(LogLevel level, const std::string& who, const std::string& text);
inline void LogError(const std::string& who, const std::string& text) {
  LogText(LogLevel::kError, who, text);
}
// Errors of this thread so far: whether a function that failed has said why.
uint64_t ErrorCount();
// The last error of this thread since the last call, "" if there was none.
std::string TakeRecentError();

}  // namespace twin
