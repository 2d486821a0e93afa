// The parts that one block of cores of NsaSelectedAttentionInfer computes, and the keys of a part.
#pragma once

#include "ascendc/decoding/row_queries.h"
#include "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_tiling.h"

namespace nsa::ascend {

struct NsaSelectedAttentionInferArguments {
  GM_ADDR query;
  GM_ADDR key;
  GM_ADDR value;
  GM_ADDR indices;
  GM_ADDR block_table;
  GM_ADDR query_counts;
  GM_ADDR lengths;
  GM_ADDR output;
  GM_ADDR workspace;
};

// What a query selects of its row, for one key head.
class SelectedKeys {
 public:
  __aicore__ inline void Init(const NsaSelectedAttentionInferTilingData* tiling,
                              const NsaSelectedAttentionInferArguments& g) {
    t_ = tiling;
    queries_.Init(g.query_counts, g.lengths, t_->batch, t_->per_row, t_->capacity);
    tokens_.Init(g.block_table, t_->batch, t_->pages);
    indices_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(g.indices));
  }

  // Blocks that the row or the cache does not have contribute nothing; one that is named twice
  // counts twice. `sorted`: for ForRuns.
  __aicore__ inline void Start(int64_t cell, bool sorted) {
    const int64_t query = cell / t_->heads;
    queries_.Seek(query);
    begin_ = t_->pages.places > 0 ? 0 : queries_.row() * t_->capacity;
    count_ = 0;
    total_ = 0;
    for (int64_t i = 0; i < t_->block_count; ++i) {
      const int64_t block = indices_.GetValue(cell * t_->block_count + i);
      if (block < 0 || block * t_->block_size >= queries_.seen()) continue;
      if (!tokens_.Has(queries_.row(), begin_, block * t_->block_size, End(block))) continue;
      total_ += End(block) - block * t_->block_size;
      if (sorted) Insert(static_cast<int32_t>(block));
    }
  }
  __aicore__ inline int64_t total() const { return total_; }

  // The keys [first, first + keys), as runs that follow each other in memory: body(which key of the
  // part, where in memory, keys).
  template <typename Body>
  __aicore__ inline void ForRuns(int64_t first, int32_t keys, Body body) const {
    int64_t before = 0;  // keys of the blocks before
    for (int32_t i = 0; i < count_ && before < first + keys; ++i) {
      const int64_t start = blocks_[i] * t_->block_size, length = End(blocks_[i]) - start;
      const int64_t end = Min(length, first + keys - before);
      for (int64_t at = Max(0, first - before), run = 0; at < end; at += run) {
        run = tokens_.Run(start + at, end - at);
        body(static_cast<int32_t>(before + at - first),
             tokens_.At(queries_.row(), begin_, start + at), static_cast<int32_t>(run));
      }
      before += length;
    }
  }

 private:
  __aicore__ inline int64_t End(int64_t block) const {
    return Min(queries_.seen(), (block + 1) * t_->block_size);
  }
  // The scalar unit sorts while the pipes compute what came before.
  __aicore__ inline void Insert(int32_t block) {
    int32_t at = count_++;
    for (; at > 0 && blocks_[at - 1] > block; --at) blocks_[at] = blocks_[at - 1];
    blocks_[at] = block;
  }

  const NsaSelectedAttentionInferTilingData* t_ = nullptr;
  RowQueries queries_;
  RowTokens tokens_;
  AscendC::GlobalTensor<int32_t> indices_;
  int64_t begin_ = 0, total_ = 0;
  int32_t count_ = 0;
  int32_t blocks_[kMostQueryBlocks];  // ascending
};

struct SelectedInferPart {
  int64_t cell;   // of all
  int64_t slot;   // of the outputs and statistics of the wave
  int64_t first;  // key of the cell
  int32_t keys;
};

// A block's parts of a wave, without those that have no keys.
class SelectedInferParts {
 public:
  __aicore__ inline void Init(const NsaSelectedAttentionInferTilingData* tiling,
                              const NsaSelectedAttentionInferArguments& g, int64_t block,
                              int64_t blocks, bool sorted) {
    t_ = tiling;
    keys.Init(tiling, g);
    block_ = block;
    blocks_ = blocks;
    sorted_ = sorted;
  }
  __aicore__ inline void StartWave(int64_t first_cell, int64_t cells) {
    first_cell_ = first_cell;
    at_ = cells * t_->parts * block_ / blocks_;
    end_ = cells * t_->parts * (block_ + 1) / blocks_;
  }
  __aicore__ inline bool Next(SelectedInferPart* part) {
    for (; at_ < end_; at_ = (at_ / t_->parts + 1) * t_->parts) {
      const int64_t cell = first_cell_ + at_ / t_->parts;
      if (cell != cell_) keys.Start(cell, sorted_);
      cell_ = cell;
      part->cell = cell;
      part->slot = at_;
      part->first = at_ % t_->parts * t_->part_keys;
      part->keys = static_cast<int32_t>(Min(t_->part_keys, keys.total() - part->first));
      if (part->keys <= 0) continue;
      ++at_;
      return true;
    }
    return false;
  }

  SelectedKeys keys;

 private:
  const NsaSelectedAttentionInferTilingData* t_ = nullptr;
  int64_t block_ = 0, blocks_ = 1;
  int64_t first_cell_ = 0, at_ = 0, end_ = 0, cell_ = -1;
  bool sorted_ = false;
};

// body(first cell, cells) for every wave of cells.
template <typename Body>
__aicore__ inline void ForWaves(const NsaSelectedAttentionInferTilingData& t, Body body) {
  const int64_t cells = t.queries * t.heads;
  for (int64_t first = 0; first < cells; first += t.wave_cells)
    body(first, Min(t.wave_cells, cells - first));
}

}  // namespace nsa::ascend
