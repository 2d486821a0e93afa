// The cube core of NsaCompressAttention: S = Q K^T of a tile with all its keys, then O = P V, which
// leaves in its own data type.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/tile_product.h"
#include "ascendc/attention/work_items.h"
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_tiling.h"

namespace nsa::ascend {

struct NsaCompressAttentionArguments {
  GM_ADDR query;
  GM_ADDR key;
  GM_ADDR value;
  GM_ADDR mask;
  GM_ADDR topk_mask;
  GM_ADDR query_ends;
  GM_ADDR key_ends;
  GM_ADDR offsets;
  GM_ADDR softmax_max;
  GM_ADDR softmax_sum;
  GM_ADDR output;
  GM_ADDR indices;
  GM_ADDR workspace;
};

// The scores of a tile are computed before the output of the one two tiles before it, so that the
// vector cores always have some.
template <typename T>
class NsaCompressAttentionCube {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaCompressAttentionTilingData* tiling,
                              const NsaCompressAttentionArguments& g) {
    t_ = tiling;
    group_ = static_cast<int32_t>(t_->work.group);
    dim_ = static_cast<int32_t>(t_->dim);
    value_dim_ = static_cast<int32_t>(t_->value_dim);
    query_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.query));
    key_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.key));
    value_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.value));
    output_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.output));
    const NsaCompressAttentionWorkspace bytes(t_->work, t_->score_pitch);
    GM_ADDR mine = g.workspace + AscendC::GetBlockIdx() * bytes.Total();
    slot_ = bytes.slot;
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine));
    pipe->InitBuffer(l1_, 2 * (kCompressQueryBytes + kCompressKeyBytes + kProbabilitySlotBytes));
    const auto l1 = l1_.template Get<T>();
    queries_.Start(l1, kCompressQueryBytes);
    keys_.Start(l1[2 * kCompressQueryBytes / sizeof(T)], kCompressKeyBytes);
    blocks_.Start(l1[2 * (kCompressQueryBytes + kCompressKeyBytes) / sizeof(T)],
                  kProbabilitySlotBytes);
    product_.Start(pipe);
    ahead_.Init(&t_->work, &t_->mask, g.query_ends, g.key_ends, nullptr, g.offsets);
    behind_.Init(&t_->work, &t_->mask, g.query_ends, g.key_ends, nullptr, g.offsets);
  }

  __aicore__ inline void Process() {
    int64_t computed = 0, done = 0;  // tiles
    Tile tile{};
    bool more = true;
    do {
      while (more && computed - done <= kStepsAhead) {
        more = Next(&ahead_, &tile);
        if (more) Scores(tile, computed++);
      }
      if (done == computed) break;
      Next(&behind_, &tile);
      Output(tile, done++);
    } while (true);
    queries_.Finish();
    keys_.Finish();
    blocks_.Finish();
    product_.Finish();
  }

 private:
  struct Tile {
    WorkItem item;
    int64_t keys;
    int32_t rows;
  };
  // The next tile that sees something.
  __aicore__ inline bool Next(WorkItems* items, Tile* tile) const {
    while (items->Next(&tile->item)) {
      const WorkItem& item = tile->item;
      tile->keys = SpanOf(item.visible, item.row, item.rows).end;
      tile->rows = item.rows * group_;
      if (tile->keys > 0) return true;
    }
    return false;
  }
  // Elements between two keys of a head.
  __aicore__ inline int64_t KeyPitch(int64_t dim) const { return t_->work.heads * dim; }
  // Offset of the first head of the first query of a tile.
  __aicore__ inline int64_t QueryOffset(const WorkItem& item, int64_t dim) const {
    return ((item.query_start + item.row) * t_->heads + item.head * group_) * dim;
  }

  __aicore__ inline void Scores(const Tile& tile, int64_t index) {
    const WorkItem& item = tile.item;
    const L1Matrix<T> queries = CopyQueries(queries_.BeginFill(), query_[QueryOffset(item, dim_)],
                                            t_->heads * dim_, item.rows, group_, dim_);
    queries_.EndFill();
    queries_.BeginUse();
    const int64_t pitch = KeyPitch(dim_);
    const auto from = key_[item.key_start * pitch + item.head * dim_];
    const auto to = scores_[index % kSlots * slot_];
    const int32_t block_keys = CompressTransferKeys(dim_);
    for (int64_t block = 0; block < tile.keys; block += block_keys) {
      const auto rows = static_cast<int32_t>(Min(block_keys, tile.keys - block));
      L1Matrix<T> keys = CopyRows(keys_.BeginFill(), from[block * pitch], pitch, rows, dim_);
      keys_.EndFill();
      keys_.BeginUse();
      for (keys.row = 0; keys.row < rows; keys.row += kTileKeys) {
        const auto columns = static_cast<int32_t>(Min(kTileKeys, rows - keys.row));
        product_.BeginResult();
        product_.template Add<Form::kStraight, Form::kStraight>(queries, keys, tile.rows, columns,
                                                                dim_);
        product_.Store(to[block + keys.row], t_->score_pitch, tile.rows, columns);
      }
      keys_.EndUse();
    }
    queries_.EndUse();
    HandOver<Handover::kScores>(index);
  }

  __aicore__ inline void Output(const Tile& tile, int64_t index) {
    const WorkItem& item = tile.item;
    const int64_t pitch = KeyPitch(value_dim_), row_pitch = 2 * t_->score_pitch;
    const auto from = value_[item.key_start * pitch + item.head * value_dim_];
    const auto probabilities = probabilities_[2 * (index % kSlots * slot_)];
    const auto to = output_[QueryOffset(item, value_dim_)];
    const int32_t block_keys =
        CompressTransferKeys(static_cast<int32_t>(Min(value_dim_, kValuePanel)));
    bool waits = true;
    for (int32_t panel = 0; panel < value_dim_; panel += kValuePanel) {
      const auto columns = static_cast<int32_t>(Min(kValuePanel, value_dim_ - panel));
      product_.BeginResult();
      for (int64_t block = 0; block < tile.keys; block += block_keys) {
        const auto rows = static_cast<int32_t>(Min(block_keys, tile.keys - block));
        const L1Matrix<T> values =
            CopyRows(keys_.BeginFill(), from[block * pitch + panel], pitch, rows, columns);
        keys_.EndFill();
        // The first values are on their way while the vector cores still work.
        if (waits) Await<Handover::kProbabilities>(index);
        waits = false;
        const L1Matrix<T> p =
            CopyRows(blocks_.BeginFill(), probabilities[block], row_pitch, tile.rows, rows);
        blocks_.EndFill();
        keys_.BeginUse();
        blocks_.BeginUse();
        product_.template Add<Form::kStraight, Form::kTransposed>(p, values, tile.rows, columns,
                                                                  rows);
        keys_.EndUse();
        blocks_.EndUse();
      }
      StoreOutput(to[panel], tile, columns);
    }
  }

  // The heads of a query lie side by side, those of the next query behind the other heads.
  __aicore__ inline void StoreOutput(const AscendC::GlobalTensor<T>& to, const Tile& tile,
                                     int32_t columns) {
    const int64_t query = t_->heads * value_dim_;
    product_.BeginStore();
    if (group_ == 1) {
      product_.StoreRows(to, query, tile.rows, columns, 0, tile.rows);
    } else if (group_ == t_->heads) {
      product_.StoreRows(to, value_dim_, tile.rows, columns, 0, tile.rows);
    } else {
      for (int32_t i = 0; i < tile.item.rows; ++i)
        product_.StoreRows(to[i * query], value_dim_, tile.rows, columns, i * group_, group_);
    }
    product_.EndStore();
  }

  const NsaCompressAttentionTilingData* t_ = nullptr;
  int32_t group_ = 1, dim_ = 0, value_dim_ = 0;
  int64_t slot_ = 0;
  WorkItems ahead_, behind_;  // of the scores, of the output
  AscendC::GlobalTensor<T> query_, key_, value_, output_, probabilities_;
  AscendC::GlobalTensor<float> scores_;
  AscendC::TBuf<AscendC::TPosition::A1> l1_;
  L1Ring<T, 2, 0> queries_;
  L1Ring<T, 2, 2> keys_;  // and values
  L1Ring<T, 2, 4> blocks_;
  TileProduct<T> product_;
};

}  // namespace nsa::ascend
