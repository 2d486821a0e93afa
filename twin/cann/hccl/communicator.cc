#include "twin/cann/hccl/communicator.h"

#include <cstdlib>
#include <cstring>

#include "twin/host/device_memory.h"
#include "twin/host/host_call.h"
#include "twin/host/streams.h"

namespace twin::hccl {

namespace {

constexpr aclError kTaskFailed = 507000;  // ACL_ERROR_RT_INTERNAL_ERROR

struct Registry {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<Communicator>> all;
};

// Never destroyed: threads that wait outlive the end of main.
Registry& TheRegistry() {
  static auto* registry = new Registry;
  return *registry;
}

std::string Worker(uint32_t rank) { return "worker " + std::to_string(rank); }

void CheckBuffer(const Buffer& buffer, const char* when = "") {
  if (buffer.bytes == 0) return;
  RequirePointer(buffer.name, buffer.address);
  const int64_t found = DeviceBytesFrom(buffer.address);
  if (found >= 0 && static_cast<uint64_t>(found) >= buffer.bytes) return;
  const std::string have =
      found < 0 ? "an address outside of device memory" : std::to_string(found) + " bytes";
  throw Failure(kParameter, std::string(buffer.name) + " must have " +
                                std::to_string(buffer.bytes) + " bytes of device memory" + when +
                                ", got " + have);
}

void CheckUsable(Communicator& communicator) {
  std::string what;
  if (communicator.broken(&what) == kSuccess) return;
  throw Failure(kRemote, "communicator " + communicator.name() + " has failed before: " + what);
}

// Memory holds a call's operands only when the work before it in the stream has been done.
void DoStream(aclrtStream stream) {
  RequirePointer("stream", stream);
  const aclError status = aclrtSynchronizeStream(stream);
  if (status == ACL_SUCCESS) return;
  throw Failure(kRuntime, "the work before it in the stream has failed with status " +
                              std::to_string(status));
}

std::vector<uint8_t> Copied(const void* from, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return {};
  const auto* begin = static_cast<const uint8_t*>(from) + offset;
  return {begin, begin + bytes};
}

std::string Numbered(const std::string& call, uint64_t number) {
  return "call " + std::to_string(number) + ", " + call + ",";
}

void CheckCall(const Communicator& communicator, uint64_t number, const std::string& own,
               uint32_t peer, const std::string& other) {
  if (own == other) return;
  throw Failure(kParameter,
                "call " + std::to_string(number) + " of communicator " + communicator.name() +
                    " is " + own + " on " + Worker(communicator.rank()) + " and " + other + " on " +
                    Worker(peer) + ": all workers must make the same calls in the same order");
}

void CheckGiven(const std::string& call, uint32_t from, const std::string& gives, uint32_t to,
                const std::string& expects) {
  if (gives == expects) return;
  throw Failure(kParameter, "in " + call + " " + Worker(from) + " gives " + gives + " to " +
                                Worker(to) + ", which expects " + expects);
}

// A task of the stream.
aclError Finished(const char* function, Communicator& communicator,
                  const std::function<void()>& body) {
  try {
    body();
    return ACL_SUCCESS;
  } catch (const Failure& failure) {
    communicator.Break(failure.result, failure.what());
    RefuseCall(function, failure.result, failure.what());
    return kTaskFailed;
  }
}

uint64_t WaitSeconds() { return Seconds("HCCL_EXEC_TIMEOUT", 600); }

Message MessageTo(const Collective& collective, uint32_t peer) {
  const auto [offset, bytes] = collective.parts[peer];
  Message message{collective.call, "", "", {}};
  if (!collective.gives.empty()) {
    message.gives = collective.gives[peer];
    message.expects = collective.expects[peer];
  }
  const void* from = collective.reads.empty() ? nullptr : collective.reads[0].address;
  message.payload = Copied(from, offset, bytes);
  return message;
}

void WaitForAll(Communicator& communicator, const Collective& collective, uint64_t number,
                std::vector<uint8_t> own, uint64_t seconds) {
  Payloads payloads(communicator.size());
  payloads[communicator.rank()] = std::move(own);
  const uint32_t self = communicator.rank();
  const std::string call = Numbered(collective.call, number);
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer == self) continue;
    Message message = communicator.links().Wait(Kind::kCollective, number, peer, call, seconds);
    CheckCall(communicator, number, collective.call, peer, message.call);
    if (!collective.gives.empty()) {
      CheckGiven(call, peer, message.gives, self, collective.expects[peer]);
      CheckGiven(call, self, collective.gives[peer], peer, message.expects);
    }
    payloads[peer] = std::move(message.payload);
  }
  for (const Buffer& buffer : collective.writes)
    CheckBuffer(buffer, " when the stream comes to it");
  collective.finish(payloads);
}

void WaitForOthers(Communicator& communicator, const std::vector<Transfer>& transfers,
                   const std::vector<uint64_t>& numbers, uint64_t seconds) {
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& own = transfers[i];
    const bool sends = own.kind == Kind::kSend;
    const uint32_t self = communicator.rank();
    const std::string call = (sends ? "HcclSend " : "HcclRecv ") + std::to_string(numbers[i]) +
                             (sends ? " to " : " from ") + Worker(own.peer) + ", " + own.what + ",";
    const Message message = communicator.links().Wait(sends ? Kind::kReceive : Kind::kSend,
                                                      numbers[i], own.peer, call, seconds);
    if (sends) {
      CheckGiven(call, self, own.what, own.peer, message.expects);
      continue;
    }
    CheckGiven(call, own.peer, message.gives, self, own.what);
    CheckBuffer(own.buffer, " when the stream comes to it");
    if (message.payload.empty()) continue;
    std::memcpy(const_cast<void*>(own.buffer.address), message.payload.data(),
                message.payload.size());
  }
}

}  // namespace

