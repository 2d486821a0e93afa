#include "twin/device/shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace twin {
namespace {

constexpr uint32_t kWhole = ~0u;

uint32_t MaskOf(uint64_t begin, uint64_t end) { return (kWhole >> (32 - (end - begin))) << begin; }

bool Ordered(const Ticket& t, const Entry& e) {
  if (e.core == t.core) {
    if (e.pipe == t.pipe && (t.in_order || e.seq == t.seq)) return true;
    return t.seen[e.pipe] >= e.seq;
  }
  return t.remote != nullptr && t.remote[e.core * (kPipes + 1) + e.pipe] >= e.seq;
}

bool SameThread(const Ticket& t, const Entry& e) { return e.core == t.core && e.pipe == t.pipe; }

bool Dirty(const Ticket& t, const Entry& e) {
  return e.dirty && !(e.core == t.core && t.pipe == PipeIndex(PIPE_S));
}

// A conflict with another pipe goes first: the missing flag explains the others of the write.
Conflict WorstConflict(const Ticket& t, Granule& g, uint32_t mask, AccessKind kind,
                       uint64_t granule) {
  Conflict worst;
  for (int i = 0; i < g.count; ++i) {
    const Entry& e = g.entries()[i];
    const bool ordered = Ordered(t, e);
    if ((e.mask & mask) == 0 || (kind == kAtomic && e.kind == kAtomic)) continue;
    if (e.polls && t.pipe == PipeIndex(PIPE_S) && e.core != t.core) continue;
    if (ordered && !Dirty(t, e)) continue;
    if (worst.kind != Conflict::kNone && SameThread(t, e)) continue;
    worst = {ordered ? Conflict::kDirty : Conflict::kHazard, e, e.mask & mask, granule};
  }
  return worst;
}

void Erase(Granule& g, int index) { g.entries()[index] = g.entries()[--g.count]; }

// Calls `visit(granule, mask)` until it returns false.
template <typename Visit>
bool ForEachGranule(uint64_t begin, uint64_t bytes, Visit visit) {
  uint64_t granule = begin / kBlockBytes;
  uint64_t first = begin % kBlockBytes;
  while (bytes > 0) {
    const uint64_t here = std::min<uint64_t>(bytes, kBlockBytes - first);
    if (!visit(granule, MaskOf(first, first + here))) return false;
    bytes -= here;
    first = 0;
    ++granule;
  }
  return true;
}

}  // namespace

Shadow::~Shadow() {
  if (granules_ != nullptr) munmap(granules_, count_ * sizeof(Granule));
}

void Shadow::Resize(uint64_t bytes) {
  if (granules_ != nullptr) munmap(granules_, count_ * sizeof(Granule));
  granules_ = nullptr;
  overflow_.clear();
  origins_.clear();
  touched_ = 0;
  count_ = (bytes + kBlockBytes - 1) / kBlockBytes;
  if (count_ == 0) return;
  void* pages = mmap(nullptr, count_ * sizeof(Granule), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    count_ = 0;
    throw std::bad_alloc();
  }
  granules_ = static_cast<Granule*>(pages);
}

void Shadow::Clear() {
  std::memset(static_cast<void*>(granules_), 0, touched_ * sizeof(Granule));
  touched_ = 0;
  overflow_.clear();
  origins_.clear();
}

void Shadow::MarkWritten(uint64_t begin, uint64_t bytes) {
  ForEachGranule(begin, bytes, [&](uint64_t granule, uint32_t mask) {
    at(granule).written |= mask;
    return true;
  });
}

void Shadow::MarkUnwritten(uint64_t begin, uint64_t bytes) {
  const uint64_t used = touched_ * kBlockBytes;
  if (begin >= used) return;
  bytes = std::min(bytes, used - begin);
  const bool carried = !origins_.empty();
  ForEachGranule(begin, bytes, [&](uint64_t granule, uint32_t mask) {
    at(granule).written &= ~mask;
    if (carried) origins_.erase(granule);
    return true;
  });
}

void Shadow::MarkMissing(uint64_t begin, uint64_t bytes, uint32_t origin) {
  ForEachGranule(begin, bytes, [&](uint64_t granule, uint32_t mask) {
    at(granule).written &= ~mask;
    origins_[granule] = origin;
    return true;
  });
}

void Shadow::MarkClean(uint16_t core, uint64_t begin, uint64_t bytes) {
  ForEachGranule(begin, bytes, [&](uint64_t granule, uint32_t mask) {
    Granule& g = at(granule);
    for (int i = 0; i < g.count; ++i) {
      Entry& e = g.entries()[i];
      // The part of an entry that stays dirty keeps the whole entry dirty.
      if (e.dirty && e.core == core && (e.mask & ~mask) == 0) e.dirty = 0;
    }
    return true;
  });
}

void Shadow::MarkPolls(uint16_t core, uint64_t begin, uint64_t bytes) {
  ForEachGranule(begin, bytes, [&](uint64_t granule, uint32_t mask) {
    Granule& g = at(granule);
    for (int i = 0; i < g.count; ++i) {
      Entry& e = g.entries()[i];
      const bool mine = e.kind == kRead && e.core == core && e.pipe == PipeIndex(PIPE_S);
      if (mine && (e.mask & ~mask) == 0) e.polls = 1;
    }
    return true;
  });
}

uint64_t Shadow::Unwritten(uint64_t begin, uint64_t bytes) const {
  uint64_t unwritten = 0;
  ForEachGranule(begin, bytes, [&](uint64_t granule, uint32_t mask) {
    unwritten += __builtin_popcount(mask & ~granules_[granule].written);
    return true;
  });
  return unwritten;
}

