// Into L1, L0A, L0B and the tables. Buffers: source, result.
#include "twin/tests/cube/kernels.h"

using namespace cube_test;

namespace {

// p: the fields of Nd2NzParams, bytes of L1 to show.
template <typename T>
void Nd2Nz(GM_ADDR* g, const int64_t* p) {
  auto l1 = At<T>(TPosition::A1, 0, 512 * 1024);
  Poison(l1, p[8]);
  const Nd2NzParams params(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
  DataCopy(l1, harness::Global<T>(g[0]), params);
  Dump(g[1], l1, p[8]);
}

// p: bytes of the source, bytes of the result to show.
template <typename T>
LocalTensor<T> SourceInL1(GM_ADDR* g, const int64_t* p) {
  auto l1 = At<T>(TPosition::B1, 64, 512 * 1024 - 64);
  DataCopy(l1, harness::Global<T>(g[0]), static_cast<uint32_t>(p[0] / sizeof(T)));
  Order<HardEvent::MTE2_MTE1>();
  return l1;
}

// p: source and result bytes, whether to L0B, the fields of LoadData2DParams in its order.
template <typename T>
void Load2D(GM_ADDR* g, const int64_t* p) {
  auto l1 = SourceInL1<T>(g, p);
  auto l0 = At<T>(p[2] ? TPosition::B2 : TPosition::A2, 0, 64 * 1024);
  Poison(l0, p[1]);
  const LoadData2DParams params(p[3], p[4], p[5], p[6], p[7], p[8] != 0, p[9]);
  LoadData(l0, l1, params);
  Dump(g[1], l0, p[1]);
}

// p: as Load2D; 2 for L1.
template <typename T>
void LoadGm(GM_ADDR* g, const int64_t* p) {
  const TPosition positions[] = {TPosition::A2, TPosition::B2, TPosition::A1};
  auto to = At<T>(positions[p[2]], 0, 64 * 1024);
  Poison(to, p[1]);
  const LoadData2DParams params(p[3], p[4], p[5], p[6], p[7], p[8] != 0, p[9]);
  LoadData(to, harness::Global<T>(g[0]), params);
  Dump(g[1], to, p[1]);
}

// p: source and result bytes, whether to L0B, startIndex, repeatTimes, srcStride, dstGap,
// dstFracGap, addrMode.
template <typename T>
void LoadTransposed(GM_ADDR* g, const int64_t* p) {
  auto l1 = SourceInL1<T>(g, p);
  auto l0 = At<T>(p[2] ? TPosition::B2 : TPosition::A2, 0, 64 * 1024);
  Poison(l0, p[1]);
  const LoadData2dTransposeParams params(p[3], p[4], p[5], p[6], p[7], p[8]);
  LoadDataWithTranspose(l0, l1, params);
  Dump(g[1], l0, p[1]);
}

constexpr IsResetLoad3dConfig kRegisters = {false, false};

// p: source and result bytes, whether to L0B, pads, l1H, l1W, channelSize, kExtension, mExtension,
// kStartPt, mStartPt, strideW, strideH, filterW, filterH, dilationW, dilationH, enTranspose, bits
// of padValue, 1 by registers, 2 by registers and packed words, repeatStride, repeatTime,
// repeatMode.
template <typename T>
void Load3D(GM_ADDR* g, const int64_t* p) {
  auto l1 = SourceInL1<T>(g, p);
  auto l0 = At<T>(p[2] ? TPosition::B2 : TPosition::A2, 0, 64 * 1024);
  Poison(l0, p[1]);
  const uint8_t pads[4] = {static_cast<uint8_t>(p[3]), static_cast<uint8_t>(p[4]),
                           static_cast<uint8_t>(p[5]), static_cast<uint8_t>(p[6])};
  T pad_value;
  std::memcpy(&pad_value, &p[21], sizeof(T));
  LoadData3DParamsV2<T> params(pads, p[7], p[8], p[9], p[10], p[11], p[12], p[13], p[14], p[15],
                               p[16], p[17], p[18], p[19], p[20] != 0, false, pad_value);
  SetLoadDataRepeat(LoadDataRepeatParam(p[23], p[24], p[25]));
  if (p[22]) {
    SetFmatrix(p[7], p[8], pads, FmatrixMode::FMATRIX_LEFT);
    SetLoadDataPaddingValue(pad_value);
    params.l1H = params.l1W = 1;
    if (p[22] == 2) {
      const auto word = [&](std::initializer_list<int> fields, int bits) {
        uint64_t all = 0;
        int at = 0;
        for (const int field : fields) all |= static_cast<uint64_t>(p[field]) << bits * at++;
        return all;
      };
      LoadData3DParamsV2Pro packed(p[9], p[20] != 0, false, false, false, false,
                                   word({10, 11, 12, 13}, 16), word({14, 15, 16, 17, 18, 19}, 8));
      LoadData(l0, l1, packed);
      Dump(g[1], l0, p[1]);
      return;
    }
    LoadData<T, kRegisters>(l0, l1, params);
  } else {
    LoadData(l0, l1, params);
  }
  Dump(g[1], l0, p[1]);
}

// p: result bytes, position, repeatTimes, blockNum, dstGap, bits of the value.
template <typename T>
void FillWith(GM_ADDR* g, const int64_t* p) {
  const TPosition positions[] = {TPosition::A1, TPosition::A2, TPosition::B2};
  auto to = At<T>(positions[p[1]], 0, 64 * 1024);
  Poison(to, p[0]);
  T value;
  std::memcpy(&value, &p[5], sizeof(T));
  Fill(to, InitConstValueParams<T>(p[2], p[3], p[4], value));
  Dump(g[0], to, p[0]);
}

// p: source bytes, result bytes, blockCount, blockLen, srcGap, dstGap, or a count.
template <typename T, typename U>
void ToTable(GM_ADDR* g, const int64_t* p, TPosition position, uint64_t size) {
  auto l1 = SourceInL1<U>(g, p);
  Order<HardEvent::MTE2_FIX>();
  auto table = At<T>(position, 0, size);
  Poison(table, p[1]);
  if constexpr (std::is_same<T, U>::value) {
    if (p[6] > 0) {
      DataCopy(table, l1, static_cast<uint32_t>(p[6]));
      Dump(g[1], table, p[1]);
      return;
    }
  }
  DataCopy(table, l1,
           DataCopyParams(static_cast<uint16_t>(p[2]), static_cast<uint16_t>(p[3]),
                          static_cast<uint16_t>(p[4]), static_cast<uint16_t>(p[5])));
  Dump(g[1], table, p[1]);
}

// 32 rows of 16 halfs from byte 512 of L1 on, with the boundary at 1024: p has nothing.
void Load3DWraps(GM_ADDR* g) {
  DataCopy(At<half>(TPosition::A1, 0, 1024), harness::Global<half>(g[0]), 512);
  Order<HardEvent::MTE2_MTE1>();
  SetLoadDataBoundary(1024);
  LoadData3DParamsV2<half> params;
  params.l1H = 1;
  params.l1W = params.mExtension = 32;
  params.channelSize = params.kExtension = 16;
  auto l0 = At<half>(TPosition::A2, 0, 1024);
  LoadData(l0, At<half>(TPosition::A1, 512, 1024), params);
  Dump(g[1], l0, 1024);
}

// C = A * B, B with two rows of four. Buffers: fractals of A, of B, of the index, C. p: m, n, k.
void Sparse(GM_ADDR* g, const int64_t* p) {
  const int64_t m = p[0], n = p[1], k = p[2];
  const auto a = At<int8_t>(TPosition::A2, 0, m * k);
  LoadFractals(a, g[0], m * k);
  const auto b = At<int8_t>(TPosition::B1, 0, n * k / 2);
  const auto index = At<uint8_t>(TPosition::B1, 256 * 1024, n * k / 8);
  DataCopy(b, harness::Global<int8_t>(g[1]), static_cast<uint32_t>(n * k / 2));
  DataCopy(index, harness::Global<uint8_t>(g[2]), static_cast<uint32_t>(n * k / 8));
  Order<HardEvent::MTE2_MTE1>();
  const auto filter = At<int8_t>(TPosition::B2, 1024, n * k / 2);
  LoadData2DParams first(0, 1, 0, 0, 0, false, 0), rest(1, n * k / 2 / 512 - 1, 0, 0, 0, false, 0);
  LoadDataWithSparse(filter, b, index, first);
  LoadDataWithSparse(filter[512], b, index, rest);
  Order<HardEvent::MTE1_M>();
  Order<HardEvent::MTE2_M>();
  const auto c = At<int32_t>(TPosition::CO1, 0, m * n * 4);
  MmadParams params(m, n, k, 0, false, true);
  MmadWithSparse(c, a, filter, params);
  Dump(g[3], c, m * n * 4);
}

}  // namespace

KERNEL(load3d_wraps) { Load3DWraps(g); }
KERNEL(sparse) { Sparse(g, p); }
KERNEL(nd2nz_half) { Nd2Nz<half>(g, p); }
KERNEL(nd2nz_float) { Nd2Nz<float>(g, p); }
KERNEL(nd2nz_int8) { Nd2Nz<int8_t>(g, p); }
KERNEL(nd2nz_int4) { Nd2Nz<int4b_t>(g, p); }
KERNEL(load2d_half) { Load2D<half>(g, p); }
KERNEL(load2d_bfloat16) { Load2D<bfloat16_t>(g, p); }
KERNEL(load2d_float) { Load2D<float>(g, p); }
KERNEL(load_gm_half) { LoadGm<half>(g, p); }
KERNEL(load_gm_float) { LoadGm<float>(g, p); }
KERNEL(transpose_half) { LoadTransposed<half>(g, p); }
KERNEL(transpose_float) { LoadTransposed<float>(g, p); }
KERNEL(transpose_int8) { LoadTransposed<int8_t>(g, p); }
KERNEL(load3d_half) { Load3D<half>(g, p); }
KERNEL(load3d_float) { Load3D<float>(g, p); }
KERNEL(load3d_int8) { Load3D<int8_t>(g, p); }
KERNEL(fill_half) { FillWith<half>(g, p); }
KERNEL(fill_float) { FillWith<float>(g, p); }
KERNEL(fill_int16) { FillWith<int16_t>(g, p); }
KERNEL(bias_float) { ToTable<float, float>(g, p, TPosition::C2, 1024); }
KERNEL(bias_half) { ToTable<float, half>(g, p, TPosition::C2, 1024); }
KERNEL(bias_int32) { ToTable<int32_t, int32_t>(g, p, TPosition::C2, 1024); }
KERNEL(fixpipe_buffer) { ToTable<uint64_t, uint64_t>(g, p, TPosition::C2PIPE2GM, 2048); }