Communicator::Communicator(Place place)
    : place_(std::move(place)),
      links_(Links::Connect(place_, Seconds("HCCL_CONNECT_TIMEOUT", 120))) {}

uint64_t Communicator::Next(Kind kind, uint32_t peer) { return ++numbers_[{kind, peer}]; }

void Communicator::Break(Result result, const std::string& what) {
  const std::lock_guard<std::mutex> lock(state_);
  if (result_ != kSuccess) return;
  result_ = result;
  reason_ = what;
}

Result Communicator::broken(std::string* what) {
  const std::lock_guard<std::mutex> lock(state_);
  *what = reason_;
  return result_;
}

void* Add(std::shared_ptr<Communicator> communicator) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  void* handle = communicator.get();
  registry.all[handle] = std::move(communicator);
  return handle;
}

std::shared_ptr<Communicator> Find(void* handle) {
  RequirePointer("comm", handle);
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.all.find(handle);
  if (found != registry.all.end()) return found->second;
  throw Failure(kParameter, "comm is no communicator, or has been destroyed");
}

void Destroy(void* handle) {
  const std::shared_ptr<Communicator> communicator = Find(handle);
  {
    Registry& registry = TheRegistry();
    const std::lock_guard<std::mutex> lock(registry.mutex);
    registry.all.erase(handle);
  }
  communicator->links().Leave();
}

Result Guarded(const char* function, const std::function<void()>& body) {
  Result result = kInternal;
  std::string what;
  try {
    body();
    return kSuccess;
  } catch (const Failure& failure) {
    result = failure.result;
    what = failure.what();
  } catch (const std::invalid_argument& error) {
    result = kParameter;
    what = error.what();
  } catch (const std::exception& error) {
    what = error.what();
  }
  RefuseCall(function, result, what);
  return result;
}

Result Together(const char* function, void* handle, aclrtStream stream, const Build& build) {
  return Guarded(function, [&] {
    const std::shared_ptr<Communicator> communicator = Find(handle);
    CheckUsable(*communicator);
    const Collective collective = build(*communicator);
    const uint64_t seconds = WaitSeconds();
    for (const auto& buffers : {collective.reads, collective.writes}) {
      for (const Buffer& buffer : buffers) CheckBuffer(buffer);
    }
    DoStream(stream);
    const std::lock_guard<std::mutex> lock(communicator->order);
    const uint64_t number = communicator->Next(Kind::kCollective, 0);
    for (uint32_t peer = 0; peer < communicator->size(); ++peer) {
      if (peer == communicator->rank()) continue;
      communicator->links().Post(Kind::kCollective, number, peer, MessageTo(collective, peer));
    }
    const auto own = MessageTo(collective, communicator->rank()).payload;
    const std::string name = function;
    const aclError status = Enqueue(function, stream, [=] {
      return Finished(name.c_str(), *communicator,
                      [&] { WaitForAll(*communicator, collective, number, own, seconds); });
    });
    if (status != ACL_SUCCESS) throw Failure(kRuntime, "the stream does not take it");
  });
}

Result Between(const char* function, void* handle, aclrtStream stream,
               const BuildTransfers& build) {
  return Guarded(function, [&] {
    const std::shared_ptr<Communicator> communicator = Find(handle);
    CheckUsable(*communicator);
    const std::vector<Transfer> transfers = build(*communicator);
    const uint64_t seconds = WaitSeconds();
    for (const Transfer& transfer : transfers) {
      if (transfer.peer >= communicator->size() || transfer.peer == communicator->rank()) {
        throw Failure(kParameter, "the other worker must be one of 0 to " +
                                      std::to_string(communicator->size() - 1) +
                                      " and not this one, got " + std::to_string(transfer.peer));
      }
      CheckBuffer(transfer.buffer);
    }
    DoStream(stream);
    const std::lock_guard<std::mutex> lock(communicator->order);
    std::vector<uint64_t> numbers;
    for (const Transfer& transfer : transfers) {
      const bool sends = transfer.kind == Kind::kSend;
      numbers.push_back(communicator->Next(transfer.kind, transfer.peer));
      const std::string call = std::string(sends ? "HcclSend" : "HcclRecv") + "(" + transfer.what +
                               (sends ? ", to " : ", from ") + Worker(transfer.peer) + ")";
      Message message{call, sends ? transfer.what : "", sends ? "" : transfer.what, {}};
      if (sends) message.payload = Copied(transfer.buffer.address, 0, transfer.buffer.bytes);
      communicator->links().Post(transfer.kind, numbers.back(), transfer.peer, message);
    }
    const std::string name = function;
    const aclError status = Enqueue(function, stream, [=] {
      return Finished(name.c_str(), *communicator,
                      [&] { WaitForOthers(*communicator, transfers, numbers, seconds); });
    });
    if (status != ACL_SUCCESS) throw Failure(kRuntime, "the stream does not take it");
  });
}

void RequirePointer(const char* name, const void* pointer) {
  if (pointer == nullptr) throw Failure(kNullPointer, std::string(name) + " must not be null");
}

uint64_t Seconds(const char* variable, uint64_t otherwise) {
  const char* given = std::getenv(variable);
  if (given == nullptr || given[0] == '\0') return otherwise;
  const std::string text = given;
  const bool digits = text.size() <= 5 && text.find_first_not_of("0123456789") == text.npos;
  const uint64_t value = digits ? std::strtoull(given, nullptr, 10) : 0;
  if (value >= 1 && value <= 17340) return value;
  throw Failure(kParameter,
                std::string(variable) + " must be a number from 1 to 17340, got '" + text + "'");
}

}  // namespace twin::hccl
