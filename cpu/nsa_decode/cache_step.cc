#include "cpu/nsa_decode/cache_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/types.h"

namespace nsa::cpu {
namespace {

float rounded(ElemType t, float x) {
  if (t == ElemType::kFloat16) return f16_to_float(float_to_f16(x));
  if (t == ElemType::kBFloat16) return bf16_to_float(float_to_bf16(x));
  return x;
}

float load_element(ElemType t, const void* p, int64_t i) {
  if (t == ElemType::kFloat32) return static_cast<const float*>(p)[i];
  const uint16_t bits = static_cast<const uint16_t*>(p)[i];
  return t == ElemType::kFloat16 ? f16_to_float(bits) : bf16_to_float(bits);
}

// Rotates every two elements (x[i], x[i + D / 2]) by the angle of a position.
class Rotation {
 public:
  explicit Rotation(const NsaCacheStepParams& p)
      : half_(p.D / 2), frequency_(half_), cos_(half_), sin_(half_) {
    for (int64_t i = 0; i < half_; ++i) {
      const double at = static_cast<double>(i);
      const double share = std::clamp((at - p.rope_low) / (p.rope_high - p.rope_low), 0.0, 1.0);
      frequency_[i] = std::pow(p.theta, -2.0 * at / static_cast<double>(p.D)) *
                      (share / p.rope_factor + (1.0 - share));
    }
  }

  void at(int64_t position) {
    for (int64_t i = 0; i < half_; ++i) {
      const double angle = static_cast<double>(position) * frequency_[i];
      cos_[i] = static_cast<float>(std::cos(angle));
      sin_[i] = static_cast<float>(std::sin(angle));
    }
  }

  void rotate(const float* x, float* out) const {
    for (int64_t i = 0; i < half_; ++i) {
      const float a = x[i], b = x[i + half_];
      out[i] = a * cos_[i] - b * sin_[i];
      out[i + half_] = b * cos_[i] + a * sin_[i];
    }
  }

 private:
  int64_t half_;
  std::vector<double> frequency_;
  std::vector<float> cos_, sin_;
};

class CacheStepRounds {
 public:
  explicit CacheStepRounds(const NsaCacheStepParams& p)
      : p_(p),
        rotation_(p),
        size_(elem_size(p.dtype)),
        row_(std::max(p.D, p.Dv)),
        done_(p.B, 0),
        first_(p.B, 0) {
    for (int64_t b = 1; b < p.B; ++b) first_[b] = first_[b - 1] + p.count[b - 1];
  }

  // A round takes as many tokens of every row as the rings have room for beside the windows of the
  // first of them.
  void run() {
    for (;;) {
      counts_.assign(p_.B, 0);
      int64_t total = 0;
      for (int64_t b = 0; b < p_.B; ++b)
        total += counts_[b] = std::min(p_.count[b] - done_[b], most(b));
      if (total == 0) return;
      round(total);
    }
  }

 private:
  int64_t most(int64_t b) const {
    if (!p_.separate()) return p_.count[b];
    // A row that never fills its ring needs no room.
    if (p_.lengths[b] + p_.count[b] - done_[b] <= p_.window.places) return p_.count[b];
    return p_.window.places - p_.window_size + 1;
  }

  void round(int64_t total) {
    query_.resize(total * p_.N1 * p_.D * size_);
    out_.resize(total * p_.N1 * p_.Dv * size_);
    gates_.resize(p_.gates ? total * 3 * p_.N1 : 0);
    int64_t at = 0;
    for (int64_t b = 0; b < p_.B; ++b) {
      for (int64_t i = 0; i < counts_[b]; ++i) append(b, first_[b] + done_[b] + i, at++);
    }
    attend(total);
    const int64_t width = p_.N1 * p_.Dv * size_;
    at = 0;
    for (int64_t b = 0; b < p_.B; ++b) {
      std::memcpy(static_cast<char*>(p_.attention_out) + (first_[b] + done_[b]) * width,
                  out_.data() + at * width, counts_[b] * width);
      at += counts_[b];
      done_[b] += counts_[b];
    }
  }

  // Token number `token` of the call becomes the next one of row b and query `at` of the round.
  void append(int64_t b, int64_t token, int64_t at) {
    const int64_t position = p_.lengths[b], sets = p_.sets();
    rotation_.at(position);
    for (int64_t h = 0; h < p_.N1; ++h) {
      rotation_.rotate(p_.query + (token * p_.N1 + h) * p_.D, row_.data());
      store(row_.data(), p_.D, query_.data(), (at * p_.N1 + h) * p_.D);
    }
    if (p_.gates)
      std::copy_n(p_.gates + token * 3 * p_.N1, 3 * p_.N1, gates_.data() + at * 3 * p_.N1);
    for (int64_t h = 0; h < p_.N2; ++h) {
      const auto keep = [&](int64_t set, const BranchCache& cache, bool rotates) {
        const int64_t head = (token * sets + (sets == 1 ? 0 : set)) * p_.N2 + h;
        const int64_t first = (b * p_.N2 + h) * cache.head_stride, at = position % cache.places;
        const float* key = p_.key + head * p_.D;
        if (rotates) rotation_.rotate(key, row_.data());
        store(rotates ? row_.data() : key, p_.D, cache.key, first + at * p_.D);
        store(p_.value + head * p_.Dv, p_.Dv, cache.value, first + at * p_.Dv);
      };
      keep(kSelected, p_.selected, true);
      if (p_.gates) keep(kCompressed, p_.raw, false);
      if (p_.separate()) keep(kWindow, p_.window, true);
    }
    p_.lengths[b] = position + 1;
    p_.written[b] = std::max(p_.written[b], position + 1);
    const int64_t l = p_.rule.compress_block_size, s = p_.rule.compress_stride;
    if (p_.gates && position + 1 >= l && (position + 1 - l) % s == 0)
      compress(b, (position + 1 - l) / s);
  }

