// Callbacks of streams, and the threads that wait for them.
#include <condition_variable>
#include <string>

#include "twin/host/runtime_state.h"
#include "twin/host/wait.h"

using namespace twin;

namespace {

// Threads by the streams that they have subscribed to.
struct Subscriptions {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<aclrtStream, uint64_t> threads;
};

Subscriptions& TheSubscriptions() {
  static Subscriptions subscriptions;
  return subscriptions;
}

aclError CheckStream(const char* function, aclrtStream stream) {
  const Lock lock(TheRuntime().mutex);
  TWIN_RETURN_IF_ERROR(CheckContext(function));
  return FindStream(function, stream) == nullptr ? ACL_ERROR_RT_PARAM_INVALID : ACL_SUCCESS;
}

}  // namespace

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  TWIN_RETURN_IF_ERROR(CheckStream("aclrtSubscribeReport", stream));
  Subscriptions& all = TheSubscriptions();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.threads[stream] = threadId;
  return ACL_SUCCESS;
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  Subscriptions& all = TheSubscriptions();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.threads.find(stream);
  if (found == all.threads.end() || found->second != threadId) {
    return Failed("aclrtUnSubscribeReport", ACL_ERROR_RT_STREAM_NO_CB_REG,
                  "the thread has not subscribed to the stream");
  }
  all.threads.erase(found);
  all.changed.notify_all();
  return ACL_SUCCESS;
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType,
                             aclrtStream stream) {
  if (fn == nullptr) return NullArgument("aclrtLaunchCallback", "fn");
  {
    Subscriptions& all = TheSubscriptions();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.threads.count(stream) == 0) {
      return Failed("aclrtLaunchCallback", ACL_ERROR_RT_STREAM_NO_CB_REG,
                    "no thread has subscribed to the stream");
    }
  }
  return Enqueue("aclrtLaunchCallback", stream, [fn, userData] {
    fn(userData);
    return ACL_SUCCESS;
  });
}

aclError aclrtProcessReport(int32_t timeout) {
  if (timeout == 0 || timeout < -1) {
    return Failed("aclrtProcessReport", ACL_ERROR_RT_PARAM_INVALID,
                  "timeout must be -1 or greater than 0, got " + std::to_string(timeout));
  }
  Subscriptions& all = TheSubscriptions();
  std::unique_lock<std::mutex> lock(all.mutex);
  WaitUntil(all.changed, lock, timeout, [&] { return all.threads.empty(); });
  return ACL_ERROR_RT_REPORT_TIMEOUT;
}
