// Communicators, and calls that their workers make together.
//
// A call does first what its stream has before it, then gives its own part to the others at once,
// and leaves to the stream to wait for theirs: a worker that has made its call never has to be
// waited for by others until somebody asks for its stream.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "twin/cann/hccl/links.h"

namespace twin::hccl {

class Communicator {
 public:
  explicit Communicator(Place place);

  const std::string& name() const { return place_.name; }
  const std::string& token() const { return place_.token; }
  uint32_t rank() const { return place_.rank; }
  uint32_t size() const { return place_.size; }
  Links& links() { return *links_; }

  // The number of the next call: of all workers, or of the two that a message is between. `order`
  // has to be held until the call's messages have been posted.
  uint64_t Next(Kind kind, uint32_t peer);
  std::mutex order;

  // Ends the communicator with an error that later calls return, too.
  void Break(Result result, const std::string& what);
  Result broken(std::string* what);

 private:
  const Place place_;
  const std::shared_ptr<Links> links_;
  std::map<std::pair<Kind, uint32_t>, uint64_t> numbers_;
  std::mutex state_;
  Result result_ = kSuccess;
  std::string reason_;
};

void* Add(std::shared_ptr<Communicator> communicator);
// Throws a Failure where the handle is of none.
std::shared_ptr<Communicator> Find(void* handle);
void Destroy(void* handle);

struct Buffer {
  const char* name;
  const void* address;
  uint64_t bytes;
};

using Payloads = std::vector<std::vector<uint8_t>>;

// A call of all workers. `parts` has for each worker what this one gives to it; `finish` gets for
// each what it gave to this one.
struct Collective {
  std::string call;
  std::vector<Buffer> reads, writes;
  std::vector<std::pair<uint64_t, uint64_t>> parts;  // (offset, bytes) in reads[0]
  std::vector<std::string> gives, expects;           // by worker, or empty
  std::function<void(const Payloads&)> finish;
};

struct Transfer {
  Kind kind;  // kSend or kReceive
  uint32_t peer;
  Buffer buffer;
  std::string what;
};

using Build = std::function<Collective(Communicator&)>;
using BuildTransfers = std::function<std::vector<Transfer>(Communicator&)>;

// Runs what a function of HCCL says; a Failure becomes its status, and is logged.
Result Guarded(const char* function, const std::function<void()>& body);
Result Together(const char* function, void* handle, aclrtStream stream, const Build& build);
Result Between(const char* function, void* handle, aclrtStream stream, const BuildTransfers& build);

// Throws a Failure where a pointer is null.
void RequirePointer(const char* name, const void* pointer);
// Seconds of an environment variable.
uint64_t Seconds(const char* variable, uint64_t otherwise);

}  // namespace twin::hccl
