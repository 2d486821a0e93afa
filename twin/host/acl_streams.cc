// Streams and events.
#include "twin/host/host_waits.h"
#include "twin/host/log.h"
#include "twin/host/runtime_state.h"

using namespace twin;

namespace {

Event* FindEvent(const char* function, aclrtEvent handle) {
  const auto found = TheRuntime().events.find(handle);
  if (found != TheRuntime().events.end()) return found->second.get();
  LogError(function, "the event does not exist");
  return nullptr;
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream) {
  const Lock lock(TheRuntime().mutex);
  if (stream == nullptr) return NullArgument("aclrtCreateStream", "stream");
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtCreateStream"));
  auto added = std::make_shared<Stream>();
  *stream = added.get();
  TheRuntime().streams[added.get()] = added;
  return ACL_SUCCESS;
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  return aclrtCreateStream(stream);
}

aclError aclrtDestroyStream(aclrtStream handle) {
  const Lock lock(TheRuntime().mutex);
  const auto found = TheRuntime().streams.find(handle);
  if (found == TheRuntime().streams.end()) {
    return Failed("aclrtDestroyStream", ACL_ERROR_INVALID_PARAM, "the stream does not exist");
  }
  const aclError status = found->second->RunAll();
  TheRuntime().streams.erase(found);
  return status;
}

aclError aclrtSynchronizeStream(aclrtStream handle) {
  CountSynchronisation();
  const Lock lock(TheRuntime().mutex);
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtSynchronizeStream"));
  const std::shared_ptr<Stream> stream = FindStream("aclrtSynchronizeStream", handle);
  return stream == nullptr ? ACL_ERROR_RT_PARAM_INVALID : stream->RunAll();
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t) {
  return aclrtSynchronizeStream(stream);
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
  const Lock lock(TheRuntime().mutex);
  if (status == nullptr) return NullArgument("aclrtStreamQuery", "status");
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtStreamQuery"));
  const std::shared_ptr<Stream> stream = FindStream("aclrtStreamQuery", handle);
  if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  *status = stream->tasks.empty() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice() {
  CountSynchronisation();
  const Lock lock(TheRuntime().mutex);
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtSynchronizeDevice"));
  aclError first = ACL_SUCCESS;
  const auto run = [&](Stream& stream) {
    const aclError status = stream.RunAll();
    if (first == ACL_SUCCESS) first = status;
  };
  for (const auto& [handle, context] : TheRuntime().contexts) run(*context->default_stream);
  for (const auto& [handle, stream] : TheRuntime().streams) run(*stream);
  return first;
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t) { return aclrtSynchronizeDevice(); }

aclError aclrtCreateEvent(aclrtEvent* event) {
  const Lock lock(TheRuntime().mutex);
  if (event == nullptr) return NullArgument("aclrtCreateEvent", "event");
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtCreateEvent"));
  auto added = std::make_unique<Event>();
  *event = added.get();
  TheRuntime().events[added.get()] = std::move(added);
  return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }

aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream_handle) {
  const Lock lock(TheRuntime().mutex);
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtResetEvent"));
  Event* event = FindEvent("aclrtResetEvent", handle);
  if (event == nullptr) return ACL_ERROR_INVALID_PARAM;
  const std::shared_ptr<Stream> stream = FindStream("aclrtResetEvent", stream_handle);
  if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  // A stream that was told to wait for the event keeps the mark that it waits for.
  *event = {};
  return ACL_SUCCESS;
}

aclError aclrtDestroyEvent(aclrtEvent handle) {
  const Lock lock(TheRuntime().mutex);
  if (FindEvent("aclrtDestroyEvent", handle) == nullptr) return ACL_ERROR_INVALID_PARAM;
  TheRuntime().events.erase(handle);
  return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream_handle) {
  const Lock lock(TheRuntime().mutex);
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtRecordEvent"));
  Event* event = FindEvent("aclrtRecordEvent", handle);
  if (event == nullptr) return ACL_ERROR_INVALID_PARAM;
  const std::shared_ptr<Stream> stream = FindStream("aclrtRecordEvent", stream_handle);
  if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  *event = {stream, stream->enqueued};
  return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus* status) {
  const Lock lock(TheRuntime().mutex);
  if (status == nullptr) return NullArgument("aclrtQueryEventStatus", "status");
  const Event* event = FindEvent("aclrtQueryEventStatus", handle);
  if (event == nullptr) return ACL_ERROR_INVALID_PARAM;
  const bool reached = event->stream == nullptr || event->stream->done >= event->ticket;
  *status = reached ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream stream_handle, aclrtEvent handle) {
  const Lock lock(TheRuntime().mutex);
  TWIN_RETURN_IF_ERROR(CheckContext("aclrtStreamWaitEvent"));
  const Event* event = FindEvent("aclrtStreamWaitEvent", handle);
  if (event == nullptr) return ACL_ERROR_INVALID_PARAM;
  const std::shared_ptr<Stream> stream = FindStream("aclrtStreamWaitEvent", stream_handle);
  if (stream == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  if (event->stream == nullptr || event->stream == stream) return ACL_SUCCESS;
  // The event's present mark: recorded again, it is another mark.
  stream->Append([mark = *event] { return mark.stream->RunUntil(mark.ticket); });
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent handle) {
  CountSynchronisation();
  const Lock lock(TheRuntime().mutex);
  const Event* event = FindEvent("aclrtSynchronizeEvent", handle);
  if (event == nullptr) return ACL_ERROR_INVALID_PARAM;
  return event->stream == nullptr ? ACL_SUCCESS : event->stream->RunUntil(event->ticket);
}
