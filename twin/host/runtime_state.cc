#include "twin/host/runtime_state.h"

#include "twin/host/log.h"

namespace twin {

namespace {

thread_local Context* current_context = nullptr;

}  // namespace

void Stream::Append(Task task) {
  tasks.push_back(std::move(task));
  ++enqueued;
}

aclError Stream::RunUntil(uint64_t ticket) {
  while (done < ticket && !tasks.empty()) {
    const Task task = std::move(tasks.front());
    tasks.pop_front();
    ++done;
    const aclError status = task();
    if (status == ACL_SUCCESS) continue;
    done += tasks.size();
    tasks.clear();
    return status;
  }
  return ACL_SUCCESS;
}

Runtime& TheRuntime() {
  static Runtime runtime;
  return runtime;
}

aclError Failed(const char* function, aclError status, const std::string& what) {
  LogError(function, what);
  return status;
}

aclError NullArgument(const char* function, const char* argument) {
  return Failed(function, ACL_ERROR_INVALID_PARAM, std::string(argument) + " is null");
}

aclError CheckContext(const char* function) {
  if (current_context != nullptr && TheRuntime().contexts.count(current_context) != 0) {
    return ACL_SUCCESS;
  }
  return Failed(function, ACL_ERROR_RT_CONTEXT_NULL,
                "this thread has no context; call aclrtSetDevice or aclrtSetCurrentContext");
}

Context& CurrentContext() { return *current_context; }

void SetCurrentContext(Context* context) { current_context = context; }

std::shared_ptr<Stream> FindStream(const char* function, aclrtStream handle) {
  if (handle == nullptr) return current_context->default_stream;
  const auto found = TheRuntime().streams.find(handle);
  if (found != TheRuntime().streams.end()) return found->second;
  LogError(function, "the stream does not exist");
  return nullptr;
}

aclError CheckReady(const char* function) {
  const Lock lock(TheRuntime().mutex);
  return CheckContext(function);
}

aclError Enqueue(const char* function, aclrtStream handle, Task task) {
  const Lock lock(TheRuntime().mutex);
  TWIN_RETURN_IF_ERROR(CheckContext(function));
  const std::shared_ptr<Stream> stream = FindStream(function, handle);
  if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  stream->Append(std::move(task));
  return ACL_SUCCESS;
}

}  // namespace twin
