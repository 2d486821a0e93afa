// The cube's registers and the unit flags of L0C.
#pragma once

#include <cstdint>
#include <vector>

#include "twin/device/core.h"
#include "twin/device/instr.h"

namespace twin {

// The feature map that LoadData unfolds.
struct FeatureMap {
  uint32_t height = 0;
  uint32_t width = 0;
  uint8_t pad[4] = {0, 0, 0, 0};  // left, right, top, bottom
  bool set = false;
};

// One fractal of L0C under the unit flag.
struct Unit {
  enum State : uint8_t {
    kIdle,      // the flag is 0 and no Mmad is using it
    kHeld,      // a Mmad with unitFlag 2 wrote it; the flag is 0
    kFull,      // a Mmad with unitFlag 3 set the flag
    kReleased,  // a Fixpipe with unitFlag 3 cleared the flag
  } state = kIdle;
  uint32_t clock[kPipes] = {};  // what is complete once that instruction is
  Where where;
};

struct CubeState {
  FeatureMap feature_map;
  uint64_t pad_bits = 0;
  bool pad_set = false;
  int64_t repeat_stride = 0;
  int64_t repeat_time = 1;
  int64_t repeat_mode = 0;
  uint32_t boundary = 0;
  // Fixpipe reads these: matrices of an ND result, one factor, and where factors of columns lie.
  int64_t nd_num = 0, src_nd_stride = 0, dst_nd_stride = 0;
  bool nd_set = false;
  uint64_t factor = 0;
  bool factor_set = false;
  LocalView factors;
  bool factors_set = false;
  std::vector<Unit> units;  // one for each fractal of L0C
  // LoadDataWithSparse keeps two bits for each element here, for each fractal of L0B.
  struct SparseIndex {
    uint8_t bytes[128];
    bool set;
  };
  std::vector<SparseIndex> sparse_index;
  // The first Mmad since the last PipeBarrier<PIPE_M> that is too short for the hardware to order
  // the next one after it; 0 when there is none.
  uint32_t first_small = 0;
};

CubeState& CubeStateOf(Core& core);

// Fractals of L0C that an instruction works on: `columns` runs of `rows` fractals, `pitch` fractals
// from run to run.
struct UnitRange {
  uint64_t begin;
  uint64_t rows;
  uint64_t columns;
  uint64_t pitch;
};

// The unit flag's part of an instruction: refuses what would wait for ever or runs past the flag,
// orders the instruction after the one on the other pipe, and moves the flags on.
void TakeUnits(Instr* instr, const UnitRange& range, int64_t unit_flag, bool writes);

TWIN_API void SetFeatureMap(int64_t height, int64_t width, const uint8_t* pad, int64_t mode,
                            const Where& where);
TWIN_API void SetLoadPadding(uint64_t bits, const Where& where);
TWIN_API void SetLoadRepeat(int64_t stride, int64_t time, int64_t mode, const Where& where);
TWIN_API void SetLoadBoundary(uint32_t bytes, const Where& where);
TWIN_API void SetNdMatrices(int64_t nd_num, int64_t src_stride, int64_t dst_stride,
                            const Where& where);
TWIN_API void SetFixpipeFactor(uint64_t bits, const Where& where);
// `view` holds factors, or is a tensor of L0C given for the sake of `reset_units` alone.
TWIN_API void SetFixpipeTensor(const LocalView& view, bool reset_units, const Where& where);
TWIN_API void SetHf32(bool on, const Where& where);

}  // namespace twin
