// Position bias, mask tensor and dropout of the rows of a pass.
#pragma once

#include "ascendc/attention/pass_buffers.h"
#include "ascendc/attention/pass_rows.h"
#include "ascendc/attention/work_items.h"
#include "ascendc/common/pipe_order.h"

namespace nsa::ascend {

// T: the data type of the query, and of a bias tensor.
template <typename T>
class ScoreBias {
 public:
  __aicore__ inline void Init(const BiasTiling* bias, int64_t heads, GM_ADDR pse, GM_ADDR mask,
                              GM_ADDR drop, GM_ADDR q_starts, GM_ADDR kv_starts,
                              const AscendC::LocalTensor<float>& columns,
                              const AscendC::LocalTensor<float>& scratch, int32_t rows,
                              int32_t most_rows) {
    t_ = bias;
    heads_ = heads;
    pass_rows_ = rows;
    most_rows_ = most_rows;
    columns_ = columns;
    scratch_ = scratch;
    pse_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(pse));
    slopes_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(pse));
    q_starts_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(q_starts));
    kv_starts_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(kv_starts));
    mask_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(mask));
    drop_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(drop));
  }

  // On its way into the buffer of a pass's inputs: what comes with the scores of the rows row ...
  // row + g.rows - 1 and the keys key ... key + g.keys - 1.
  __aicore__ inline void Load(const AscendC::LocalTensor<float>& inputs, const WorkItem& item,
                              int64_t row, int64_t key, const PassRows& g) {
    const PassInputs at(*t_, pass_rows_, most_rows_, sizeof(T));
    const auto bytes = inputs.template ReinterpretCast<uint8_t>();
    if (t_->pse == kPseTensor || t_->pse == kPseAlibi)
      LoadPse(bytes[at.pse].template ReinterpretCast<T>(), item, row, key, g);
    if (t_->mask != 0) LoadMask(bytes[at.mask], item, row, key, g);
    if (t_->drop != 0) LoadDrop(bytes[at.drop], item, row, key, g);
  }

  // Raw products become scores, scale and bias applied; what lies beyond the last key and what the
  // mask tensor hides becomes -infinity.
  __aicore__ inline void Apply(const AscendC::LocalTensor<float>& inputs, const WorkItem& item,
                               int64_t row, int64_t key, const PassRows& g) {
    const PassInputs at(*t_, pass_rows_, most_rows_, sizeof(T));
    const auto bytes = inputs.template ReinterpretCast<uint8_t>();
    if (t_->pse == kPseNone) {
      ScaleRows(inputs, t_->scale, g);
    } else {
      const auto bias = Bias(bytes[at.pse].template ReinterpretCast<T>(), item, row, key, g);
      if (t_->pse_before_scale != 0) AddBias(inputs, bias, g);
      ScaleRows(inputs, t_->scale, g);
      if (t_->pse_before_scale == 0) AddBias(inputs, bias, g);
      // A bias of -infinity hides the key, whatever the sign of the scale.
      if (t_->pse_before_scale != 0 && !(t_->scale > 0)) HideByBias(inputs, bias, g);
    }
    FillTail(inputs, -Infinity(), g);
    if (t_->mask != 0) HideByMask(inputs, bytes[at.mask], g);
  }

  // Before Drop: the bits of every row in whole bytes.
  __aicore__ inline void PrepareDrop(const AscendC::LocalTensor<float>& inputs,
                                     const WorkItem& item, int64_t row, int64_t key,
                                     const PassRows& g) {
    if (t_->drop != 0)
      Align(DropBits(inputs).template ReinterpretCast<uint16_t>(), item, row, key, g);
  }
  // Zeroes the elements of x that dropout does not keep.
  __aicore__ inline void Drop(const AscendC::LocalTensor<float>& x,
                              const AscendC::LocalTensor<float>& inputs, const PassRows& g) {
    if (t_->drop == 0) return;
    const auto bits = DropBits(inputs);
    for (int32_t i = 0; i < g.rows; ++i) {
      const auto x_row = x[static_cast<uint32_t>(i * g.width)];
      AscendC::Select(x_row, bits[static_cast<uint32_t>(i * kBitRowBytes)], x_row, 0.0f,
                      AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, static_cast<uint32_t>(g.width));
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Offset of the bias tensor's element of a query and key 0; negative elements are never visible.
  __aicore__ inline int64_t PseOffset(const WorkItem& item, int64_t row) const {
    const int64_t queries = item.queries, keys = item.visible.keys;
    if (t_->pse_packed != 0) {
      if (t_->pse_row == 0) return item.key_start * heads_ + item.head * keys;
      return item.scores_before * heads_ + (item.head * queries + row) * keys;
    }
    int64_t at = item.segment * t_->pse_batch + item.head * t_->pse_head;
    if (t_->pse != kPseAlibi) return at + row * t_->pse_row;
    // The last 1024 rows are stored; earlier ones repeat them shifted along the diagonal.
    const int64_t skipped = queries - kAlibiRows;
    at += t_->pse_keys - keys;
    if (row >= skipped) return at + (row - skipped) * t_->pse_row;
    const int64_t within = row % kAlibiRows;
    return at + within * t_->pse_row + skipped + within - row;
  }
  // Elements between the rows of a bias tensor that is not of the alibi form.
  __aicore__ inline int64_t PsePitch(const WorkItem& item) const {
    return t_->pse_packed != 0 && t_->pse_row != 0 ? item.visible.keys : t_->pse_row;
  }

 private:
  // Zeros for a transfer that does not fill what is read.
  __aicore__ inline void Clear(const AscendC::LocalTensor<uint8_t>& to, int32_t bytes) const {
    AscendC::Duplicate(to.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0), bytes / 2);
    Order<AscendC::HardEvent::V_MTE2>();
  }

  __aicore__ inline void LoadPse(const AscendC::LocalTensor<T>& to, const WorkItem& item,
                                 int64_t row, int64_t key, const PassRows& g) {
    if (t_->pse == kPseTensor) {
      const int64_t pitch = PsePitch(item);
      CopyRowsIn(to, pse_[PseOffset(item, row) + key], pitch, pitch == 0 ? 1 : g.rows, g.keys,
                 g.width);
      return;
    }
    // Elements above the diagonal may lie outside the tensor.
    Clear(to.template ReinterpretCast<uint8_t>(), g.floats() * static_cast<int32_t>(sizeof(T)));
    for (int32_t i = 0; i < g.rows; ++i) {
      const int32_t keys = static_cast<int32_t>(Min(g.keys, item.visible.High(row + i) - key));
      if (keys <= 0) continue;
      CopyRowsIn(to[static_cast<uint32_t>(i * g.width)], pse_[PseOffset(item, row + i) + key], 0, 1,
                 keys, g.width);
    }
  }

  __aicore__ inline void LoadMask(const AscendC::LocalTensor<uint8_t>& to, const WorkItem& item,
                                  int64_t row, int64_t key, const PassRows& g) {
    if (g.keys < g.width || g.floats() % (2 * kRepeatFloats) != 0)
      Clear(to, RoundUp(g.floats(), 2 * kRepeatFloats));
    int64_t at = item.segment * t_->mask_batch + item.head * t_->mask_head;
    at += (row + (t_->mask_by_token != 0 ? item.query_start : 0)) * t_->mask_row;
    at += key + (t_->mask_by_token != 0 ? item.key_start : 0);
    CopyRowsIn(to, mask_[at], t_->mask_row, g.rows, g.keys, g.width);
  }

  __aicore__ inline AscendC::LocalTensor<uint8_t> DropBits(
      const AscendC::LocalTensor<float>& inputs) const {
    return inputs.template ReinterpretCast<
        uint8_t>()[PassInputs(*t_, pass_rows_, most_rows_, sizeof(T)).drop];
  }
  __aicore__ inline int64_t DropBit(const WorkItem& item, int64_t row, int64_t key) const {
    const int64_t keys = item.visible.keys;
    return item.scores_before * heads_ + (item.head * item.queries + row) * keys + key;
  }
  // Bits of a row begin inside a byte where the number of keys is no multiple of 8. They come
  // twice, from the byte on and from two bytes later on.
  __aicore__ inline void LoadDrop(const AscendC::LocalTensor<uint8_t>& to, const WorkItem& item,
                                  int64_t row, int64_t key, const PassRows& g) {
    Clear(to, 2 * most_rows_ * kBitRowBytes);
    for (int32_t i = 0; i < g.rows; ++i) {
      const int64_t bit = DropBit(item, row + i, key), byte = bit / 8;
      const int32_t bytes = static_cast<int32_t>((bit % 8 + g.keys + 7) / 8);
      const uint32_t at = static_cast<uint32_t>(i * kBitRowBytes);
      CopyRowsIn(to[at], drop_[byte], 0, 1, static_cast<int32_t>(Min(bytes, kBitRowBytes)),
                 kBitRowBytes);
      if (bit % 8 == 0 || bytes <= 2) continue;
      CopyRowsIn(to[static_cast<uint32_t>(most_rows_ * kBitRowBytes) + at], drop_[byte + 2], 0, 1,
                 static_cast<int32_t>(Min(bytes - 2, kBitRowBytes)), kBitRowBytes);
    }
  }
  __aicore__ inline void Align(const AscendC::LocalTensor<uint16_t>& words, const WorkItem& item,
                               int64_t row, int64_t key, const PassRows& g) {
    constexpr int32_t kWords = kBitRowBytes / 2;
    const auto later = words[static_cast<uint32_t>(most_rows_ * kWords)];
    for (int32_t i = 0; i < g.rows; ++i) {
      const auto shift = static_cast<uint16_t>(DropBit(item, row + i, key) % 8);
      if (shift == 0) continue;
      const auto low = words[static_cast<uint32_t>(i * kWords)];
      const auto high = later[static_cast<uint32_t>(i * kWords)];
      AscendC::ShiftRight(low, low, shift, kWords);
      AscendC::ShiftLeft(high, high, static_cast<uint16_t>(16 - shift), kWords);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Or(low, low, high, kWords);
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  // The bias in float.
  __aicore__ inline AscendC::LocalTensor<float> Bias(const AscendC::LocalTensor<T>& raw,
                                                     const WorkItem& item, int64_t row, int64_t key,
                                                     const PassRows& g) {
    if (t_->pse == kPseSlopes) {
      Slope(item, row, key, g);
      return scratch_;
    }
    const bool one_row = t_->pse == kPseTensor && PsePitch(item) == 0;
    ForRepeats(g.keys, [&](uint32_t at, uint64_t lanes) __aicore__ {
      const auto to = scratch_[at];
      RowsToFloat(to, raw[at], lanes, g, one_row);
    });
    AscendC::PipeBarrier<PIPE_V>();
    return scratch_;
  }

  // -slope |j + shift - i|, or of its square root.
  __aicore__ inline void Slope(const WorkItem& item, int64_t row, int64_t key, const PassRows& g) {
    const float slope =
        slopes_.GetValue(static_cast<uint64_t>(item.segment * t_->pse_batch + item.head));
    int64_t shift = t_->slope_shift;
    const auto entry = static_cast<uint64_t>(item.segment);
    if (t_->slope_kv_starts != 0) shift += kv_starts_.GetValue(entry);
    if (t_->slope_q_starts != 0) shift -= q_starts_.GetValue(entry);
    for (int32_t i = 0; i < g.rows; ++i) {
      AscendC::Adds(scratch_[static_cast<uint32_t>(i * g.width)], columns_,
                    static_cast<float>(key + shift - row - i), g.width);
    }
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Abs(scratch_, scratch_, g.floats());
    AscendC::PipeBarrier<PIPE_V>();
    if (t_->slope_sqrt != 0) {
      AscendC::Sqrt(scratch_, scratch_, g.floats());
      AscendC::PipeBarrier<PIPE_V>();
    }
    AscendC::Muls(scratch_, scratch_, -slope, g.floats());
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void AddBias(const AscendC::LocalTensor<float>& x,
                                 const AscendC::LocalTensor<float>& bias, const PassRows& g) {
    ForRepeats(g.keys, [&](uint32_t at, uint64_t lanes) __aicore__ {
      AscendC::Add(x[at], x[at], bias[at], lanes, g.repeats(),
                   AscendC::BinaryRepeatParams(1, 1, 1, g.pitch(), g.pitch(), g.pitch()));
    });
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Where bits are 0 the score becomes -infinity.
  __aicore__ inline void Hide(const AscendC::LocalTensor<float>& x,
                              const AscendC::LocalTensor<uint8_t>& bits, const PassRows& g) {
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Select(x, bits, x, -Infinity(), AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE,
                    static_cast<uint32_t>(g.floats()));
    AscendC::PipeBarrier<PIPE_V>();
  }
  __aicore__ inline void HideByBias(const AscendC::LocalTensor<float>& x,
                                    const AscendC::LocalTensor<float>& bias, const PassRows& g) {
    FillTail(x, 0.0f, g);
    FillTail(bias, 0.0f, g);
    const auto bits = Bits();
    AscendC::CompareScalar(bits, bias, -Infinity(), AscendC::CMPMODE::NE,
                           static_cast<uint32_t>(g.floats()));
    Hide(x, bits, g);
  }
  __aicore__ inline void HideByMask(const AscendC::LocalTensor<float>& x,
                                    const AscendC::LocalTensor<uint8_t>& mask, const PassRows& g) {
    const auto count = static_cast<uint32_t>(RoundUp(g.floats(), 2 * kRepeatFloats));
    const auto bits = Bits();
    BitsOfZeros(bits, scratch_.template ReinterpretCast<half>(), mask, count);
    Hide(x, bits, g);
  }
  __aicore__ inline AscendC::LocalTensor<uint8_t> Bits() const {
    return scratch_
        .template ReinterpretCast<uint8_t>()[PassScratch(*t_, pass_rows_, most_rows_).bits];
  }

  const BiasTiling* t_ = nullptr;
  int64_t heads_ = 0;
  int32_t pass_rows_ = 0, most_rows_ = 0;
  AscendC::LocalTensor<float> scratch_;
  AscendC::LocalTensor<float> columns_;  // 0, 1, ...
  AscendC::GlobalTensor<T> pse_;
  AscendC::GlobalTensor<float> slopes_;
  AscendC::GlobalTensor<int64_t> q_starts_, kv_starts_;
  AscendC::GlobalTensor<uint8_t> mask_, drop_;
};

}  // namespace nsa::ascend
