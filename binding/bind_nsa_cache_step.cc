#include "binding/generated/by_hand.h"
#include "cpu/nsa_decode/cache_step.h"
#include "infer/cache_state.h"

namespace nsa {

namespace {

constexpr const NsaCacheStepInputs& kIn = kNsaCacheStepInputs;

// The caches of a Tensor that holds one or several of them, place after place.
class LayerCaches {
 public:
  LayerCaches(const CheckedCall& call, size_t input, int64_t dim)
      : data_(static_cast<char*>(call.in(input).data)),
        size_(dtype_size(call.in(input).dtype)),
        dim_(dim),
        width_(call.dim(input, 3)),
        head_stride_(call.dim(input, 2) * width_) {}

  cpu::BranchCache next(int64_t places) {
    char* key = data_;
    data_ += places * width_ * size_;
    return {key, key + places * dim_ * size_, places, head_stride_};
  }

 private:
  char* data_;
  int64_t size_, dim_, width_, head_stride_;
};

// The state of every row, of which the kernel takes lengths one after another.
class RowStates {
 public:
  RowStates(int64_t* data, int64_t rows) : lengths(rows), written(rows), data_(data) {
    for (int64_t b = 0; b < rows; ++b) {
      lengths[b] = made_for(b)[kCacheHeader];
      written[b] = made_for(b)[kCacheHeader + 1];
    }
  }

  // The state of row b.
  int64_t* made_for(int64_t b) const { return data_ + b * (kCacheHeader + 2); }

  // After a step that failed, rows are as long as before. What their rings have lost meanwhile,
  // `written` says; a row without tokens needs none of it.
  void store(bool failed, int64_t layer) {
    for (size_t b = 0; b < lengths.size(); ++b) {
      int64_t* const state = made_for(static_cast<int64_t>(b));
      int64_t* const row = state + kCacheHeader;
      if (!failed && row[0] != lengths[b]) {
        row[0] = lengths[b];
        state[kCacheLayer] = layer;
      }
      row[1] = row[0] == 0 ? 0 : written[b];
    }
  }

  std::vector<int64_t> lengths, written;

 private:
  int64_t* data_;
};

// The kernel's parameters, and what they point to.
struct StepCall {
  explicit StepCall(const CheckedCall& call)
      : states(static_cast<int64_t*>(call.in(kIn.state).data), call.dim(kIn.selected, 0)),
        counts(cache_step_counts(call.context)) {
    fill_nsa_cache_step(call, p);
    const int64_t capacity = call.dim(kIn.selected, 2);
    p.selected = LayerCaches(call, kIn.selected, p.D).next(capacity);
    if (p.gates != nullptr) {
      const CachePlaces places(capacity, call.attrs<NsaCacheStepAttrs>());
      LayerCaches others(call, kIn.others, p.D);
      p.compressed = others.next(places.compressed);
      p.window = others.next(places.window);
      p.raw = others.next(places.raw);
    }
    p.lengths = states.lengths.data();
    p.written = states.written.data();
    p.count = counts.data();
  }
  StepCall(const StepCall&) = delete;
  StepCall& operator=(const StepCall&) = delete;

  RowStates states;
  const SeqList counts;
  cpu::NsaCacheStepParams p{};
};

}  // namespace

void check_nsa_cache_step(const CheckedCall& call) {
  check_cache_state(call.context, static_cast<const int64_t*>(call.in(kIn.state).data));
}

void run_nsa_cache_step(const CheckedCall& call) {
  StepCall step(call);
  const int64_t layer = call.attrs<NsaCacheStepAttrs>().layer;
  try {
    cpu::nsa_cache_step(step.p);
  } catch (...) {
    step.states.store(true, layer);
    throw;
  }
  step.states.store(false, layer);
}

}  // namespace nsa
