// One instruction being issued. The order in an implementation:
//   1. construct Instr with the operands (issue: numbers, ordering, kind of core are checked),
//   2. Check(...) the arguments,
//   3. Read(...) what it reads, then Write(...) what it writes; these check liveness, alignment,
//      bounds, uninitialised bytes and hazards, and record the access,
//   4. compute on Data<T>(operand).
#pragma once

#include <array>
#include <initializer_list>
#include <string>

#include "twin/device/error.h"
#include "twin/device/missing.h"
#include "twin/device/shadow.h"
#include "twin/device/view.h"

namespace AscendC {
template <typename T>
class LocalTensor;
template <typename T>
class GlobalTensor;
}  // namespace AscendC

namespace twin {

struct Core;

constexpr int kMaxOperands = 9;

struct Operand {
  const char* role = "";  // as in CANN's signature: dst, src0, ...
  const char* dtype = "";
  uint32_t element = 1;  // bytes
  const LocalView* local = nullptr;
  const GlobalView* global = nullptr;

  Operand() = default;
  template <typename T>
  Operand(const char* role_name, const AscendC::LocalTensor<T>& tensor)
      : role(role_name), dtype(TypeName<T>()), element(sizeof(T)), local(&tensor) {}
  template <typename T>
  Operand(const char* role_name, const AscendC::GlobalTensor<T>& tensor)
      : role(role_name), dtype(TypeName<T>()), element(sizeof(T)), global(&tensor) {}
  Operand(const char* role_name, const char* dtype_name, uint32_t element_bytes,
          const LocalView& view)
      : role(role_name), dtype(dtype_name), element(element_bytes), local(&view) {}
};

// Contiguous bytes.
struct Bytes {
  uint64_t begin;  // from the operand's address
  uint64_t count;
};

// `rows` runs of `row_bytes`, `pitch` bytes from start to start.
struct Rows {
  uint64_t begin;
  uint64_t rows;
  uint64_t row_bytes;
  uint64_t pitch;
};

// Eight data blocks in each repeat, with the bytes of each block that take part. Strides in blocks.
struct Lanes {
  std::array<uint32_t, 8> mask{};
  uint32_t repeats = 0;
  uint32_t block_stride = 1;
  uint32_t repeat_stride = 8;
  uint64_t begin = 0;  // bytes from the operand's address

  // The first `lanes` elements of a repeat, or the elements whose bit is set.
  TWIN_API static Lanes First(uint32_t element, uint64_t lanes, uint32_t repeats,
                              uint32_t block_stride, uint32_t repeat_stride);
  TWIN_API static Lanes Bits(uint32_t element, const uint64_t* bits, uint32_t repeats,
                             uint32_t block_stride, uint32_t repeat_stride);
};

class TWIN_API Instr {
 public:
  Instr(const char* name, pipe_t pipe, const Where& where, std::initializer_list<Operand> operands);
  Instr(const Instr&) = delete;
  Instr& operator=(const Instr&) = delete;

  // Takes the place of operand `index`, for instructions with lists of operands.
  void SetOperand(int index, const Operand& operand);

  // `align` 0 leaves the address of a local operand free; GM needs its element's alignment.
  void Read(int operand, const Bytes& bytes, uint32_t align = kBlockBytes);
  void Read(int operand, const Rows& rows, uint32_t align = kBlockBytes);
  void Read(int operand, const Lanes& lanes, uint32_t align = kBlockBytes);
  void Write(int operand, const Bytes& bytes, uint32_t align = kBlockBytes);
  void Write(int operand, const Rows& rows, uint32_t align = kBlockBytes);
  void Write(int operand, const Lanes& lanes, uint32_t align = kBlockBytes);

  // Like Read, for a move that hands bytes without a value on as such: only the others are read.
  void ReadHeld(int operand, const Bytes& bytes, uint32_t align = kBlockBytes);
  // The bytes with a value of the aligned block of 32 bytes at `begin`, one bit each. All in GM.
  uint32_t Held(int operand, uint64_t begin) const;

  // Where the launch carries them, bytes without a value that this operand reads are no error:
  // what is computed from them holds none either. Called before Read; without it a read of such
  // bytes is an error under either rule.
  void Carries(int operand) { carries_ |= 1u << operand; }
  // Whether a carrying operand has read such bytes. After all reads.
  bool missing() {
    if (__builtin_expect(missing_ == nullptr, 1)) return false;
    missing_->TakeBack();
    return true;
  }
  // Where they come from; 0 without any. What others write for this instruction is marked with it.
  uint32_t MissingOrigin() { return missing() ? missing_->origin() : 0; }
  // Does `move`, which moves bytes between operands and does nothing else. Bytes without a value
  // go where the others go. After the writes.
  template <typename Move>
  void MoveBytes(Move move) {
    move();
    if (missing()) OnImages(move);
  }
  // Does `step` on images of the operands, in which a byte without a value is not 0: Data leads
  // there. What it leaves at the places of the writes tells which of them hold no value.
  template <typename Step>
  void OnImages(Step step) {
    images_ = true;
    step();
    images_ = false;
    MarkMissing();
  }

  // A store to GM that combines with what is there.
  void WriteAtomic(int operand, const Rows& rows);
  // Marks the scalar write to GM as held back in the data cache.
  void HeldInCache() { ticket_.dirty = true; }
  // CANN's own use of memory inside the instruction, in order with itself: what was there is gone.
  void UseAsScratch(int operand, const Bytes& bytes);
  // Marks the scalar read of GM as one that looks for another core's write.
  void Polls() { ticket_.polls = true; }
  // The bytes are written with values that nobody may rely on.
  void Scramble(int operand, const Bytes& bytes);

