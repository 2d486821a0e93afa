// LoadData with LoadData3DParamsV2: unfolds a feature map [C1, H, W, C0] in L1 into the matrix
// [output rows * output columns, C1 * filter rows * filter columns * C0] and loads a window of it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "twin/cube/fractal.h"
#include "twin/cube/load_data.h"

namespace twin {
namespace {

// The unfolded matrix. Its columns are blocks of C0 elements, 32 bytes.
struct Unfolded {
  FeatureMap map;
  int64_t filter_h, filter_w, stride_h, stride_w, dilation_h, dilation_w;
  int64_t out_h, out_w;
  int64_t blocks;
  // With SetLoadDataBoundary operand src is L1 from its start on: src is at `base`, and what lies
  // at the boundary or beyond is read from the start again. Otherwise both are 0.
  int64_t base, boundary;

  static constexpr int64_t kPadding = -1;

  // Byte of a row's block from the operand's start on, or kPadding.
  int64_t At(int64_t row, int64_t block) const {
    const int64_t taps = filter_h * filter_w;
    const int64_t tap = block % taps;
    const int64_t h = row / out_w * stride_h - map.pad[2] + tap / filter_w * dilation_h;
    const int64_t w = row % out_w * stride_w - map.pad[0] + tap % filter_w * dilation_w;
    if (h < 0 || w < 0 || h >= map.height || w >= map.width) return kPadding;
    const int64_t at = ((block / taps * map.height + h) * map.width + w) * int64_t{kBlockBytes};
    return boundary == 0 ? at : (base + at) % boundary;
  }
  int64_t rows() const { return out_h * out_w; }
};

// The rows and column blocks of the matrix that are loaded, in order.
struct Window {
  std::vector<int64_t> rows, blocks;
};

void CheckArguments(const Instr& instr, const Load3D& p, uint32_t element, bool to_b) {
  CheckField(instr, "l1H", p.l1_h, 0, 32767);
  CheckField(instr, "l1W", p.l1_w, 0, 32767);
  CheckField(instr, "channelSize", p.channels, 0, 65535);
  CheckField(instr, "kExtension", p.k_extension, 0, 65535);
  CheckField(instr, "mExtension", p.m_extension, 0, 65535);
  CheckField(instr, "kStartPt", p.k_start, 0, 65535);
  CheckField(instr, "mStartPt", p.m_start, 0, 32767);
  CheckField(instr, "strideW", p.stride_w, 1, 63);
  CheckField(instr, "strideH", p.stride_h, 1, 63);
  CheckField(instr, "filterW", p.filter_w, 0, 255);
  CheckField(instr, "filterH", p.filter_h, 0, 255);
  CheckField(instr, "dilationFilterW", p.dilation_w, 1, 255);
  CheckField(instr, "dilationFilterH", p.dilation_h, 1, 255);
  instr.Check(!p.small_k, "enSmallK is not available on this architecture");
  instr.Check(!p.right_map, "fMatrixCtrl has to be false");
  const int64_t c0 = kBlockBytes / element;
  instr.Check(p.channels % c0 == 0,
              "channelSize is %lld; the twin unfolds multiples of %lld channels",
              static_cast<long long>(p.channels), static_cast<long long>(c0));
  instr.Check(p.k_extension % c0 == 0, "kExtension is %lld, expected a multiple of %lld",
              static_cast<long long>(p.k_extension), static_cast<long long>(c0));
  instr.Check(p.k_start % c0 == 0, "kStartPt is %lld, expected a multiple of %lld",
              static_cast<long long>(p.k_start), static_cast<long long>(c0));
  if (element < 4) {
    instr.Check(p.m_extension % 16 == 0, "mExtension is %lld, expected a multiple of 16",
                static_cast<long long>(p.m_extension));
    instr.Check(p.m_start % 16 == 0, "mStartPt is %lld, expected a multiple of 16",
                static_cast<long long>(p.m_start));
  }
  instr.Check(element > 1 || !(to_b || p.transpose),
              "8-bit types are loaded into L0A without enTranspose only");
}

bool NoEffect(const Load3D& p) {
  return p.l1_h == 0 || p.l1_w == 0 || p.channels == 0 || p.k_extension == 0 ||
         p.m_extension == 0 || (p.filter_w == 0 && !p.wide_filter_w) ||
         (p.filter_h == 0 && !p.wide_filter_h);
}

Unfolded Unfold(const Instr& instr, const Load3D& p, const FeatureMap& map, uint32_t element) {
  Unfolded u{};
  u.map = map;
  u.filter_h = p.filter_h + (p.wide_filter_h ? 256 : 0);
  u.filter_w = p.filter_w + (p.wide_filter_w ? 256 : 0);
  u.stride_h = p.stride_h;
  u.stride_w = p.stride_w;
  u.dilation_h = p.dilation_h;
  u.dilation_w = p.dilation_w;
  const int64_t room_h =
      int64_t{map.height} + map.pad[2] + map.pad[3] - ((u.filter_h - 1) * u.dilation_h + 1);
  const int64_t room_w =
      int64_t{map.width} + map.pad[0] + map.pad[1] - ((u.filter_w - 1) * u.dilation_w + 1);
  instr.Check(room_h >= 0 && room_w >= 0,
              "the dilated filter is larger than the padded feature map of %u x %u", map.height,
              map.width);
  u.out_h = room_h / u.stride_h + 1;
  u.out_w = room_w / u.stride_w + 1;
  u.blocks = p.channels / (kBlockBytes / element) * u.filter_h * u.filter_w;
  return u;
}

Window WindowOf(const Instr& instr, const Load3D& p, const CubeState& state, const Unfolded& u,
                uint32_t element, bool to_b) {
  const int64_t c0 = kBlockBytes / element;
  const bool along_k = state.repeat_mode == 1;
  instr.Check(state.repeat_time <= 1 || !along_k || to_b || p.transpose,
              "SetLoadDataRepeat along K without a transposition is not part of the twin");
  instr.Check(state.repeat_time <= 1 || along_k || p.m_extension % 16 == 0,
              "mExtension is %lld, expected a multiple of 16 with SetLoadDataRepeat along M",
              static_cast<long long>(p.m_extension));
  Window w;
  for (int64_t repeat = 0; repeat < state.repeat_time; ++repeat) {
    const int64_t shift = repeat * state.repeat_stride;
    if (!along_k || repeat == 0) {
      for (int64_t i = 0; i < p.m_extension; ++i) {
        w.rows.push_back(p.m_start + (along_k ? 0 : shift * 16) + i);
      }
    }
    if (along_k || repeat == 0) {
      for (int64_t i = 0; i < p.k_extension / c0; ++i) {
        w.blocks.push_back(p.k_start / c0 + (along_k ? shift : 0) + i);
      }
    }
  }
  for (const int64_t block : w.blocks) {
    instr.Check(block < u.blocks,
                "kStartPt + kExtension reaches element %lld of K; the unfolded matrix has %lld",
                static_cast<long long>((block + 1) * c0), static_cast<long long>(u.blocks * c0));
  }
  return w;
}

// The result in 32-byte rows: what of each holds a value.
class Result {
 public:
  explicit Result(uint64_t fractals)
      : data_(fractals * kFractalBytes), held_(fractals * 16), touched_(fractals * 16) {}

