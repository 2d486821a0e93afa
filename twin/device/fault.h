// A kernel that the processor stops (a null pointer, a stack that is full, a division by zero)
// becomes an error of the launch instead of a signal that ends the process.
#pragma once

namespace twin {

struct LaunchState;
struct Core;

// While it lives, such a fault inside a kernel of this thread ends the core's fiber; the launch
// then calls ReportFault. Faults anywhere else go where they went before.
class FaultGuard {
 public:
  FaultGuard();
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;
};

// The error of a fiber that ended by a fault since the last call; without one does nothing.
void ReportFault(LaunchState& launch, const Core& core);

}  // namespace twin
