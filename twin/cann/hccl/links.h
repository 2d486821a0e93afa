// Connections between the workers of a communicator: processes of one machine, each of which has a
// stream socket to every other. A thread reads what comes, so that nobody waits to send.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "twin/cann/hccl/types.h"

namespace twin::hccl {

struct Failure : std::runtime_error {
  Failure(Result result, const std::string& what) : std::runtime_error(what), result(result) {}
  Result result;
};

// The calls of each kind are counted for themselves, those between two workers for the two.
enum class Kind : uint32_t { kCollective, kSend, kReceive, kLeave };

struct Message {
  std::string call;     // equal on all workers of a collective
  std::string gives;    // its sender gives this to the receiver,
  std::string expects;  // and expects that from it
  std::vector<uint8_t> payload;
};

struct Place {
  std::string token;  // known to the workers of this communicator only
  std::string name;   // in messages
  uint32_t rank, size;
  int32_t device;
};

class Links {
 public:
  // Meets the others; a Failure after `seconds`, or where they do not fit together.
  static std::shared_ptr<Links> Connect(const Place& place, uint64_t seconds);
  virtual ~Links() = default;

  virtual void Post(Kind kind, uint64_t number, uint32_t peer, const Message& message) = 0;
  // The message of this number from a worker. A Failure that names `own` and the last call of the
  // other if none comes.
  virtual Message Wait(Kind kind, uint64_t number, uint32_t peer, const std::string& own,
                       uint64_t seconds) = 0;
  // Tells the others that no more comes. What has come can still be waited for.
  virtual void Leave() = 0;
};

}  // namespace twin::hccl