  // `held` tells which of the bytes have a value.
  void Put(uint64_t at, const uint8_t* element, uint32_t bytes, uint32_t held) {
    std::memcpy(&data_[at], element, bytes);
    const uint32_t mask = bytes == kBlockBytes ? ~0u : (1u << bytes) - 1;
    held_[at / kBlockBytes] |= (held & mask) << at % kBlockBytes;
    touched_[at / kBlockBytes] = 1;
  }
  void Touch(uint64_t at) { touched_[at / kBlockBytes] = 1; }

  void Store(Instr* instr) const {
    for (uint64_t row = 0; row < touched_.size();) {
      uint64_t end = row;
      while (end < touched_.size() && touched_[end]) ++end;
      if (end == row) {
        ++row;
        continue;
      }
      instr->Write(0, Bytes{row * kBlockBytes, (end - row) * kBlockBytes},
                   row % 16 == 0 ? kFractalBytes : kBlockBytes);
      std::memcpy(instr->Data<uint8_t>(0) + row * kBlockBytes, &data_[row * kBlockBytes],
                  (end - row) * kBlockBytes);
      row = end;
    }
    for (uint64_t row = 0; row < touched_.size(); ++row) {
      for (uint64_t byte = 0; byte < kBlockBytes && touched_[row]; ++byte) {
        if (!(held_[row] >> byte & 1)) instr->Scramble(0, {row * kBlockBytes + byte, 1});
      }
    }
  }

 private:
  std::vector<uint8_t> data_;
  std::vector<uint32_t> held_;
  std::vector<uint8_t> touched_;
};

// Reads of whole blocks, joined where they follow each other.
void ReadWindow(Instr* instr, const Unfolded& u, const Window& w) {
  int64_t begin = 0, end = 0;
  const auto flush = [&] {
    if (end == begin) return;
    instr->ReadHeld(1, Bytes{static_cast<uint64_t>(begin), static_cast<uint64_t>(end - begin)});
  };
  for (const int64_t block : w.blocks) {
    for (const int64_t row : w.rows) {
      if (row >= u.rows()) continue;
      const int64_t at = u.At(row, block);
      if (at == Unfolded::kPadding) continue;
      if (at != end) {
        flush();
        begin = at;
      }
      end = at + kBlockBytes;
    }
  }
  flush();
}

// Where element `column` of block `block` of row `row` of the window goes. L0A holds the window in
// ZZ order or, transposed, its transpose with K filled up to 16; L0B holds the window as K x N in
// ZN order.
struct Placement {
  bool to_b, transpose;
  uint64_t c0, element;
  uint64_t window_rows, window_blocks;

