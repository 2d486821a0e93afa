// Format of a tensor as the caller sees it and as it lies in memory.
#pragma once

#include "graph/types.h"

namespace gert {

struct StorageFormat {
 public:
  StorageFormat() = default;
  StorageFormat(ge::Format origin, ge::Format storage)
      : origin_format_(origin), storage_format_(storage) {}

  ge::Format GetOriginFormat() const { return origin_format_; }
  ge::Format GetStorageFormat() const { return storage_format_; }
  void SetOriginFormat(ge::Format format) { origin_format_ = format; }
  void SetStorageFormat(ge::Format format) { storage_format_ = format; }

 private:
  ge::Format origin_format_ = ge::FORMAT_ND;
  ge::Format storage_format_ = ge::FORMAT_ND;
};

}  // namespace gert
