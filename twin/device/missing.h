// Bytes without a value that one instruction has read, where the launch lets them travel on instead
// of making them an error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "twin/device/where.h"

namespace twin {

struct GlobalBuffer;
class Shadow;

// Whether the image of one element lacks a byte, and how the error tells it.
inline bool Lacks(const uint8_t* image, uint64_t width) {
  if (width == 4 || width == 2) {
    uint32_t bits = 0;
    std::memcpy(&bits, image, 2);
    if (width == 4) std::memcpy(&bits, image, 4);
    return bits != 0;
  }
  return std::any_of(image, image + width, [](uint8_t byte) { return byte != 0; });
}
inline void SetLacks(uint8_t* image, uint64_t width, bool lacks) {
  std::memset(image, lacks ? 0xff : 0, width);
}

using ImageBytes = std::unique_ptr<uint8_t, void (*)(void*)>;

class TWIN_API MissingBytes {
 public:
  // A byte for each byte of a memory or of a buffer in GM; not 0 where no value is.
  struct Image {
    Shadow* shadow;
    GlobalBuffer* buffer;  // null for an on-chip memory
    ImageBytes bytes;
    uint64_t begin, end;            // what the instruction writes lies between
    uint64_t used_begin, used_end;  // and what is not 0 between these
  };

  explicit MissingBytes(uint32_t origin) : origin_(origin) {}
  ~MissingBytes();
  MissingBytes(const MissingBytes&) = delete;
  MissingBytes& operator=(const MissingBytes&) = delete;

  // For the rest of the instruction's reads these bytes count as written, so that their other
  // checks are made.
  void Add(Shadow* shadow, GlobalBuffer* buffer, uint64_t granule, uint32_t mask);
  // They hold no value again: before the writes, which may lie on them.
  void TakeBack();
  void Written(Shadow* shadow, GlobalBuffer* buffer, uint64_t begin, uint64_t end);
  uint8_t* ImageOf(Shadow* shadow, GlobalBuffer* buffer) { return Of(shadow, buffer).bytes.get(); }
  std::vector<Image>& images() { return images_; }
  // The instruction, by its place, that first read what is missing here.
  uint32_t origin() const { return origin_; }

 private:
  struct Lent {
    Shadow* shadow;
    uint64_t granule;
    uint32_t mask;
  };

  Image& Of(Shadow* shadow, GlobalBuffer* buffer);

  std::vector<Lent> lent_;
  std::vector<Image> images_;
  uint32_t origin_;
};

}  // namespace twin
