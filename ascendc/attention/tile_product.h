// Matrix products of tiles on the cube core: rows from global memory into L1, fractals into L0A and
// L0B, the result from L0C to global memory.
#pragma once

#include "ascendc/attention/attention_sizes.h"
#include "kernel_operator.h"

namespace nsa::ascend {

// Slots of L1 that are filled and used in turn. An object has its slots' event ids to itself.
template <typename T, int32_t slots, int32_t first_event>
class L1Ring {
 public:
  // `memory` holds all slots.
  __aicore__ inline void Start(const AscendC::LocalTensor<T>& memory, uint32_t slot_bytes) {
    memory_ = memory;
    slot_elements_ = slot_bytes / sizeof(T);
    for (int32_t slot = 0; slot < slots; ++slot)
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(first_event + slot);
  }
  __aicore__ inline void Finish() {
    for (int32_t slot = 0; slot < slots; ++slot)
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(first_event + slot);
  }
  // The next slot, when its last user is done. Fill it on MTE2, then call EndFill.
  __aicore__ inline AscendC::LocalTensor<T> BeginFill() {
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(first_event + fill_);
    return Slot(fill_);
  }
  __aicore__ inline void EndFill() {
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(first_event + fill_);
    fill_ = (fill_ + 1) % slots;
  }
  // The slot that was filled first, or one after it. Use it on MTE1 as often as needed, then call
  // EndUse.
  __aicore__ inline void BeginUse(int32_t later = 0) {
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(first_event + (use_ + later) % slots);
  }
  __aicore__ inline void EndUse() {
    AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(first_event + use_);
    use_ = (use_ + 1) % slots;
  }

 private:
  __aicore__ inline AscendC::LocalTensor<T> Slot(int32_t slot) const {
    return memory_[static_cast<uint32_t>(slot) * slot_elements_];
  }

