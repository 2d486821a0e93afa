// State of the acl runtime: contexts, streams, events. Everything here is used with the mutex held.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "acl/acl_rt.h"
#include "twin/host/streams.h"

namespace twin {

struct Stream {
  std::deque<Task> tasks;
  uint64_t enqueued = 0;
  uint64_t done = 0;

  void Append(Task task);
  // Does its tasks until so many are done. One that fails ends it: what came after it is dropped.
  aclError RunUntil(uint64_t ticket);
  aclError RunAll() { return RunUntil(enqueued); }
};

// A mark in a stream: reached when the stream has done `ticket` tasks. None before it is recorded.
struct Event {
  std::shared_ptr<Stream> stream;
  uint64_t ticket = 0;
};

struct Context {
  std::shared_ptr<Stream> default_stream = std::make_shared<Stream>();
};

struct Runtime {
  // Recursive: a task may wait for another stream.
  std::recursive_mutex mutex;
  bool initialised = false;
  int32_t device = 0;  // of all contexts
  std::map<void*, std::unique_ptr<Context>> contexts;
  std::map<void*, std::shared_ptr<Stream>> streams;
  std::map<void*, std::unique_ptr<Event>> events;
  // The one that aclrtSetDevice gives every thread; also in `contexts`. How often it was called.
  Context* device_context = nullptr;
  uint64_t device_uses = 0;
};

using Lock = std::lock_guard<std::recursive_mutex>;

Runtime& TheRuntime();

// Logs, and returns `status`.
aclError Failed(const char* function, aclError status, const std::string& what);
aclError NullArgument(const char* function, const char* argument);

aclError CheckContext(const char* function);
// The one of this thread, which CheckContext has found to be there.
Context& CurrentContext();
void SetCurrentContext(Context* context);

// Null, and the error logged, if the handle is of none. A null handle is the default stream.
std::shared_ptr<Stream> FindStream(const char* function, aclrtStream handle);

}  // namespace twin

// Returns from the caller where a check fails.
#define TWIN_RETURN_IF_ERROR(call)                      \
  do {                                                  \
    const aclError twin_status = (call);                \
    if (twin_status != ACL_SUCCESS) return twin_status; \
  } while (0)
