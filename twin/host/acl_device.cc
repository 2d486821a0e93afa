// Initialisation, device and contexts.
#include <string>

#include "aclnn/aclnn_base.h"
#include "twin/host/log.h"
#include "twin/host/runtime_state.h"

using namespace twin;

namespace {

// A server has eight devices. A process uses one at a time, and several processes one each.
constexpr int32_t kDevices = 8;

aclError CheckDevice(const char* function, int32_t device) {
  if (device < 0 || device >= kDevices) {
    return Failed(function, ACL_ERROR_RT_INVALID_DEVICEID,
                  "deviceId must be from 0 to " + std::to_string(kDevices - 1) + ", got " +
                      std::to_string(device));
  }
  Runtime& runtime = TheRuntime();
  if (runtime.contexts.empty()) runtime.device = device;
  if (runtime.device == device) return ACL_SUCCESS;
  return Failed(function, ACL_ERROR_RT_INVALID_DEVICEID,
                "deviceId must be " + std::to_string(runtime.device) +
                    ", the device of this process until it is reset, got " +
                    std::to_string(device));
}

Context* AddContext() {
  auto context = std::make_unique<Context>();
  Context* address = context.get();
  TheRuntime().contexts[address] = std::move(context);
  return address;
}

}  // namespace

aclError aclInit(const char*) {
  const Lock lock(TheRuntime().mutex);
  if (TheRuntime().initialised) {
    return Failed("aclInit", ACL_ERROR_REPEAT_INITIALIZE, "it has been called already");
  }
  TheRuntime().initialised = true;
  return ACL_SUCCESS;
}

aclError aclFinalize() {
  const Lock lock(TheRuntime().mutex);
  if (!TheRuntime().initialised) {
    return Failed("aclFinalize", ACL_ERROR_REPEAT_FINALIZE, "aclInit has not been called");
  }
  TheRuntime().initialised = false;
  return ACL_SUCCESS;
}

aclnnStatus aclnnInit(const char*) { return ACL_SUCCESS; }
aclnnStatus aclnnFinalize() { return ACL_SUCCESS; }

aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
  if (major == nullptr || minor == nullptr || patch == nullptr) {
    return NullArgument("aclrtGetVersion", "a version");
  }
  *major = 1;
  *minor = 0;
  *patch = 0;
  return ACL_SUCCESS;
}

const char* aclGetRecentErrMsg() {
  thread_local std::string text;
  text = TakeRecentError();
  return text.empty() ? nullptr : text.c_str();
}

aclError aclrtSetDevice(int32_t deviceId) {
  const Lock lock(TheRuntime().mutex);
  TWIN_RETURN_IF_ERROR(CheckDevice("aclrtSetDevice", deviceId));
  Runtime& runtime = TheRuntime();
  if (runtime.device_context == nullptr) runtime.device_context = AddContext();
  ++runtime.device_uses;
  SetCurrentContext(runtime.device_context);
  return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* deviceId) {
  const Lock lock(TheRuntime().mutex);
  if (deviceId == nullptr) return NullArgument("aclrtGetDevice", "deviceId");
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtGetDevice"));
  *deviceId = TheRuntime().device;
  return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId) {
  const Lock lock(TheRuntime().mutex);
  TWIN_RETURN_IF_ERROR(CheckDevice("aclrtResetDevice", deviceId));
  Runtime& runtime = TheRuntime();
  if (runtime.device_context == nullptr) return ACL_SUCCESS;
  const aclError status = runtime.device_context->default_stream->RunAll();
  // The last of as many calls as there were of aclrtSetDevice.
  if (--runtime.device_uses > 0) return status;
  runtime.contexts.erase(runtime.device_context);
  runtime.device_context = nullptr;
  return status;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  if (count == nullptr) return NullArgument("aclrtGetDeviceCount", "count");
  *count = kDevices;
  return ACL_SUCCESS;
}

aclError aclrtGetHardwareSyncAddr(void** addr) {
  if (addr == nullptr) return NullArgument("aclrtGetHardwareSyncAddr", "addr");
  static uint64_t flags;
  *addr = &flags;
  return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  if (mode == ACL_RT_OVERFLOW_MODE_INFNAN) return ACL_SUCCESS;
  return Failed("aclrtSetDeviceSatMode", ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "the twin has the mode ACL_RT_OVERFLOW_MODE_INFNAN only, got " +
                    std::to_string(static_cast<int>(mode)));
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  if (runMode == nullptr) return NullArgument("aclrtGetRunMode", "runMode");
  *runMode = ACL_HOST;
  return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  const Lock lock(TheRuntime().mutex);
  if (context == nullptr) return NullArgument("aclrtCreateContext", "context");
  TWIN_RETURN_IF_ERROR(CheckDevice("aclrtCreateContext", deviceId));
  Context* added = AddContext();
  SetCurrentContext(added);
  *context = added;
  return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext handle) {
  const Lock lock(TheRuntime().mutex);
  Runtime& runtime = TheRuntime();
  const auto found = runtime.contexts.find(handle);
  if (found == runtime.contexts.end() || handle == runtime.device_context) {
    return Failed("aclrtDestroyContext", ACL_ERROR_INVALID_PARAM,
                  "the context is none that aclrtCreateContext has made");
  }
  const aclError status = found->second->default_stream->RunAll();
  runtime.contexts.erase(found);
  return status;
}

aclError aclrtSetCurrentContext(aclrtContext handle) {
  const Lock lock(TheRuntime().mutex);
  const auto found = TheRuntime().contexts.find(handle);
  if (found == TheRuntime().contexts.end()) {
    return Failed("aclrtSetCurrentContext", ACL_ERROR_INVALID_PARAM, "the context does not exist");
  }
  SetCurrentContext(found->second.get());
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  const Lock lock(TheRuntime().mutex);
  if (context == nullptr) return NullArgument("aclrtGetCurrentContext", "context");
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtGetCurrentContext"));
  *context = &CurrentContext();
  return ACL_SUCCESS;
}
