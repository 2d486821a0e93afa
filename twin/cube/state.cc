#include "twin/cube/state.h"

#include "twin/cube/fractal.h"
#include "twin/device/launch_state.h"

namespace twin {
namespace {

CubeState& StateOf(const char* what, const Where& where) {
  Core& core = ThisCore(what, where);
  if (!core.cube) Fail(what, where, "this core is an AIV; the registers of the cube are an AIC's");
  return CubeStateOf(core);
}

void CheckRange(const char* what, const Where& where, const char* name, int64_t value,
                int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  Fail(what, where,
       Format("%s is %lld, expected %lld to %lld", name, static_cast<long long>(value),
              static_cast<long long>(least), static_cast<long long>(most)));
}

}  // namespace

CubeState& CubeStateOf(Core& core) {
  if (core.cube_state == nullptr) {
    core.cube_state = std::make_shared<CubeState>();
    core.cube_state->units.resize(MemoryBytes(Hardware::L0C) / kResultFractalBytes);
  }
  return *core.cube_state;
}

void SetFeatureMap(int64_t height, int64_t width, const uint8_t* pad, int64_t mode,
                   const Where& where) {
  const char* what = "SetFmatrix";
  CubeState& state = StateOf(what, where);
  CheckRange(what, where, "l1H", height, 1, 32767);
  CheckRange(what, where, "l1W", width, 1, 32767);
  if (mode != 0) Fail(what, where, "fmatrixMode has to be FMATRIX_LEFT");
  FeatureMap& map = state.feature_map;
  map.height = static_cast<uint32_t>(height);
  map.width = static_cast<uint32_t>(width);
  for (int i = 0; i < 4; ++i) map.pad[i] = pad[i];
  map.set = true;
}

void SetLoadPadding(uint64_t bits, const Where& where) {
  CubeState& state = StateOf("SetLoadDataPaddingValue", where);
  state.pad_bits = bits;
  state.pad_set = true;
}

void SetLoadRepeat(int64_t stride, int64_t time, int64_t mode, const Where& where) {
  const char* what = "SetLoadDataRepeat";
  CubeState& state = StateOf(what, where);
  CheckRange(what, where, "repeatStride", stride, 0, 65535);
  CheckRange(what, where, "repeatTime", time, 0, 255);
  CheckRange(what, where, "repeatMode", mode, 0, 1);
  state.repeat_stride = stride;
  state.repeat_time = time;
  state.repeat_mode = mode;
}

void SetLoadBoundary(uint32_t bytes, const Where& where) {
  const char* what = "SetLoadDataBoundary";
  CubeState& state = StateOf(what, where);
  if (bytes != 0 && bytes < 1024) {
    Fail(what, where, Format("boundaryValue is %u bytes, expected 0 or at least 1024", bytes));
  }
  state.boundary = bytes;
}

void SetNdMatrices(int64_t nd_num, int64_t src_stride, int64_t dst_stride, const Where& where) {
  const char* what = "SetFixpipeNz2ndFlag";
  CubeState& state = StateOf(what, where);
  CheckRange(what, where, "ndNum", nd_num, 1, 65535);
  CheckRange(what, where, "srcNdStride", src_stride, nd_num > 1 ? 1 : 0, 512);
  CheckRange(what, where, "dstNdStride", dst_stride, nd_num > 1 ? 1 : 0, 65535);
  state.nd_num = nd_num;
  state.src_nd_stride = src_stride;
  state.dst_nd_stride = dst_stride;
  state.nd_set = true;
}

void SetFixpipeFactor(uint64_t bits, const Where& where) {
  CubeState& state = StateOf("SetFixpipePreQuantFlag", where);
  state.factor = bits;
  state.factor_set = true;
}

void SetFixpipeTensor(const LocalView& view, bool reset_units, const Where& where) {
  const char* what = "SetFixPipeConfig";
  CubeState& state = StateOf(what, where);
  const Hardware memory = view.memory();
  if (memory != Hardware::FIXBUF && !(reset_units && memory == Hardware::L0C)) {
    Fail(what, where,
         Format("the tensor lies in %s; factors lie in %s", MemoryName(memory),
                MemoryName(Hardware::FIXBUF)));
  }
  if (memory == Hardware::FIXBUF) {
    state.factors = view;
    state.factors_set = true;
  }
  if (!reset_units) return;
  for (Unit& unit : state.units) unit = Unit();
}

void SetHf32(bool on, const Where& where) {
  StateOf("SetHF32Mode", where);
  if (on) {
    Fail("SetHF32Mode", where,
         "the twin computes float Mmad in single precision; HF32 rounds its operands first");
  }
}

// At the end of a core's run.
void CheckUnitsEnd(const Core& core) {
  if (core.cube_state == nullptr) return;
  for (size_t i = 0; i < core.cube_state->units.size(); ++i) {
    const Unit& unit = core.cube_state->units[i];
    if (unit.state != Unit::kHeld && unit.state != Unit::kFull) continue;
    Fail("Mmad", unit.where,
         Format("unit flag left at the end of the kernel: unitFlag %d of this Mmad covers bytes "
                "[%zu, %zu) of L0C, and no Fixpipe with unitFlag 3 has read them",
                unit.state == Unit::kHeld ? 2 : 3, i * kResultFractalBytes,
                (i + 1) * kResultFractalBytes));
  }
}

}  // namespace twin