  // The data cache writes back whole lines of 64 bytes: fails where another core wrote into the
  // line of byte `offset` of `buffer` and nothing orders that before this instruction.
  void CheckLineOwned(GlobalBuffer& buffer, uint64_t offset, bool scalar) const;

  // The operand has to lie in one of these memories.
  void InMemory(int operand, std::initializer_list<Hardware> memories);
  // CANN's rule for repeats: inside one repeat destination and source are the same bytes or share
  // none, and no repeat writes what a later one reads. What breaks it, or nothing.
  std::string Overlap(int dst, const Lanes& dst_lanes, int src, const Lanes& src_lanes) const;
  // The local operand has that many bytes from its address on.
  void CheckRoom(int operand, uint64_t bytes) const {
    const uint64_t room = operands_[operand].local->bytes;
    if (bytes > room) BeyondTensor(operand, room, bytes);
  }
  // No shared byte at all (contiguous extents).
  void CheckDisjoint(int a, const Bytes& a_bytes, int b, const Bytes& b_bytes);

  // Later accesses do not conflict with earlier instructions of the same pipe.
  void InPipeOrder() { ticket_.in_order = true; }
  // This instruction alone is ordered after number `seq` of `pipe`, and so after what came before
  // it on that pipe.
  void KnowComplete(pipe_t pipe, uint32_t seq);
  // The pipe has waited inside this instruction, so this and what it is given later come after all
  // that `known`, the clock of another instruction, covers.
  void Learn(const uint32_t* known);
  // The result depends on the register CTRL, or this is the write of it.
  void ReadsCtrl();
  void WritesCtrl() const;
  // These are complete once this instruction is, [kPipes].
  void CopyClock(uint32_t* clock) const;
  uint32_t seq() const { return ticket_.seq; }
  const Where& where() const { return where_; }

  template <typename T>
  T* Data(int operand) const {
    return reinterpret_cast<T*>(Address(operand));
  }

  // For the performance model: repeats of a vector or cube instruction. Bytes are counted by Read
  // and Write.
  void CountRepeats(uint64_t repeats);
  // Fractals of L0C [begin, end) that the instruction takes under the unit flag.
  void CountUnits(uint64_t begin, uint64_t end, int64_t flag);

  template <typename... A>
  void Check(bool legal, const char* format, A... values) const {
    if (__builtin_expect(!legal, 0)) Fail(Format(format, values...));
  }
  [[noreturn]] void Fail(const std::string& message) const;
  void Warn(const char* kind, const std::string& message) const;
  Core& core() const { return *core_; }
  const Operand& operand(int index) const { return operands_[index]; }

 private:
  void BeginRecord();
  uint8_t* Address(int operand) const;
  uint8_t* ImageAddress(int operand) const;
  void Carry(Shadow* shadow, int operand, const Conflict& conflict);
  void MarkMissing();
  // Returns where the option makes it a warning.
  void BeyondTensor(int operand, uint64_t room, uint64_t end) const;
  const LocalView& Local(int operand, uint64_t begin, uint64_t end, uint32_t align) const;
  void Access(int operand, AccessKind kind, const Rows& rows, uint32_t align);
  void AccessGlobal(int operand, AccessKind kind, const Rows& rows);
  bool LearnFromPoll(GlobalBuffer& buffer, const Conflict& conflict);
  void RecordGlobal(AccessKind kind, GlobalBuffer& buffer, int64_t first, const Rows& rows);
  bool AccessShifted(Shadow& shadow, AccessKind kind, uint64_t at, uint32_t mask,
                     Conflict* conflict);
  void AccessLanes(int operand, AccessKind kind, const Lanes& lanes, uint32_t align);
  bool OrderedByCompiler(const Conflict& conflict);
  // Returns where an option takes the conflict away or makes it a warning; then it is none any
  // more.
  void Excuse(Shadow* shadow, int operand, AccessKind kind, const Conflict& conflict,
              uint64_t base);
  [[noreturn]] void FailConflict(int operand, AccessKind kind, const Conflict& conflict,
                                 uint64_t base) const;
  std::string Uninitialised(int operand, const Conflict& conflict, const std::string& bytes) const;
  std::string Describe(int operand) const;
  std::string Switch(const char* name, const char* makes) const;

  const char* name_;
  pipe_t pipe_;
  Where where_;
  Core* core_;
  Ticket ticket_;
  uint32_t own_seen_[kPipes + 1];  // what ticket_ points to after KnowComplete
  int count_ = 0;
  uint32_t carries_ = 0;  // a bit for each operand
  bool images_ = false;   // Data leads to the images in missing_
  std::unique_ptr<MissingBytes> missing_;
  Operand operands_[kMaxOperands];
};

constexpr uint64_t CeilDivide(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }

// A field against its documented range; `value` as the kernel wrote it, before narrowing.
inline void CheckField(const Instr& instr, const char* name, int64_t value, int64_t least,
                       int64_t most) {
  instr.Check(value >= least && value <= most, "%s is %lld, expected %lld to %lld", name,
              static_cast<long long>(value), static_cast<long long>(least),
              static_cast<long long>(most));
}

}  // namespace twin
