// A record of what the cores of a launch did, in program order: the material of modelled time.
// Recording decides nothing, so it does not depend on how the cores took turns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace twin::clock {

// In the order of the twin's pipes.
enum Pipe : uint8_t { kS, kV, kM, kMte1, kMte2, kMte3, kFix, kPipeCount };
// In the order of CANN's Hardware.
enum class Memory : uint8_t { kGm, kUb, kL1, kL0a, kL0b, kL0c, kBias, kFixbuf, kNone };

enum class OpKind : uint8_t {
  kInstruction,
  kSetFlag,     // pipe -> other, `id`
  kWaitFlag,    // pipe -> other, `id`
  kBarrier,     // of `pipe`
  kBarrierAll,  // of every pipe: the scalar unit waits
  kCrossSet,    // by `pipe`, mode in `other`, flag in `id`
  kCrossWait,   // flag in `id`
  kSoftSync,    // of `id` cores, group in `other`
};

struct Op {
  uint32_t site = 0;  // the place in the source
  OpKind kind = OpKind::kInstruction;
  uint8_t pipe = 0;
  uint8_t other = 0;
  uint8_t unit_flag = 0;  // of Mmad and Fixpipe
  uint16_t id = 0;
  uint8_t element = 0;  // bytes
  Memory to = Memory::kNone;
  Memory from = Memory::kNone;
  uint16_t accesses = 0;      // to GM
  uint32_t first_access = 0;  // its first in CoreRecord::accesses
  uint32_t repeats = 0;       // of a vector or cube instruction
  uint32_t conflicts = 0;     // repeats that a bank conflict lengthens, counted as often as it does
  uint32_t read_bytes = 0;    // on the chip
  uint32_t written_bytes = 0;  // on the chip
  uint16_t unit_begin = 0;     // fractals of L0C under the unit flag
  uint16_t unit_end = 0;
};

// Rows in GM, from a buffer's place in a space that holds all buffers one after the other.
struct GmAccess {
  uint64_t begin;
  uint64_t pitch;
  uint32_t rows;
  uint32_t row_bytes;
  bool write;
  bool leaves;  // written to an output, so it goes to HBM in the end
};

// Blocks of 32 bytes in UB that a vector instruction touches in each of its repeats.
struct UbAccess {
  uint32_t begin;  // first block
  uint32_t repeats;
  uint32_t block_stride;
  uint32_t repeat_stride;
  uint8_t blocks;  // bit per block of a repeat
  bool write;
};

// One core's list.
class CoreRecord {
 public:
  bool cube = false;
  uint32_t block = 0;
  uint32_t sub_block = 0;
  std::vector<Op> ops;
  std::vector<GmAccess> accesses;

  void Begin(uint32_t site, int pipe, uint32_t element, Memory to, Memory from);
  void Sync(OpKind kind, uint32_t site, int pipe, int other, int id);
  void Repeats(uint64_t repeats) { ops.back().repeats += static_cast<uint32_t>(repeats); }
  void Global(const GmAccess& access);
  // Bytes of an on-chip memory; of UB as a run from `begin` on.
  void Local(int operand, bool write, uint64_t begin, uint64_t rows, uint64_t row_bytes);
  void Lanes(int operand, const UbAccess& access, uint64_t bytes);
  void Units(uint64_t begin, uint64_t end, int64_t flag);
  // After the last operation.
  void Close();

 private:
  struct Touched {
    int operand;
    uint64_t begin;
    uint64_t bytes;  // of a run; 0: `lanes` says what
    UbAccess lanes;
  };
  void CountConflicts(Op* op);

  std::vector<Touched> touched_;  // by the last operation, in UB
};

struct Place {
  std::string name;
  std::string file;
  int line = 0;
};

struct LaunchRecord {
  std::string kernel;
  uint32_t blocks = 0;
  uint32_t aic_per_block = 0;
  uint32_t aiv_per_block = 0;
  std::vector<std::unique_ptr<CoreRecord>> cores;
  std::vector<Place> places;  // by Op::site
  uint64_t gm_bytes = 0;      // of the space of GmAccess
};

}  // namespace twin::clock
