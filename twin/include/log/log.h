// The log of an operator's host functions. An error is printed once, and is what aclGetRecentErrMsg
// returns after the call that it failed.
#pragma once

#include "twin/device/where.h"

namespace twin {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// `who`: the operator. Debug and info lines are printed where ASCEND_GLOBAL_LOG_LEVEL asks for
// them.
TWIN_API void Log(LogLevel level, const char* who, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

inline const char* LogName(const char* name) { return name == nullptr ? "" : name; }
template <class Context>
const char* LogName(const Context* context) {
  return context == nullptr ? "" : context->GetNodeName();
}

}  // namespace twin

// `who` is a name or a context.
#define OP_LOGD(who, ...) ::twin::Log(::twin::LogLevel::kDebug, ::twin::LogName(who), __VA_ARGS__)
#define OP_LOGI(who, ...) ::twin::Log(::twin::LogLevel::kInfo, ::twin::LogName(who), __VA_ARGS__)
#define OP_LOGW(who, ...) ::twin::Log(::twin::LogLevel::kWarning, ::twin::LogName(who), __VA_ARGS__)
#define OP_LOGE(who, ...) ::twin::Log(::twin::LogLevel::kError, ::twin::LogName(who), __VA_ARGS__)