bool Shadow::WrittenBy(uint16_t core, uint8_t pipe, uint32_t seq, uint64_t begin, uint64_t bytes) {
  return ForEachGranule(begin, bytes, [&](uint64_t granule, uint32_t mask) {
    Granule& g = at(granule);
    if ((g.written & mask) != mask) return false;
    uint32_t by_it = 0;
    for (int i = 0; i < g.count; ++i) {
      const Entry& e = g.entries()[i];
      if (e.kind == kRead || (e.mask & mask) == 0) continue;
      if (e.core != core || e.pipe != pipe || e.seq != seq) return false;
      by_it |= e.mask;
    }
    return (by_it & mask) == mask;
  });
}

void Shadow::Add(Granule& g, const Entry& entry) {
  const uint16_t room = g.capacity ? g.capacity : 3;
  if (g.count == room) {
    const uint16_t larger = static_cast<uint16_t>(room * 2 + 2);
    overflow_.emplace_back(new Entry[larger]);
    std::memcpy(overflow_.back().get(), g.entries(), g.count * sizeof(Entry));
    g.more = overflow_.back().get();
    g.capacity = larger;
  }
  g.entries()[g.count++] = entry;
}

bool Shadow::Read(const Ticket& t, uint64_t granule, uint32_t mask, Conflict* conflict) {
  Granule& g = at(granule);
  if (__builtin_expect((g.written & mask) != mask, 0)) {
    *conflict = {Conflict::kUninitialised, {}, mask & ~g.written, granule};
    return false;
  }
  Entry* const entries = g.entries();
  bool recorded = false;
  for (int i = 0; i < g.count;) {
    Entry& e = entries[i];
    if (e.kind != kRead) {
      if ((e.mask & mask) != 0 && (!Ordered(t, e) || Dirty(t, e))) {
        *conflict = {Ordered(t, e) ? Conflict::kDirty : Conflict::kHazard, e, e.mask & mask,
                     granule};
        return false;
      }
    } else if (SameThread(t, e)) {
      // An earlier read of the same pipe is implied by this one.
      if (e.seq == t.seq) {
        e.mask |= mask;
        recorded = true;
      } else if ((e.mask &= ~mask) == 0) {
        if (!recorded) {
          e.seq = t.seq;
          e.site = t.site;
          e.mask = mask;
          e.polls = t.polls;
          recorded = true;
        } else {
          Erase(g, i);
          continue;
        }
      }
    }
    ++i;
  }
  if (!recorded) Add(g, {t.seq, mask, t.site, t.core, t.pipe, kRead, 0, t.polls});
  return true;
}

bool Shadow::Write(const Ticket& t, uint64_t granule, uint32_t mask, AccessKind kind,
                   Conflict* conflict) {
  Granule& g = at(granule);
  if (kind == kAtomic && __builtin_expect((g.written & mask) != mask, 0)) {
    *conflict = {Conflict::kUninitialised, {}, mask & ~g.written, granule};
    return false;
  }
  Entry* const entries = g.entries();
  bool recorded = false;
  for (int i = 0; i < g.count;) {
    Entry& e = entries[i];
    if ((e.mask & mask) != 0) {
      const bool ordered = Ordered(t, e);
      // A poll reads the old value or the new one, and means to.
      const bool polled = e.polls && t.pipe == PipeIndex(PIPE_S) && e.core != t.core;
      const bool commute = polled || (kind == kAtomic && e.kind == kAtomic);
      if (!commute && (!ordered || Dirty(t, e))) {
        *conflict = WorstConflict(t, g, mask, kind, granule);
        return false;
      }
      if (commute && !ordered && !polled) unordered_atomic_ = true;
      if (SameThread(t, e) && e.seq == t.seq && e.kind == kind) {
        e.mask |= mask;
        recorded = true;
      } else if (ordered && (kind != kAtomic || e.kind == kAtomic)) {
        // Whoever is ordered after this write is ordered after what it supersedes. An atomic write
        // supersedes its like only: others need no order with it, but one with what was before.
        if ((e.mask &= ~mask) == 0) {
          Erase(g, i);
          continue;
        }
      }
    }
    ++i;
  }
  g.written |= mask;
  if (!recorded) Add(g, {t.seq, mask, t.site, t.core, t.pipe, kind, t.dirty, 0});
  return true;
}

bool Shadow::OtherWrite(const Ticket& t, uint64_t granule, bool scalar, Conflict* conflict) {
  Granule& g = at(granule);
  for (int i = 0; i < g.count; ++i) {
    const Entry& e = g.entries()[i];
    if (e.kind == kRead || e.core == t.core || Ordered(t, e)) continue;
    if (scalar && e.pipe != PipeIndex(PIPE_S)) continue;
    *conflict = {Conflict::kHazard, e, e.mask, granule};
    return true;
  }
  return false;
}

bool Shadow::ReadRange(const Ticket& t, uint64_t begin, uint64_t bytes, Conflict* conflict) {
  return ForEachGranule(begin, bytes, [&](uint64_t granule, uint32_t mask) {
    return Read(t, granule, mask, conflict);
  });
}

bool Shadow::WriteRange(const Ticket& t, uint64_t begin, uint64_t bytes, AccessKind kind,
                        Conflict* conflict) {
  return ForEachGranule(begin, bytes, [&](uint64_t granule, uint32_t mask) {
    return Write(t, granule, mask, kind, conflict);
  });
}

}  // namespace twin
