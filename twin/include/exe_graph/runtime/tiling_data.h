// Bytes that the tiling function hands to the kernel.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "graph/error_codes.h"

namespace gert {

class TilingData {
 public:
  // The twin's own. Nothing is zeroed on a device, so what tiling leaves out shows.
  explicit TilingData(size_t capacity)
      : bytes_((capacity + sizeof(uint64_t) - 1) / sizeof(uint64_t), ~uint64_t{0}) {}
  TilingData(const TilingData&) = delete;
  TilingData& operator=(const TilingData&) = delete;

  size_t GetCapacity() const { return bytes_.size() * sizeof(uint64_t); }
  size_t GetDataSize() const { return size_; }
  void SetDataSize(size_t size) { size_ = size; }
  void* GetData() { return bytes_.data(); }
  const void* GetData() const { return bytes_.data(); }

  template <typename T, typename std::enable_if<std::is_standard_layout<T>::value, int>::type = 0>
  ge::graphStatus Append(const T& data) {
    if (size_ + sizeof(T) > GetCapacity()) return ge::GRAPH_FAILED;
    std::memcpy(reinterpret_cast<uint8_t*>(bytes_.data()) + size_, &data, sizeof(T));
    size_ += sizeof(T);
    return ge::GRAPH_SUCCESS;
  }

 private:
  std::vector<uint64_t> bytes_;
  size_t size_ = 0;
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
