// A main program for debugging on the CPU that runs kernels of every mode one after the other, each
// on what the one before it left, with tiling data and tiling keys.
#include <cstdio>

#include "tikicpulib.h"

namespace {

struct Sizes {
  uint32_t rows;
  float added;
};
constexpr uint32_t kRow = 64;
using Tensor = AscendC::GlobalTensor<float>;

Tensor RowsOf(GM_ADDR address) {
  Tensor tensor;
  tensor.SetGlobalBuffer((__gm__ float*)address);
  return tensor;
}

template <AscendC::HardEvent event>
void Order() {
  const auto id = static_cast<event_t>(GetTPipePtr()->FetchEventID(event));
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

// One row from GM to GM through UB, with `added`.
void AddRow(const Tensor& to, const Tensor& from, uint32_t row, float added) {
  AscendC::TBuf<> buf;
  GetTPipePtr()->InitBuffer(buf, kRow * sizeof(float));
  AscendC::LocalTensor<float> t = buf.Get<float>();
  AscendC::DataCopy(t, from[row * kRow], kRow);
  Order<AscendC::HardEvent::MTE2_V>();
  AscendC::Adds(t, t, added, kRow);
  Order<AscendC::HardEvent::V_MTE3>();
  AscendC::DataCopy(to[row * kRow], t, kRow);
  AscendC::PipeBarrier<PIPE_ALL>();
}

void CopyRow(const Tensor& to, const Tensor& from, uint32_t row) {
  AscendC::TBuf<AscendC::TPosition::A1> l1;
  GetTPipePtr()->InitBuffer(l1, kRow * sizeof(float));
  AscendC::LocalTensor<float> t = l1.Get<float>();
  AscendC::DataCopy(t, from[row * kRow], kRow);
  Order<AscendC::HardEvent::MTE2_MTE3>();
  AscendC::DataCopy(to[row * kRow], t, kRow);
  AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace

extern "C" __global__ __aicore__ void add_rows(GM_ADDR x, GM_ADDR y, GM_ADDR tiling) {
  GET_TILING_DATA_WITH_STRUCT(Sizes, sizes, tiling);
  AscendC::TPipe pipe;
  const auto me = static_cast<uint32_t>(AscendC::GetBlockIdx());
  const auto cores = static_cast<uint32_t>(AscendC::GetBlockNum());
  for (uint32_t row = me; row < sizes.rows; row += cores) {
    AddRow(RowsOf(y), RowsOf(x), row, TILING_KEY_IS(7) ? sizes.added : 0.0f);
  }
}

extern "C" __global__ __aicore__ void copy_rows(GM_ADDR x, GM_ADDR y, uint32_t rows) {
  AscendC::TPipe pipe;
  const auto cores = static_cast<uint32_t>(AscendC::GetBlockNum());
  for (auto row = static_cast<uint32_t>(AscendC::GetBlockIdx()); row < rows; row += cores) {
    CopyRow(RowsOf(y), RowsOf(x), row);
  }
}

// AIC copies two rows into the workspace, each AIV of the block adds its number to one of them.
extern "C" __global__ __aicore__ void both_sides(GM_ADDR x, GM_ADDR y, GM_ADDR workspace) {
  AscendC::TPipe pipe;
  if ASCEND_IS_AIC {
    const auto block = static_cast<uint32_t>(AscendC::GetBlockIdx());
    CopyRow(RowsOf(workspace), RowsOf(x), 2 * block);
    CopyRow(RowsOf(workspace), RowsOf(x), 2 * block + 1);
    AscendC::CrossCoreSetFlag<2, PIPE_MTE3>(0);
  } else {
    AscendC::CrossCoreWaitFlag(0);
    const auto row = static_cast<uint32_t>(AscendC::GetBlockIdx());
    AddRow(RowsOf(y), RowsOf(workspace), row, 10.0f * (AscendC::GetSubBlockIdx() + 1));
  }
}

int32_t main() {
  constexpr uint32_t rows = 6, bytes = rows * kRow * sizeof(float);
  auto* x = (uint8_t*)AscendC::GmAlloc(bytes);
  auto* y = (uint8_t*)AscendC::GmAlloc(bytes);
  auto* z = (uint8_t*)AscendC::GmAlloc(bytes);
  auto* workspace = (uint8_t*)AscendC::GmAlloc(bytes);
  auto* tiling = (uint8_t*)AscendC::GmAlloc(sizeof(Sizes));
  for (uint32_t i = 0; i < rows * kRow; ++i) ((float*)x)[i] = static_cast<float>(i);
  *(Sizes*)tiling = {rows, 0.5f};

  ICPU_SET_TILING_KEY(7);
  AscendC::SetKernelMode(KernelMode::AIV_MODE);
  ICPU_RUN_KF(add_rows, 4, x, y, tiling);
  AscendC::SetKernelMode(KernelMode::AIC_MODE);
  ICPU_RUN_KF(copy_rows, 2, y, z, rows);
  AscendC::SetKernelMode(KernelMode::MIX_MODE);
  ICPU_RUN_KF(both_sides, rows / 2, z, y, workspace);
  ICPU_SET_TILING_KEY(8);
  AscendC::SetKernelMode(KernelMode::AIV_MODE);
  ICPU_RUN_KF(add_rows, 1, y, x, tiling);

  uint32_t right = 0;
  for (uint32_t i = 0; i < rows * kRow; ++i) {
    right += ((float*)x)[i] == static_cast<float>(i) + 0.5f + (i / kRow % 2 == 0 ? 10.0f : 20.0f);
  }
  std::printf("%u of %u are right\n", right, rows * kRow);
  for (uint8_t* memory : {x, y, z, workspace, tiling}) AscendC::GmFree(memory);
  return 0;
}
