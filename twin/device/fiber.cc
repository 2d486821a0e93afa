#include "twin/device/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the callee-saved registers on the running stack, its pointer in *from, and goes on at `to`.
extern "C" void twin_switch(void** from, void* to);
// First instruction of a new stack.
extern "C" void twin_enter();

#if defined(__x86_64__)
asm(R"(
.text
.hidden twin_switch
.globl twin_switch
.type twin_switch, @function
twin_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size twin_switch, .-twin_switch
.hidden twin_enter
.globl twin_enter
.type twin_enter, @function
twin_enter:
  .cfi_startproc
  .cfi_undefined rip
  movq %r12, %rdi
  call *%r13
  ud2
  .cfi_endproc
.size twin_enter, .-twin_enter
)");
#elif defined(__aarch64__)
asm(R"(
.text
.hidden twin_switch
.globl twin_switch
.type twin_switch, %function
twin_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size twin_switch, .-twin_switch
.hidden twin_enter
.globl twin_enter
.type twin_enter, %function
twin_enter:
  .cfi_startproc
  .cfi_undefined x30
  mov x0, x19
  blr x20
  brk #1
  .cfi_endproc
.size twin_enter, .-twin_enter
)");
#else
#error "the twin's fibers need x86-64 or AArch64"
#endif

namespace twin {
namespace {

// Address space only: a page costs memory once it is touched.
constexpr size_t kStackBytes = 1 << 20;

// Stacks of ended fibers; their touched pages are used again.
std::vector<void*>& FreeStacks() {
  static auto* stacks = new std::vector<void*>;
  return *stacks;
}

void* TakeStack() {
  if (!FreeStacks().empty()) {
    void* stack = FreeStacks().back();
    FreeStacks().pop_back();
#if defined(__SANITIZE_ADDRESS__)
    // A fiber's last frames never return, so their marks are still there.
    __asan_unpoison_memory_region(stack, kStackBytes);
#endif
    return stack;
  }
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  // Running off the end faults instead of overwriting other memory.
  mprotect(stack, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
  return stack;
}

// AddressSanitizer follows the stack it is told of; without it there is nothing to do.
#if defined(__SANITIZE_ADDRESS__)
void StartSwitch(void** frames, const void* bottom, size_t bytes) {
  __sanitizer_start_switch_fiber(frames, bottom, bytes);
}
void FinishSwitch(void* frames, const void** bottom, size_t* bytes) {
  __sanitizer_finish_switch_fiber(frames, bottom, bytes);
}
#else
void StartSwitch(void**, const void*, size_t) {}
void FinishSwitch(void*, const void**, size_t*) {}
#endif

}  // namespace

Fiber::Fiber(std::function<void()> run) : run_(std::move(run)), stack_(TakeStack()) {
  auto* top = reinterpret_cast<uintptr_t*>(static_cast<char*>(stack_) + kStackBytes);
#if defined(__x86_64__)
  // twin_switch leaves a stack so: r15 r14 r13 r12 rbx rbp, then the return address. After it is
  // taken the stack is a multiple of 16, as a caller has it.
  uintptr_t* sp = top - 9;
  sp[0] = sp[1] = 0;
  sp[2] = reinterpret_cast<uintptr_t>(&Fiber::Main);
  sp[3] = reinterpret_cast<uintptr_t>(this);
  sp[4] = sp[5] = 0;
  sp[6] = reinterpret_cast<uintptr_t>(&twin_enter);
  sp[7] = sp[8] = 0;
#else
  uintptr_t* sp = top - 20;
  for (int i = 0; i < 20; ++i) sp[i] = 0;
  sp[0] = reinterpret_cast<uintptr_t>(this);
  sp[1] = reinterpret_cast<uintptr_t>(&Fiber::Main);
  sp[11] = reinterpret_cast<uintptr_t>(&twin_enter);
#endif
  own_ = sp;
}

Fiber::~Fiber() { FreeStacks().push_back(stack_); }

bool Fiber::BelowStack(const void* address) const {
  // One page is closed; a large frame may reach further.
  constexpr uintptr_t kReach = 1 << 16;
  const auto bottom =
      reinterpret_cast<uintptr_t>(stack_) + static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at < bottom && at >= bottom - kReach;
}

void Fiber::Main(Fiber* self) {
  FinishSwitch(nullptr, &self->caller_bottom_, &self->caller_bytes_);
  self->run_();
  self->ended_ = true;
  self->GiveWay();
  std::abort();
}

void Fiber::Resume() {
  started_ = true;
  void* frames = nullptr;
  void* const exceptions = abi::__cxa_get_globals();
  decltype(exceptions_) of_caller;
  std::memcpy(&of_caller, exceptions, sizeof(of_caller));
  std::memcpy(exceptions, &exceptions_, sizeof(exceptions_));
  StartSwitch(&frames, stack_, kStackBytes);
  twin_switch(&caller_, own_);
  FinishSwitch(frames, nullptr, nullptr);
  std::memcpy(&exceptions_, exceptions, sizeof(exceptions_));
  std::memcpy(exceptions, &of_caller, sizeof(of_caller));
}

void Fiber::Abandon() {
  ended_ = true;
  GiveWay();
  std::abort();
}

void Fiber::GiveWay() {
  void* frames = nullptr;
  StartSwitch(ended_ ? nullptr : &frames, caller_bottom_, caller_bytes_);
  twin_switch(&own_, caller_);
  FinishSwitch(frames, &caller_bottom_, &caller_bytes_);
}

}  // namespace twin
