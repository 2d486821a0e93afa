// Mmad: C = A * B, C += A * B or C = bias + A * B.
#pragma once

#include "twin/cube/params.h"
#include "twin/cube/state.h"
#include "twin/device/tensor.h"

namespace twin {

// kSparse: int8_t, of which filter holds two of every four and an index tells which.
enum class MmadType { kNone, kHalf, kBfloat16, kFloat, kInt8, kInt4, kSparse };

template <typename C, typename A, typename B>
constexpr MmadType MmadTypeOf() {
  using std::is_same;
  if (!is_same<A, B>::value) return MmadType::kNone;
  if (is_same<C, float>::value) {
    if (is_same<A, half>::value) return MmadType::kHalf;
    if (is_same<A, bfloat16_t>::value) return MmadType::kBfloat16;
    if (is_same<A, float>::value) return MmadType::kFloat;
  }
  if (is_same<C, int32_t>::value) {
    if (is_same<A, int8_t>::value) return MmadType::kInt8;
    if (is_same<A, int4b_t>::value) return MmadType::kInt4;
  }
  return MmadType::kNone;
}

template <typename C, typename A, typename B>
constexpr bool kMmadTakes = MmadTypeOf<C, A, B>() != MmadType::kNone;
template <typename C, typename A, typename B, typename Bias>
constexpr bool kMmadBiasTakes =
    kMmadTakes<C, A, B> && std::is_same<C, Bias>::value && MmadTypeOf<C, A, B>() != MmadType::kInt4;

TWIN_API void RunMmad(MmadType type, const Operand& dst, const Operand& fm, const Operand& filter,
                      const Operand* bias, const AscendC::MmadParams& params, const Where& where);

}  // namespace twin

namespace AscendC {

template <typename T, typename U, typename S>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
          const MmadParams& mmadParams, twin::Where where = twin::Here()) {
  static_assert(twin::kMmadTakes<T, U, S>,
                "Mmad does not take these data types (dst, fm, filter) on dav-c220; it takes float "
                "from half, bfloat16_t or float, int32_t from int8_t or int4b_t");
  if constexpr (twin::kMmadTakes<T, U, S>) {
    twin::RunMmad(twin::MmadTypeOf<T, U, S>(), {"dst", dst}, {"fm", fm}, {"filter", filter},
                  nullptr, mmadParams, where);
  }
}

template <typename T, typename U, typename S, typename V>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
          const LocalTensor<V>& bias, const MmadParams& mmadParams,
          twin::Where where = twin::Here()) {
  static_assert(twin::kMmadBiasTakes<T, U, S, V>,
                "Mmad does not take these data types (dst, fm, filter, bias) on dav-c220; bias and "
                "dst are float with half, bfloat16_t or float, int32_t with int8_t");
  if constexpr (twin::kMmadBiasTakes<T, U, S, V>) {
    const twin::Operand operand("bias", bias);
    twin::RunMmad(twin::MmadTypeOf<T, U, S>(), {"dst", dst}, {"fm", fm}, {"filter", filter},
                  &operand, mmadParams, where);
  }
}

// Half of A's columns meet B's rows: those that the index of LoadDataWithSparse picks.
template <typename T = int32_t, typename U = int8_t>
void MmadWithSparse(const LocalTensor<T>& dst, const LocalTensor<U>& fm,
                    const LocalTensor<U>& filter, const MmadParams& mmadParams,
                    twin::Where where = twin::Here()) {
  TWIN_DTYPES("MmadWithSparse (dst)", T, int32_t);
  TWIN_DTYPES("MmadWithSparse (fm, filter)", U, int8_t);
  twin::RunMmad(twin::MmadType::kSparse, {"dst", dst}, {"fm", fm}, {"filter", filter}, nullptr,
                mmadParams, where);
}

inline void SetHF32Mode(HF32Mode mode, twin::Where where = twin::Here()) {
  twin::SetHf32(mode == HF32Mode::ENABLE, where);
}
inline void SetHF32Mode(bool hf32Mode, twin::Where where = twin::Here()) {
  twin::SetHf32(hf32Mode, where);
}
// Rounding of HF32, which is off.
inline void SetHF32TransMode(HF32TransMode) {}
inline void SetHF32TransMode(bool) {}
// The order in which Mmad visits the fractals of C changes no value.
inline void SetMMRowMajor() {}
inline void SetMMColumnMajor() {}
inline void SetMMLayoutTransform(bool) {}

}  // namespace AscendC
