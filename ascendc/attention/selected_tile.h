// The cube's products of a tile of queries with the blocks that they select. The heads of a query's
// group are a stripe of rows; every block is loaded once for the tile and multiplied with the
// stripes of the queries that select it.
#pragma once

#include "ascendc/attention/selection.h"
#include "ascendc/attention/tile_product.h"
#include "ascendc/attention/work_items.h"

namespace nsa::ascend {

// Some rows of a packed tensor [tokens, heads, columns].
template <typename T>
struct PackedRows {
  AscendC::GlobalTensor<T> tensor;
  int64_t heads;
  int32_t columns;

  __aicore__ inline int64_t pitch() const { return heads * columns; }
  __aicore__ inline AscendC::GlobalTensor<T> At(int64_t token, int64_t head) const {
    return tensor[token * pitch() + head * columns];
  }
};

// The rows of `queries` queries of a key head, a stripe for each. What a stripe has beyond the
// group's rows is filled with the same rows again.
template <typename T>
__aicore__ inline L1Matrix<T> CopyStripes(const AscendC::LocalTensor<T>& to,
                                          const AscendC::GlobalTensor<T>& from, int64_t pitch,
                                          int32_t queries, int32_t columns,
                                          const SelectionTiling& selection) {
  const auto group = static_cast<int32_t>(selection.group);
  const auto stripe_rows = static_cast<int32_t>(selection.stripe_rows);
  const int32_t rows = queries * stripe_rows;
  constexpr int64_t kMostPitch = 65535;
  constexpr int32_t kC0 = kBlockBytes / sizeof(T);
  const auto copy = [&](int32_t query, int32_t count) __aicore__ {
    for (int32_t row = 0; row < stripe_rows; row += group) {
      const auto here = static_cast<uint16_t>(Min(group, stripe_rows - row));
      AscendC::DataCopy(
          to[static_cast<uint32_t>((query * stripe_rows + row) * kC0)], from[query * pitch],
          AscendC::Nd2NzParams(static_cast<uint16_t>(count), here, static_cast<uint16_t>(columns),
                               static_cast<uint16_t>(count > 1 ? pitch : 0),
                               static_cast<uint16_t>(columns), static_cast<uint16_t>(rows), 1,
                               static_cast<uint16_t>(stripe_rows * kC0)));
    }
  };
  if (pitch <= kMostPitch) {
    copy(0, queries);
  } else {
    for (int32_t query = 0; query < queries; ++query) copy(query, 1);
  }
  return {to, rows, columns};
}

template <typename T>
class SelectedTile {
 public:
  // `memory` holds kSelectedTileBytes of L1. The product is the caller's.
  __aicore__ inline void Start(const AscendC::LocalTensor<T>& memory, TileProduct<T>* product,
                               const SelectionTiling* selection, GM_ADDR lists) {
    s_ = selection;
    product_ = product;
    group_ = static_cast<int32_t>(s_->group);
    stripe_rows_ = static_cast<int32_t>(s_->stripe_rows);
    lists_ = lists;
    stripes_.Start(memory, kStripesBytes);
    blocks_.Start(memory[kStripesBytes / sizeof(T)], kBlockSlotBytes);
    factors_.Start(memory[(kStripesBytes + kBlockSlots * kBlockSlotBytes) / sizeof(T)],
                   kFactorSlotBytes);
  }
  __aicore__ inline void Finish() {
    stripes_.Finish();
    blocks_.Finish();
    factors_.Finish();
  }

  // scores[query, g, slot, key] = q[query, g] k[block of the slot, key], of the keys that the query
  // sees. scores: rows of `columns` of the selection.
  __aicore__ inline void Multiply(const WorkItem& item, const PackedRows<T>& queries,
                                  const PackedRows<T>& keys,
                                  const AscendC::GlobalTensor<float>& scores) {
    const L1Matrix<T> tile = CopyStripes(
        stripes_.BeginFill(), queries.At(item.query_start + item.row, item.head * group_),
        queries.pitch(), item.rows, queries.columns, *s_);
    stripes_.EndFill();
    stripes_.BeginUse();
    union_.Start(lists_, item, *s_);
    while (union_.Next()) {
      int32_t rows = 0;
      for (int32_t i = 0; i < union_.chosen; ++i)
        rows = static_cast<int32_t>(Max(rows, union_.keys[i]));
      const L1Matrix<T> block = CopyBlock(item, keys, rows);
      blocks_.BeginUse();
      const int32_t most = MostStripes();
      for (int32_t at = 0; at < union_.chosen; at += most) {
        const auto count = static_cast<int32_t>(Min(most, union_.chosen - at));
        product_->BeginResult();
        product_->AddStripes(tile, union_.stripe + at, count, stripe_rows_, block, rows,
                             keys.columns);
        product_->StoreStripes(s_->columns, count, stripe_rows_, group_, rows,
                               [&](int32_t i) __aicore__ {
                                 return scores[Place(union_.stripe[at + i], union_.slot[at + i])];
                               });
      }
      blocks_.EndUse();
    }
    stripes_.EndUse();
  }