  // Window c of row b, which has just been filled, becomes a compressed token. It rounds where the
  // operators of a whole sequence do.
  void compress(int64_t b, int64_t c) {
    rotation_.at(c * p_.rule.compress_stride);
    for (int64_t h = 0; h < p_.N2; ++h) {
      const int64_t first = (b * p_.N2 + h) * p_.compressed.head_stride;
      window_sum(p_.raw.key, p_.weight_k, p_.position_k, b, h, c, p_.D);
      rotated_.resize(p_.D);
      rotation_.rotate(sum_.data(), rotated_.data());
      store(rotated_.data(), p_.D, p_.compressed.key, first + c * p_.D);
      window_sum(p_.raw.value, p_.weight_v, p_.position_v, b, h, c, p_.Dv);
      store(sum_.data(), p_.Dv, p_.compressed.value, first + c * p_.Dv);
    }
  }

  // sum_ = round(sum of weight times token) + sum of weight times position encoding.
  void window_sum(const void* raw, const float* weight, const float* position, int64_t b, int64_t h,
                  int64_t c, int64_t dim) {
    const int64_t l = p_.rule.compress_block_size;
    sum_.assign(dim, 0.0f);
    offset_.assign(dim, 0.0f);
    for (int64_t j = 0; j < l; ++j) {
      const int64_t token = c * p_.rule.compress_stride + j;
      const int64_t at = (b * p_.N2 + h) * p_.raw.head_stride + token % p_.raw.places * dim;
      const float full = weight[j * p_.N2 + h], w = rounded(p_.dtype, full);
      const float* encoding = position + (j * p_.N2 + h) * dim;
      for (int64_t d = 0; d < dim; ++d) {
        sum_[d] += w * load_element(p_.dtype, raw, at + d);
        offset_[d] += full * encoding[d];
      }
    }
    for (int64_t d = 0; d < dim; ++d) sum_[d] = rounded(p_.dtype, sum_[d]) + offset_[d];
  }

  void store(const float* x, int64_t n, void* dst, int64_t offset) const {
    kernels().round_rows(p_.dtype, x, n, static_cast<char*>(dst) + offset * size_);
  }

  CacheView view(const void* data, const BranchCache& cache, int64_t dim, bool ring) const {
    CacheView v{};
    v.data = data;
    v.page = cache.places;
    v.page_stride = p_.N2 * cache.head_stride;
    v.token_stride = dim;
    v.head_stride = cache.head_stride;
    v.ring = ring;
    return v;
  }

  void attend(int64_t total) {
    NsaDecodeParams d{};
    d.query = query_.data();
    d.attention_out = out_.data();
    d.q_len = counts_.data();
    d.kv_len = p_.lengths;
    d.dtype = p_.dtype;
    d.T = total;
    d.B = p_.B;
    d.N1 = p_.N1;
    d.N2 = p_.N2;
    d.D = p_.D;
    d.Dv = p_.Dv;
    d.scale = p_.scale;
    d.window_size = p_.window_size;
    d.rule = p_.rule;
    const BranchCache* caches[kBranches] = {&p_.compressed, &p_.selected,
                                            p_.shared ? &p_.selected : &p_.window};
    for (int branch = 0; branch < kBranches; ++branch) {
      if (!p_.gates && branch != kSelected) continue;
      const BranchCache& cache = *caches[branch];
      const bool ring = branch == kWindow && !p_.shared;
      d.key[branch] = view(cache.key, cache, p_.D, ring);
      d.value[branch] = view(cache.value, cache, p_.Dv, ring);
    }
    if (!p_.gates) return dense_decode(d);
    d.gates = gates_.data();
    nsa_decode(d);
  }

  const NsaCacheStepParams& p_;
  Rotation rotation_;
  const int64_t size_;
  std::vector<float> row_, rotated_, sum_, offset_, gates_;
  std::vector<char> query_, out_;
  std::vector<int64_t> counts_, done_, first_;  // of every row
};

}  // namespace

void nsa_cache_step(const NsaCacheStepParams& p) { CacheStepRounds(p).run(); }

}  // namespace nsa::cpu
