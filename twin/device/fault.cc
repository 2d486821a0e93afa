#include "twin/device/fault.h"

#include <signal.h>

#include <cstdlib>
#include <cstring>

#include "twin/device/launch_state.h"

namespace twin {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int kCount = sizeof(kSignals) / sizeof(kSignals[0]);
// A fiber's stack may be full, so the handler has one of its own.
constexpr size_t kHandlerStack = 64 << 10;

struct Fault {
  int signal = 0;
  bool stack_full = false;
  const void* address = nullptr;
};

Fault fault;
struct sigaction before[kCount];
// Guards nobody else's faults: current_core is one for the process, and a launch runs in one
// thread.
thread_local bool guarded = false;

// A handler may do little: it keeps the facts and leaves the fiber, as a long jump would.
void Handle(int signal, siginfo_t* info, void*) {
  Core* core = guarded ? current_core : nullptr;
  if (core != nullptr) {
    fault.signal = signal;
    fault.address = info->si_addr;
    fault.stack_full = core->fiber->BelowStack(info->si_addr);
    core->fiber->Abandon();
  }
  // Back to the fault, which then meets the handler of whoever was there before.
  for (int i = 0; i < kCount; ++i) {
    if (kSignals[i] == signal) sigaction(signal, &before[i], nullptr);
  }
}

const char* SignalName(int signal) {
  return signal == SIGSEGV  ? "SIGSEGV"
         : signal == SIGBUS ? "SIGBUS"
         : signal == SIGFPE ? "SIGFPE"
                            : "SIGILL";
}

std::string FaultText(const Fault& f) {
  if (f.stack_full) {
    return Format("the stack is full (%s): arrays that are too large, or a call without end",
                  SignalName(f.signal));
  }
  if (f.signal == SIGFPE) return "an integer division by zero (SIGFPE)";
  if (f.signal == SIGILL) return "an instruction that does not exist (SIGILL)";
  const auto address = reinterpret_cast<uintptr_t>(f.address);
  return Format(
      "an access through a pointer%s to 0x%llx (%s); memory of the device is reached "
      "through tensors",
      address < 4096 ? " that is null or nearly so," : "", static_cast<unsigned long long>(address),
      SignalName(f.signal));
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// AddressSanitizer reports such faults itself, with more detail.
FaultGuard::FaultGuard() {}
FaultGuard::~FaultGuard() {}
#else
FaultGuard::FaultGuard() {
  // The stack belongs to the thread, and outlives the guard: a signal may come at any time.
  thread_local char* stack = nullptr;
  stack_t current;
  if (sigaltstack(nullptr, &current) == 0 && (current.ss_flags & SS_DISABLE) != 0) {
    if (stack == nullptr) stack = static_cast<char*>(std::malloc(kHandlerStack));
    stack_t own = {};
    own.ss_sp = stack;
    own.ss_size = kHandlerStack;
    if (stack == nullptr || sigaltstack(&own, nullptr) != 0) return;
  }
  struct sigaction action;
  std::memset(&action, 0, sizeof(action));
  action.sa_sigaction = Handle;
  // The handler does not return, so its signal must not stay blocked.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < kCount; ++i) sigaction(kSignals[i], &action, &before[i]);
  guarded = true;
}

FaultGuard::~FaultGuard() {
  if (!guarded) return;
  guarded = false;
  for (int i = 0; i < kCount; ++i) sigaction(kSignals[i], &before[i], nullptr);
}
#endif

void ReportFault(LaunchState& launch, const Core& core) {
  if (fault.signal == 0) return;
  const Fault found = fault;
  fault = {};
  if (!launch.error.empty()) return;
  const char* name = core.last_name;
  const std::string last =
      name == nullptr ? "before the first instruction" : Format("after %s", name);
  launch.error = PlaceName(&core, core.last_where) + ": " + last + ": " + FaultText(found);
}

}  // namespace twin
