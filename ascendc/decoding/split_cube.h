// The cube core's share of the attention of new tokens over a cache: S = Q K^T and O = P V of
// splits of decode rows.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/tile_product.h"
#include "ascendc/decoding/splits.h"

namespace nsa::ascend {

// Rows [row, row + rows) of a matrix of `padded` rows in L1, from memory, `pitch` elements from row
// to row.
template <typename T>
__aicore__ inline void CopyRowsTo(const AscendC::LocalTensor<T>& to, int32_t padded, int32_t row,
                                  const AscendC::GlobalTensor<T>& from, int64_t pitch, int32_t rows,
                                  int32_t columns) {
  constexpr int64_t kMostPitch = 65535;
  const auto stride = static_cast<uint16_t>(padded), width = static_cast<uint16_t>(columns);
  const auto copy = [&](int32_t first, int32_t count) __aicore__ {
    AscendC::DataCopy(
        to[static_cast<uint32_t>(row + first) * (kBlockBytes / sizeof(T))], from[first * pitch],
        AscendC::Nd2NzParams(1, static_cast<uint16_t>(count), width, 0,
                             static_cast<uint16_t>(count > 1 ? pitch : width), stride, 1, 0));
  };
  if (pitch <= kMostPitch) {
    copy(0, rows);
  } else {
    for (int32_t i = 0; i < rows; ++i) copy(i, 1);
  }
}

// Scores are kStepsAhead splits ahead of the output, so that the vector cores always have some.
template <typename T, typename Keys>
class SplitCube {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const SplitTiling* tiling,
                              const typename Keys::Arguments& g) {
    t_ = tiling;
    const int64_t block = AscendC::GetBlockIdx(), blocks = AscendC::GetBlockNum();
    query_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.query));
    key_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.key));
    value_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.value));
    if constexpr (Keys::kHasFresh) {
      fresh_key_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.fresh_key));
      fresh_value_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.fresh_value));
    }
    const SplitWorkspace bytes(*t_);
    GM_ADDR mine = g.workspace + block * bytes.block;
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(
        t_->ranked != 0 ? g.workspace + bytes.KeptBegin(blocks, t_->wave_splits) : mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + kSlots * bytes.scores));
    outputs_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float*>(g.workspace + bytes.OutputsBegin(blocks)));
    slot_elements_ = bytes.scores / 4;
    kept_elements_ = bytes.kept / 4;
    output_elements_ = bytes.output / 4;
    const SplitL1 l1(t_->rows, t_->dim, t_->value_dim, t_->split_keys);
    pipe->InitBuffer(l1_, l1.Total());
    const auto memory = l1_.template Get<T>();
    const uint32_t values = 2 * l1.keys / sizeof(T);
    const uint32_t queries = values + 2 * l1.values / sizeof(T);
    keys_in_.Start(memory, l1.keys);
    values_in_.Start(memory[values], l1.values);
    queries_in_.Start(memory[queries], l1.queries);
    probabilities_in_.Start(memory[queries + l1.queries / sizeof(T)], l1.probabilities);
    product_.Start(pipe);
    waves_.Init(t_, g);
    ahead_.Init(t_, g, block, blocks, true, true);
    behind_.Init(t_, g, block, blocks, true, true);
  }

  __aicore__ inline void Process() {
    int64_t step = 0;  // of all waves: slots and flags go on
    for (Wave wave{}; waves_.Next(&wave);) {
      ahead_.StartWave(wave);
      behind_.StartWave(wave);
      Split split{};
      int64_t scored = step;
      for (bool more = true; more;) {
        more = ahead_.Next(&split);
        if (more) Scores(split, scored++);
        if (more && scored - step <= kStepsAhead) continue;
        if (!behind_.Next(&split)) break;
        Output(split, step++);
        more = true;
      }
      // The vector cores add up the splits of the wave, then its slots are free.
      AscendC::SyncAll<false>();
      if (t_->ranked != 0 || !waves_.IsLast(wave)) AscendC::SyncAll<false>();
    }
    keys_in_.Finish();
    values_in_.Finish();
    queries_in_.Finish();
    probabilities_in_.Finish();
    product_.Finish();
  }

 private:
  // The split's keys, or values, one below the other.
  template <typename Ring>
  __aicore__ inline L1Matrix<T> Gather(Ring& ring, const Splits<Keys>& splits, const Split& split,
                                       const AscendC::GlobalTensor<T>& from,
                                       const AscendC::GlobalTensor<T>& fresh,
                                       const CacheStrides& strides, int32_t columns) {
    const auto to = ring.BeginFill();
    const int32_t padded = RoundUp(split.keys, 16);
    const int64_t head = split.decode_row % t_->heads;
    const int64_t begin = head * strides.head + splits.decode_rows.keys.row() * strides.row;
    splits.decode_rows.keys.ForRuns(
        split.first, split.keys, [&](int32_t row, int64_t at, int32_t rows) __aicore__ {
          if (Keys::kHasFresh && at < 0) {
            CopyRowsTo(to, padded, row, fresh[((-1 - at) * t_->heads + head) * columns],
                       int64_t{t_->heads} * columns, rows, columns);
          } else {
            CopyRowsTo(to, padded, row, from[at * strides.token + begin], strides.token, rows,
                       columns);
          }
        });
    ring.EndFill();
    return {to, padded, columns};
  }

  __aicore__ inline void Scores(const Split& split, int64_t step) {
    const int32_t rows = split.decode_rows * t_->group;
    const auto to = queries_in_.BeginFill();
    const auto q = CopyQueries(to, query_[split.decode_row * t_->group * t_->dim],
                               int64_t{t_->heads} * t_->group * t_->dim, split.decode_rows,
                               t_->group, t_->dim);
    queries_in_.EndFill();
    const auto k = Gather(keys_in_, ahead_, split, key_, fresh_key_, t_->key, t_->dim);
    queries_in_.BeginUse();
    keys_in_.BeginUse();
    product_.BeginResult();
    product_.template Add<Form::kStraight, Form::kStraight>(q, k, rows, split.keys, t_->dim);
    queries_in_.EndUse();
    keys_in_.EndUse();
    const int64_t at =
        t_->ranked != 0 ? split.slot * kept_elements_ : step % kSlots * slot_elements_;
    product_.Store(scores_[at], t_->split_keys, rows, split.keys);
    HandOver<Handover::kScores>(step);
  }

  __aicore__ inline void Output(const Split& split, int64_t step) {
    const int32_t rows = split.decode_rows * t_->group;
    auto v = Gather(values_in_, behind_, split, value_, fresh_value_, t_->value, t_->value_dim);
    Await<Handover::kProbabilities>(step);
    const auto to = probabilities_in_.BeginFill();
    const auto p = CopyRows(to, probabilities_[step % kSlots * slot_elements_], t_->split_keys,
                            rows, split.keys);
    probabilities_in_.EndFill();
    values_in_.BeginUse();
    probabilities_in_.BeginUse();
    const int32_t panel = OutputPanel(rows, t_->value_dim);
    for (; v.column < t_->value_dim; v.column += panel) {
      const auto columns = static_cast<int32_t>(Min(panel, t_->value_dim - v.column));
      product_.BeginResult();
      product_.template Add<Form::kStraight, Form::kTransposed>(p, v, rows, columns, split.keys);
      product_.Store(outputs_[split.slot * output_elements_ + v.column], t_->value_dim, rows,
                     columns);
    }
    values_in_.EndUse();
    probabilities_in_.EndUse();
  }

  const SplitTiling* t_ = nullptr;
  int64_t slot_elements_ = 0, kept_elements_ = 0, output_elements_ = 0;
  AscendC::GlobalTensor<T> query_, key_, value_, fresh_key_, fresh_value_, probabilities_;
  AscendC::GlobalTensor<float> scores_, outputs_;
  Waves<Keys> waves_;
  Splits<Keys> ahead_, behind_;  // of the scores, of the output
  AscendC::TBuf<AscendC::TPosition::A1> l1_;
  L1Ring<T, 2, 0> keys_in_;
  L1Ring<T, 2, 2> values_in_;
  L1Ring<T, 1, 4> queries_in_;
  L1Ring<T, 1, 5> probabilities_in_;
  TileProduct<T> product_;
};

}  // namespace nsa::ascend
