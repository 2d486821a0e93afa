// The shadow knows of every byte of a memory whether it was ever written, and which instructions
// last wrote and read it. It keeps granules of 32 bytes, each with an exact byte mask.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "twin/device/types.h"

namespace twin {

enum AccessKind : uint8_t {
  kRead = 0,
  kWrite = 1,
  kAtomic = 3,  // a write that commutes with other atomic writes
};

struct Entry {
  uint32_t seq;   // number of the instruction on its pipe
  uint32_t mask;  // bytes of the granule
  uint32_t site;  // instruction, file and line
  uint16_t core;
  uint8_t pipe;
  uint8_t kind : 2;   // AccessKind
  uint8_t dirty : 1;  // a scalar write to GM that is still in the data cache of its core
  uint8_t polls : 1;  // a scalar read of GM past the data cache: the core waits for a value
};

struct Granule {
  uint32_t written;  // bytes that hold a value
  uint16_t count;
  uint16_t capacity;  // of `more`, 0 while the entries fit in place
  Entry* more;
  Entry first[3];

  Entry* entries() { return capacity ? more : first; }
};
static_assert(sizeof(Granule) == 64, "one granule fills one cache line");

// The instruction that accesses: who it is and what it is ordered after.
struct Ticket {
  uint32_t seq;
  uint32_t site;
  uint16_t core;
  uint8_t pipe;
  bool in_order;           // ordered after everything earlier on its own pipe
  bool dirty;              // a scalar write to GM
  bool polls;              // a scalar read of GM by a core that has invalidated the line
  const uint32_t* seen;    // [kPipes] of this core, the last instruction known complete
  const uint32_t* remote;  // [cores, kPipes + 1] or null
};

struct Conflict {
  enum Kind : uint8_t { kNone, kUninitialised, kHazard, kDirty } kind = kNone;
  Entry other{};
  uint32_t bytes = 0;    // mask within the granule
  uint64_t granule = 0;  // index of the granule
};

class Shadow {
 public:
  Shadow() = default;
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  void Resize(uint64_t bytes);
  // Forgets everything.
  void Clear();
  void MarkWritten(uint64_t begin, uint64_t bytes);
  // The bytes hold nothing to rely on.
  void MarkUnwritten(uint64_t begin, uint64_t bytes);
  // The bytes hold nothing since the instruction `origin` took in others that hold nothing.
  void MarkMissing(uint64_t begin, uint64_t bytes, uint32_t origin);
  // The instruction that wrote the bytes, 0 where none has.
  uint32_t Origin(uint64_t granule) const {
    const auto found = origins_.find(granule);
    return found == origins_.end() ? 0 : found->second;
  }
  // The scalar writes of `core` in these bytes have left its data cache.
  void MarkClean(uint16_t core, uint64_t begin, uint64_t bytes);

  // The scalar reads of `core` in these bytes were polls.
  void MarkPolls(uint16_t core, uint64_t begin, uint64_t bytes);

  // Both return false when there is a conflict, described in `conflict`.
  bool Read(const Ticket& t, uint64_t granule, uint32_t mask, Conflict* conflict);
  bool Write(const Ticket& t, uint64_t granule, uint32_t mask, AccessKind kind, Conflict* conflict);
  bool ReadRange(const Ticket& t, uint64_t begin, uint64_t bytes, Conflict* conflict);
  bool WriteRange(const Ticket& t, uint64_t begin, uint64_t bytes, AccessKind kind,
                  Conflict* conflict);

  Granule& at(uint64_t granule) {
    if (granule >= touched_) touched_ = granule + 1;
    return granules_[granule];
  }
  // A write of another core in this granule that is not ordered before `t`; `scalar` looks at
  // scalar writes only.
  bool OtherWrite(const Ticket& t, uint64_t granule, bool scalar, Conflict* conflict);
  // Whether, since the last call, atomic writes met whose order is open.
  bool TakeUnorderedAtomic() {
    const bool met = unordered_atomic_;
    unordered_atomic_ = false;
    return met;
  }
  // Whether all bytes of the range were last written by that instruction.
  bool WrittenBy(uint16_t core, uint8_t pipe, uint32_t seq, uint64_t begin, uint64_t bytes);
  uint64_t bytes() const { return count_ * kBlockBytes; }
  // Bytes of the range that were never written.
  uint64_t Unwritten(uint64_t begin, uint64_t bytes) const;

 private:
  void Add(Granule& g, const Entry& entry);

  Granule* granules_ = nullptr;  // anonymous pages, zero until touched
  uint64_t count_ = 0;
  uint64_t touched_ = 0;
  bool unordered_atomic_ = false;
  std::vector<std::unique_ptr<Entry[]>> overflow_;
  std::unordered_map<uint64_t, uint32_t> origins_;  // by granule
};

}  // namespace twin
