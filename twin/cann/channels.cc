// Channels for what graphs print. MindSpore makes some for every process, each with a thread that
// waits for data; the operators that would send any are absent.
#include <condition_variable>
#include <mutex>

#include "acl/acl_base.h"
#include "twin/host/wait.h"

namespace {

constexpr aclError kQueueEmpty = 207013;  // ACL_ERROR_RT_QUEUE_EMPTY

struct Channel {
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;
};

struct Dataset {};

}  // namespace

extern "C" {

ACL_FUNC_VISIBILITY Channel* acltdtCreateChannelWithCapacity(uint32_t, const char*, size_t) {
  return new Channel;
}

ACL_FUNC_VISIBILITY aclError acltdtStopChannel(Channel* channel) {
  const std::lock_guard<std::mutex> lock(channel->mutex);
  channel->stopped = true;
  channel->changed.notify_all();
  return ACL_SUCCESS;
}

// One that a thread may still wait at is left where it is.
ACL_FUNC_VISIBILITY aclError acltdtDestroyChannel(Channel* channel) {
  return acltdtStopChannel(channel);
}

ACL_FUNC_VISIBILITY Dataset* acltdtCreateDataset() { return new Dataset; }
ACL_FUNC_VISIBILITY aclError acltdtDestroyDataset(Dataset* dataset) {
  delete dataset;
  return ACL_SUCCESS;
}

ACL_FUNC_VISIBILITY aclError acltdtQueryChannelSize(const Channel*, size_t* size) {
  *size = 0;
  return ACL_SUCCESS;
}

// `timeout` in milliseconds, -1 for ever.
ACL_FUNC_VISIBILITY aclError acltdtReceiveTensor(Channel* channel, Dataset*, int32_t timeout) {
  std::unique_lock<std::mutex> lock(channel->mutex);
  twin::WaitUntil(channel->changed, lock, timeout, [&] { return channel->stopped; });
  return kQueueEmpty;
}

}  // extern "C"
