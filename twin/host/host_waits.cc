#include "twin/host/host_waits.h"

#include <atomic>

namespace {

std::atomic<uint64_t> reads{0}, synchronisations{0};

}  // namespace

void twin::CountRead() { ++reads; }
void twin::CountSynchronisation() { ++synchronisations; }

void TwinCountHostWaits(TwinHostWaits* waits) { *waits = {reads, synchronisations}; }