  uint64_t row_blocks() const { return CeilDivide(window_rows, 16) * 16 / c0; }
  uint64_t column_fractals() const { return CeilDivide(window_blocks * c0, 16); }
  uint64_t fractals() const {
    if (!to_b && !transpose) return CeilDivide(window_rows, 16) * window_blocks;
    return row_blocks() * column_fractals();
  }
  uint64_t At(uint64_t row, uint64_t block, uint64_t column) const {
    if (!to_b && !transpose) {
      return (row / 16 * window_blocks + block) * kFractalBytes + row % 16 * kBlockBytes +
             column * element;
    }
    const uint64_t n = block * c0 + column;
    const uint64_t fractal =
        to_b ? row / c0 * column_fractals() + n / 16 : n / 16 * row_blocks() + row / c0;
    return fractal * kFractalBytes + n % 16 * kBlockBytes + row % c0 * element;
  }
};

// The registers keep what a call sets; the result has what the call obeys.
Load3D SetRegisters(const Instr& instr, const Load3D& params, CubeState* state) {
  FeatureMap& map = state->feature_map;
  if (params.set_map) {
    map.height = static_cast<uint32_t>(params.l1_h);
    map.width = static_cast<uint32_t>(params.l1_w);
    std::copy(std::begin(params.pad), std::end(params.pad), std::begin(map.pad));
    map.set = true;
  }
  if (params.set_padding) {
    state->pad_bits = params.pad_bits;
    state->pad_set = true;
  }
  instr.Check(map.set, "isSetFMatrix is false and SetFmatrix was not called");
  Load3D result = params;
  result.l1_h = map.height;
  result.l1_w = map.width;
  return result;
}

void FillResult(const Instr& instr, const Unfolded& u, const Window& w, const Placement& place,
                const CubeState& state, Result* result) {
  const auto element = static_cast<uint32_t>(place.element);
  const uint8_t* from = instr.Data<uint8_t>(1);
  uint8_t padding[kBlockBytes];
  for (uint64_t at = 0; at < kBlockBytes; at += element) {
    std::memcpy(padding + at, &state.pad_bits, element);
  }
  const uint64_t rows = CeilDivide(w.rows.size(), 16) * 16;
  for (uint64_t row = 0; row < rows; ++row) {
    const bool exists = row < w.rows.size() && w.rows[row] < u.rows();
    for (uint64_t block = 0; block < w.blocks.size(); ++block) {
      if (!exists) {
        for (uint64_t i = 0; i < place.c0; ++i) result->Touch(place.At(row, block, i));
        continue;
      }
      const int64_t at = u.At(w.rows[row], w.blocks[block]);
      const bool pad = at == Unfolded::kPadding;
      instr.Check(!pad || state.pad_set,
                  "isSetPadding is false and SetLoadDataPaddingValue was not called");
      const uint8_t* source = pad ? padding : from + at;
      const uint32_t held = pad ? ~0u : instr.Held(1, static_cast<uint64_t>(at));
      if (!place.to_b && !place.transpose) {
        result->Put(place.At(row, block, 0), source, kBlockBytes, held);
        continue;
      }
      for (uint64_t i = 0; i < place.c0; ++i) {
        result->Put(place.At(row, block, i), source + i * element, element, held >> i * element);
      }
    }
  }
}

}  // namespace

void RunLoad3D(const Operand& dst, const Operand& src, const Load3D& params, const Where& where) {
  Instr instr("LoadData", PIPE_MTE1, where, {dst, src});
  instr.InMemory(0, {Hardware::L0A, Hardware::L0B});
  instr.InMemory(1, {Hardware::L1});
  const bool to_b = dst.local->memory() == Hardware::L0B;
  const uint32_t element = src.element;
  CubeState& state = CubeStateOf(instr.core());
  CheckArguments(instr, params, element, to_b);
  const Load3D p = SetRegisters(instr, params, &state);
  if (NoEffect(p) || state.repeat_time == 0) {
    instr.Warn("instruction without effect", "a size or the repeat time is 0");
    return;
  }
  const uint64_t loaded = static_cast<uint64_t>(p.m_extension) *
                          static_cast<uint64_t>(p.k_extension) *
                          static_cast<uint64_t>(state.repeat_time) * element;
  instr.CheckRoom(0, loaded);
  Unfolded u = Unfold(instr, p, state.feature_map, element);
  LocalView whole = *src.local;
  if (state.boundary > 0) {
    instr.Check(src.local->address < state.boundary && state.boundary <= MemoryBytes(Hardware::L1),
                "src begins at byte %u of L1, expected less than SetLoadDataBoundary(%u), and that "
                "at most the size of L1",
                src.local->address, state.boundary);
    u.base = src.local->address;
    u.boundary = state.boundary;
    whole.address = 0;
    whole.bytes = state.boundary;
    whole.buffer = nullptr;
    instr.SetOperand(1, Operand(src.role, src.dtype, element, whole));
  }
  const Window w = WindowOf(instr, p, state, u, element, to_b);
  const Placement place{to_b,    p.transpose,   kBlockBytes / element,
                        element, w.rows.size(), w.blocks.size()};
  ReadWindow(&instr, u, w);
  Result result(place.fractals());
  FillResult(instr, u, w, place, state, &result);
  result.Store(&instr);
  instr.CountRepeats(place.fractals());
}

}  // namespace twin