  AscendC::LocalTensor<T> memory_;
  uint32_t slot_elements_ = 0;
  int32_t fill_ = 0, use_ = 0;
};

// A matrix in L1, its columns in blocks of 32 bytes, as CopyRows leaves it; and where a factor
// starts in it.
template <typename T>
struct L1Matrix {
  AscendC::LocalTensor<T> tensor;
  int32_t rows;     // a multiple of 16 apart from column block to column block
  int32_t columns;  // of 16
  int32_t row = 0, column = 0;
};

// [rows, columns] from global memory, `pitch` elements from row to row. A last row that is the
// first of 16 comes twice: the cube would take a single row for a vector.
template <typename T>
__aicore__ inline L1Matrix<T> CopyRows(const AscendC::LocalTensor<T>& to,
                                       const AscendC::GlobalTensor<T>& from, int64_t pitch,
                                       int32_t rows, int32_t columns) {
  constexpr int64_t kMostPitch = 65535;
  const int32_t padded = RoundUp(rows, 16);
  const auto stride = static_cast<uint16_t>(padded);
  const auto width = static_cast<uint16_t>(columns);
  const auto copy_row = [&](int32_t row, int32_t as) __aicore__ {
    AscendC::DataCopy(to[static_cast<uint32_t>(as) * (kBlockBytes / sizeof(T))], from[row * pitch],
                      AscendC::Nd2NzParams(1, 1, width, 0, width, stride, 1, 0));
  };
  if (pitch <= kMostPitch) {
    AscendC::DataCopy(to, from,
                      AscendC::Nd2NzParams(1, static_cast<uint16_t>(rows), width, 0,
                                           static_cast<uint16_t>(pitch), stride, 1, 0));
  } else {
    for (int32_t row = 0; row < rows; ++row) copy_row(row, row);
  }
  if (rows % 16 == 1) copy_row(rows - 1, rows);
  return {to, padded, RoundUp(columns, 16)};
}

// Rows of queries, `group` heads side by side each and `pitch` elements from query to query, as the
// rows of one matrix: the heads of the first query, then those of the second.
template <typename T>
__aicore__ inline L1Matrix<T> CopyQueries(const AscendC::LocalTensor<T>& to,
                                          const AscendC::GlobalTensor<T>& from, int64_t pitch,
                                          int32_t queries, int32_t group, int32_t columns) {
  constexpr int64_t kMostPitch = 65535;
  constexpr int32_t kC0 = kBlockBytes / sizeof(T);
  const int64_t length = int64_t{group} * columns;
  if (group == 1) return CopyRows(to, from, pitch, queries, columns);
  if (pitch == length || queries == 1) return CopyRows(to, from, columns, queries * group, columns);
  const int32_t rows = queries * group, padded = RoundUp(rows, 16);
  const auto stride = static_cast<uint16_t>(padded), width = static_cast<uint16_t>(columns);
  const auto copy = [&](int32_t query, int32_t count) __aicore__ {
    AscendC::DataCopy(
        to[static_cast<uint32_t>(query * group * kC0)], from[query * pitch],
        AscendC::Nd2NzParams(static_cast<uint16_t>(count), static_cast<uint16_t>(group), width,
                             static_cast<uint16_t>(count > 1 ? pitch : 0), width, stride, 1,
                             static_cast<uint16_t>(group * kC0)));
  };
  if (pitch <= kMostPitch) {
    copy(0, queries);
  } else {
    for (int32_t query = 0; query < queries; ++query) copy(query, 1);
  }
  return {to, padded, RoundUp(columns, 16)};
}

// The form of a factor in L1: as the product has it, or transposed.
enum class Form { kStraight, kTransposed };

// L0A, L0B and L0C, each in two slots.
template <typename T>
class TileProduct {
 public:
  __aicore__ inline void Start(AscendC::TPipe* pipe) {
    pipe->InitBuffer(l0a_, kL0Bytes);
    pipe->InitBuffer(l0b_, kL0Bytes);
    pipe->InitBuffer(l0c_, kL0cBytes);
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kFirstLoadEvent + slot);
      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
    }
  }
  __aicore__ inline void Finish() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kFirstLoadEvent + slot);
      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);
    }
  }

  // A new result. Add products to it, then Store it.
  __aicore__ inline void BeginResult() {
    AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(result_);
    empty_[result_] = true;
  }
  // Products go to the other result, and back.
  __aicore__ inline void SwapResults() { result_ ^= 1; }

  // result[m, n] += a[m, k] b[k, n]. kTransposed: the matrix in L1 is [k, m]. b in L1 is [n, k]
  // when straight, which is how the cube wants it, and [k, n] when transposed.
  template <Form form_a, Form form_b>
  __aicore__ inline void Add(const L1Matrix<T>& a, const L1Matrix<T>& b, int32_t m, int32_t n,
                             int32_t k) {
    const int32_t most = MostDepth(m, n);
    for (int32_t at = 0; at < k; at += most) {
      const int32_t here = static_cast<int32_t>(Min(most, k - at));
      const auto l0a = Slot(l0a_), l0b = Slot(l0b_);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kFirstLoadEvent + load_);
      LoadA<form_a>(l0a, a, m, at, here);
      LoadB<form_b>(l0b, b, n, at, here);
      AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(load_);
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(load_);
      Multiply<form_a>(l0a, l0b, m, n, here);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kFirstLoadEvent + load_);
      load_ ^= 1;
    }
  }

  // Add() of the stripes `stripes[0 ... count)` of a, each of `rows` rows, one below the other.
  __aicore__ inline void AddStripes(const L1Matrix<T>& a, const int32_t* stripes, int32_t count,
                                    int32_t rows, const L1Matrix<T>& b, int32_t n, int32_t k) {
    const int32_t m = count * rows;
    const int32_t most = MostDepth(m, n);
    for (int32_t at = 0; at < k; at += most) {
      const int32_t here = static_cast<int32_t>(Min(most, k - at)), depth = RoundUp(here, kC0);
      const auto l0a = Slot(l0a_), l0b = Slot(l0b_);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kFirstLoadEvent + load_);
      for (int32_t i = 0; i < count; ++i)
        LoadWindow(l0a[static_cast<uint32_t>(i * rows * depth)], a, stripes[i] * rows, rows, at,
                   depth, false);
      LoadB<Form::kStraight>(l0b, b, n, at, here);
      AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(load_);
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(load_);
      Multiply<Form::kStraight>(l0a, l0b, m, n, here);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kFirstLoadEvent + load_);
      load_ ^= 1;
    }
  }

  // All of L0C for the sums of stripes: a result of [rows, n] for each.
  __aicore__ inline void BeginSums() {
    for (int32_t slot = 0; slot < 2; ++slot) AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);
  }
  // sum[stripes[i]] += a[i][rows, depths[i]] b[depths[i], n], a's parts one below the other in L1;
  // the first product of a sum replaces it.
  __aicore__ inline void AddToSums(const L1Matrix<T>& a, const int32_t* stripes,
                                   const int32_t* depths, const bool* first, int32_t count,
                                   int32_t rows, int32_t used_rows, const L1Matrix<T>& b, int32_t n,
                                   int32_t k) {
    const int32_t most = MostDepth(count * rows, n);
    for (int32_t at = 0; at < k; at += most) {
      const int32_t here = static_cast<int32_t>(Min(most, k - at));
      const auto l0a = Slot(l0a_), l0b = Slot(l0b_);
      const auto part = [&](int32_t i) __aicore__ {
        const auto begin = static_cast<uint32_t>(i * rows * most);
        return l0a[begin];
      };
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kFirstLoadEvent + load_);
      for (int32_t i = 0; i < count; ++i) {
        const int32_t depth = static_cast<int32_t>(Min(here, depths[i] - at));
        if (depth > 0) LoadWindow(part(i), a, i * rows, rows, at, RoundUp(depth, kC0), false);
      }
      LoadB<Form::kTransposed>(l0b, b, n, at, here);
      AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(load_);
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(load_);
      for (int32_t i = 0; i < count; ++i) {
        const int32_t depth = static_cast<int32_t>(Min(here, depths[i] - at));
        if (depth <= 0) continue;
        AscendC::MmadParams params;
        params.m = static_cast<uint16_t>(Max(used_rows, 2));
        params.n = static_cast<uint16_t>(n);
        params.k = static_cast<uint16_t>(depth);
        params.cmatrixInitVal = first[i] && at == 0;
        AscendC::Mmad(SumOf(stripes[i], rows, n), part(i), l0b, params);
      }
      // The next products may be of the same sums.
      AscendC::PipeBarrier<PIPE_M>();
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kFirstLoadEvent + load_);
      load_ ^= 1;
    }
  }
  // Between the last product and the first store of sums, and after the last store.
  __aicore__ inline void BeginStores() {
    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(0);
    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(0);
  }
  __aicore__ inline void StoreSum(const AscendC::GlobalTensor<float>& to, int64_t pitch,
                                  int32_t stripe, int32_t rows, int32_t used_rows, int32_t n) {
    Write(to, pitch, SumOf(stripe, rows, n), rows, used_rows, n);
  }
  __aicore__ inline void EndSums() {
    for (int32_t slot = 0; slot < 2; ++slot) AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
  }

  // The result's parts of `rows` rows each, of which `used_rows` mean something: store(i) says
  // where the part i goes.
  template <typename Place>
  __aicore__ inline void StoreStripes(int64_t pitch, int32_t count, int32_t rows, int32_t used_rows,
                                      int32_t n, Place place) {
    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(result_);
    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(result_);
    for (int32_t i = 0; i < count; ++i)
      Write(place(i), pitch, Result()[static_cast<uint32_t>(i * rows * 16)], count * rows,
            used_rows, n);
    AscendC::SetFlag<AscendC::HardEvent::FIX_M>(result_);
    result_ ^= 1;
  }

  // Adds the result to what lies there since an earlier Store of this core; in the order of the
  // calls, so the sum does not depend on anything else.
  __aicore__ inline void AddTo(const AscendC::GlobalTensor<float>& to, int64_t pitch, int32_t m,
                               int32_t n) {
    AscendC::PipeBarrier<PIPE_FIX>();
    AscendC::SetAtomicAdd<float>();
    Store(to, pitch, m, n);
    AscendC::SetAtomicNone();
  }

  // The result's [m, n] to rows `pitch` elements apart, rounded to O.
  template <typename O>
  __aicore__ inline void Store(const AscendC::GlobalTensor<O>& to, int64_t pitch, int32_t m,
                               int32_t n) {
    BeginStore();
    StoreRows(to, pitch, m, n, 0, m);
    EndStore();
  }

  // Stores in parts: between BeginStore and EndStore some of the m rows at a time.
  __aicore__ inline void BeginStore() {
    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(result_);
    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(result_);
  }
  template <typename O>
  __aicore__ inline void StoreRows(const AscendC::GlobalTensor<O>& to, int64_t pitch, int32_t m,
                                   int32_t n, int32_t row, int32_t rows) {
    Write(to, pitch, Result()[static_cast<uint32_t>(row) * 16], RoundUp(m, 16), rows, n);
  }
  __aicore__ inline void EndStore() {
    AscendC::SetFlag<AscendC::HardEvent::FIX_M>(result_);
    result_ ^= 1;
  }

 private:
  // Ids 0 to 2 of this event belong to TPipe.
  static constexpr int32_t kFirstLoadEvent = 3;
  static constexpr int32_t kC0 = kBlockBytes / sizeof(T);  // columns of a block
  // The cube may overtake itself on a result that is smaller than this.
  static constexpr int32_t kOrderedFractals = 10;

  template <typename Buffer>
  __aicore__ inline AscendC::LocalTensor<T> Slot(Buffer& buffer) {
    return buffer.template Get<T>()[static_cast<uint32_t>(load_) * kL0SlotBytes / sizeof(T)];
  }
  __aicore__ inline AscendC::LocalTensor<float> Result() {
    return l0c_.template Get<float>()[static_cast<uint32_t>(result_) * kL0cSlotFloats];
  }

  __aicore__ inline AscendC::LocalTensor<float> SumOf(int32_t stripe, int32_t rows, int32_t n) {
    return l0c_.template Get<float>()[static_cast<uint32_t>(stripe * rows * RoundUp(n, 16))];
  }
  // K of a product of m rows and n columns of which L0A and L0B hold two.
  __aicore__ static constexpr int32_t MostDepth(int32_t m, int32_t n) {
    const auto widest = static_cast<int32_t>(Max(RoundUp(m, 16), RoundUp(n, 16)));
    return RoundDown(static_cast<int32_t>(kL0SlotBytes / sizeof(T)) / widest, 16);
  }

  // Some rows of a result whose column blocks have `pitch_from` rows.
  template <typename O>
  __aicore__ inline void Write(const AscendC::GlobalTensor<O>& to, int64_t pitch,
                               const AscendC::LocalTensor<float>& from, int32_t pitch_from,
                               int32_t m, int32_t n) {
    AscendC::FixpipeParamsV220 params;
    params.nSize = static_cast<uint16_t>(n);
    params.mSize = static_cast<uint16_t>(m);
    params.srcStride = static_cast<uint16_t>(pitch_from);
    params.dstStride = static_cast<uint32_t>(pitch);
    if constexpr (std::is_same<O, half>::value) {
      params.quantPre = QuantMode_t::F322F16;
    } else if constexpr (std::is_same<O, bfloat16_t>::value) {
      params.quantPre = QuantMode_t::F322BF16;
    }
    AscendC::Fixpipe<O, float, AscendC::CFG_ROW_MAJOR>(to, from, params);
  }

  // A window of a matrix in L1, in one instruction. The matrix counts as an image of one line, its
  // column blocks as channels.
  __aicore__ inline void LoadWindow(const AscendC::LocalTensor<T>& to, const L1Matrix<T>& from,
                                    int32_t row, int32_t rows, int32_t column, int32_t columns,
                                    bool transpose) {
    AscendC::LoadData3DParamsV2<T> params;
    params.l1H = 1;
    params.l1W = static_cast<uint16_t>(from.rows);
    params.channelSize = static_cast<uint16_t>(from.columns);
    params.mStartPt = static_cast<uint16_t>(from.row + row);
    params.mExtension = static_cast<uint16_t>(rows);
    params.kStartPt = static_cast<uint16_t>(from.column + column);
    params.kExtension = static_cast<uint16_t>(columns);
    params.enTranspose = transpose;
    AscendC::LoadData(to, from.tensor, params);
  }

  template <Form form>
  __aicore__ inline void LoadA(const AscendC::LocalTensor<T>& to, const L1Matrix<T>& a, int32_t m,
                               int32_t at, int32_t k) {
    if constexpr (form == Form::kStraight) {
      LoadWindow(to, a, 0, RoundUp(m, 16), at, RoundUp(k, kC0), false);
    } else {
      LoadWindow(to, a, at, RoundUp(k, 16), 0, RoundUp(m, 16), true);
    }
  }

  template <Form form>
  __aicore__ inline void LoadB(const AscendC::LocalTensor<T>& to, const L1Matrix<T>& b, int32_t n,
                               int32_t at, int32_t k) {
    if constexpr (form == Form::kTransposed) {
      // Into L0B this instruction transposes by itself.
      LoadWindow(to, b, at, RoundUp(k, 16), 0, RoundUp(n, 16), false);
      return;
    }
    const int32_t pitch = b.rows / 16, fractals = CeilDiv(n, 16), blocks = CeilDiv(k, kC0);
    const int32_t first = (b.column + at) / kC0 * pitch + b.row / 16;
    if (pitch == fractals) {
      AscendC::LoadData(
          to, b.tensor,
          AscendC::LoadData2DParams(static_cast<uint16_t>(first),
                                    static_cast<uint8_t>(blocks * fractals), 1, 0, 0, false, 0));
      return;
    }
    for (int32_t block = 0; block < blocks; ++block) {
      AscendC::LoadData(
          to[static_cast<uint32_t>(block * fractals * 16 * kC0)], b.tensor,
          AscendC::LoadData2DParams(static_cast<uint16_t>(first + block * pitch),
                                    static_cast<uint8_t>(fractals), 1, 0, 0, false, 0));
    }
  }

  template <Form form_a>
  __aicore__ inline void Multiply(const AscendC::LocalTensor<T>& l0a,
                                  const AscendC::LocalTensor<T>& l0b, int32_t m, int32_t n,
                                  int32_t k) {
    AscendC::MmadParams params;
    params.m = static_cast<uint16_t>(Max(m, 2));
    params.n = static_cast<uint16_t>(n);
    params.k = static_cast<uint16_t>(k);
    params.cmatrixInitVal = empty_[result_];
    // A transposed factor of 32 bits comes with its K filled up to 16.
    params.kDirectionAlign = sizeof(T) == 4 && form_a == Form::kTransposed;
    AscendC::Mmad(Result(), l0a, l0b, params);
    if (params.m / 16 * (params.n / 16) < kOrderedFractals) AscendC::PipeBarrier<PIPE_M>();
    empty_[result_] = false;
  }

  AscendC::TBuf<AscendC::TPosition::A2> l0a_;
  AscendC::TBuf<AscendC::TPosition::B2> l0b_;
  AscendC::TBuf<AscendC::TPosition::CO1> l0c_;
  int32_t load_ = 0, result_ = 0;
  bool empty_[2] = {true, true};
};

}  // namespace nsa::ascend