  // to[query, g] = sum over the slots of factors[query, g, slot] values[block of the slot]. Rows of
  // a query that sees nothing are left as they are.
  __aicore__ inline void Sum(const WorkItem& item, const AscendC::GlobalTensor<T>& factors,
                             const PackedRows<T>& values, const AscendC::GlobalTensor<float>& to) {
    product_->BeginSums();
    union_.Start(lists_, item, *s_);
    uint32_t used = 0;
    while (union_.Next()) {
      int32_t rows = 0;
      for (int32_t i = 0; i < union_.chosen; ++i)
        rows = static_cast<int32_t>(Max(rows, union_.keys[i]));
      const L1Matrix<T> block = CopyBlock(item, values, rows);
      blocks_.BeginUse();
      const int32_t most = MostStripes();
      for (int32_t at = 0; at < union_.chosen; at += most) {
        const auto count = static_cast<int32_t>(Min(most, union_.chosen - at));
        bool first[kMostStripes];
        for (int32_t i = 0; i < count; ++i) {
          first[i] = union_.slot[at + i] == 0;
          used |= 1u << union_.stripe[at + i];
        }
        const L1Matrix<T> part = CopyFactors(factors, at, count);
        factors_.BeginUse();
        product_->AddToSums(part, union_.stripe + at, union_.keys + at, first, count, stripe_rows_,
                            group_, block, values.columns, rows);
        factors_.EndUse();
      }
      blocks_.EndUse();
    }
    product_->BeginStores();
    for (int32_t i = 0; i < item.rows; ++i) {
      if ((used >> i & 1) == 0) continue;
      product_->StoreSum(to[int64_t{i} * group_ * values.columns], values.columns, i, stripe_rows_,
                         group_, values.columns);
    }
    product_->EndSums();
  }

 private:
  // Stripes of one product.
  __aicore__ inline int32_t MostStripes() const { return kTileRows / stripe_rows_; }
  // Where a query's scores with a block begin.
  __aicore__ inline int64_t Place(int32_t stripe, int32_t slot) const {
    return int64_t{stripe} * group_ * s_->columns + slot * s_->block_size;
  }

  __aicore__ inline L1Matrix<T> CopyBlock(const WorkItem& item, const PackedRows<T>& from,
                                          int32_t rows) {
    const int64_t token = item.key_start + union_.block * s_->block_size;
    const auto matrix =
        CopyRows(blocks_.BeginFill(), from.At(token, item.head), from.pitch(), rows, from.columns);
    blocks_.EndFill();
    return matrix;
  }

  // The factors of some of the chosen stripes with the block, one below the other.
  __aicore__ inline L1Matrix<T> CopyFactors(const AscendC::GlobalTensor<T>& from, int32_t at,
                                            int32_t count) {
    constexpr int32_t kC0 = kBlockBytes / sizeof(T);
    const int32_t rows = count * stripe_rows_;
    const auto to = factors_.BeginFill();
    for (int32_t i = 0; i < count; ++i) {
      const auto part = from[Place(union_.stripe[at + i], union_.slot[at + i])];
      const auto copy = [&](int32_t row) __aicore__ {
        AscendC::DataCopy(to[static_cast<uint32_t>((i * stripe_rows_ + row) * kC0)], part,
                          AscendC::Nd2NzParams(1, static_cast<uint16_t>(group_),
                                               static_cast<uint16_t>(union_.keys[at + i]), 0,
                                               static_cast<uint16_t>(s_->columns),
                                               static_cast<uint16_t>(rows), 1, 0));
      };
      copy(0);
      // The cube would take a single row for a vector.
      if (group_ == 1) copy(1);
    }
    factors_.EndFill();
    return {to, rows, RoundUp(static_cast<int32_t>(s_->block_size), 16)};
  }

  const SelectionTiling* s_ = nullptr;
  int32_t group_ = 1, stripe_rows_ = 16;
  SelectionUnion union_;
  GM_ADDR lists_ = nullptr;
  L1Ring<T, 1, 0> stripes_;
  L1Ring<T, kBlockSlots, 1> blocks_;
  L1Ring<T, kFactorSlots, 4> factors_;
  TileProduct<T>* product_ = nullptr;
};

}  // namespace nsa::ascend
