// Rotary positions of NsaCacheStep: heads that are rotated by the angles of a position.
#pragma once

#include "ascendc/attention/pass_rows.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_rows.h"

namespace nsa::ascend {

class StepRope {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaCacheStepArguments& g) {
    dim_ = g.tiling->selected.dim;
    coarse_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.angles));
    fine_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.fine_angles));
    const StepRopeBuffers bytes(dim_);
    pipe->InitBuffer(angles_in_, 1, bytes.angles);
    pipe->InitBuffer(rope_buffer_, bytes.rope);
    cos_ = rope_buffer_.Get<float>();
    sin_ = cos_[static_cast<uint32_t>(dim_)];
  }

  // cos(a + b) and sin(a + b) of a row of each table.
  __aicore__ inline void Seek(int64_t position) {
    if (position == position_) return;
    position_ = position;
    const auto d = static_cast<uint32_t>(dim_);
    auto rows = angles_in_.AllocTensor<float>();
    AscendC::DataCopy(rows, coarse_[position / kAngleStep * 2 * dim_], 2 * d);
    AscendC::DataCopy(rows[2 * d], fine_[position % kAngleStep * 2 * dim_], 2 * d);
    angles_in_.EnQue(rows);
    rows = angles_in_.DeQue<float>();
    const auto cos_a = rows, sin_a = rows[d], cos_b = rows[2 * d], sin_b = rows[3 * d];
    const auto scratch = sin_[d];
    AscendC::Mul(cos_, cos_a, cos_b, dim_);
    AscendC::Mul(scratch, sin_a, sin_b, dim_);
    AscendC::Mul(sin_, sin_a, cos_b, dim_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Sub(cos_, cos_, scratch, dim_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Mul(scratch, cos_a, sin_b, dim_);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(sin_, sin_, scratch, dim_);
    AscendC::PipeBarrier<PIPE_V>();
    // x[i + D / 2] is subtracted from x[i], and x[i] added to x[i + D / 2].
    AscendC::Muls(sin_, sin_, -1.0f, dim_ / 2);
    AscendC::PipeBarrier<PIPE_V>();
    angles_in_.FreeTensor(rows);
  }

  // y [heads, D]: every pair (x[i], x[i + D / 2]) of a head rotated. `scratch` is as large.
  __aicore__ inline void Rotate(const AscendC::LocalTensor<float>& y,
                                const AscendC::LocalTensor<float>& scratch,
                                const AscendC::LocalTensor<float>& x, int32_t heads) const {
    const auto half = static_cast<uint32_t>(dim_ / 2);
    Multiply(y, x, cos_, heads, dim_);
    Multiply(scratch, x[half], sin_, heads, dim_ / 2);
    Multiply(scratch[half], x, sin_[half], heads, dim_ / 2);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(y, y, scratch, heads * dim_);
    AscendC::PipeBarrier<PIPE_V>();
  }

 private:
  // y[head, i] = x[head, i] * by[i] for i < columns.
  __aicore__ inline void Multiply(const AscendC::LocalTensor<float>& y,
                                  const AscendC::LocalTensor<float>& x,
                                  const AscendC::LocalTensor<float>& by, int32_t heads,
                                  int32_t columns) const {
    const auto pitch = static_cast<uint8_t>(dim_ / kBlockFloats);
    ForRepeats(columns, [&](uint32_t at, uint64_t lanes) __aicore__ {
      AscendC::Mul(y[at], x[at], by[at], lanes, static_cast<uint8_t>(heads),
                   AscendC::BinaryRepeatParams(1, 1, 1, pitch, pitch, 0));
    });
  }

  int32_t dim_ = 0;
  int64_t position_ = -1;  // whose angles there are
  AscendC::GlobalTensor<float> coarse_, fine_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> angles_in_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> rope_buffer_;
  AscendC::LocalTensor<float> cos_, sin_;
};

}  // namespace nsa::ascend
