// A stack of its own that runs until it gives way.
#pragma once

#include <cstddef>
#include <functional>

namespace twin {

class Fiber {
 public:
  // `run` must not throw.
  explicit Fiber(std::function<void()> run);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Continues the fiber until it calls GiveWay or ends.
  void Resume();
  // Called on the fiber: returns from Resume; the next Resume continues here.
  void GiveWay();
  // Called on the fiber: ends it here, with no more of its destructors run.
  [[noreturn]] void Abandon();
  // Whether the address is one that is met first when the stack is full.
  bool BelowStack(const void* address) const;
  bool started() const { return started_; }
  bool ended() const { return ended_; }

  static void Main(Fiber* self);  // entry on the new stack

 private:
  std::function<void()> run_;
  void* stack_ = nullptr;
  void* own_ = nullptr;     // stack pointer while suspended
  void* caller_ = nullptr;  // of whoever resumed
  bool started_ = false;
  bool ended_ = false;
  // Stack of whoever resumed, which AddressSanitizer wants to be told.
  const void* caller_bottom_ = nullptr;
  size_t caller_bytes_ = 0;
  // The C++ runtime keeps these for a thread: what is caught, how many exceptions are on their way.
  struct {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  } exceptions_;
};

}  // namespace twin
