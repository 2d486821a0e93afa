// The untyped part of a tensor: what an instruction needs to know of its operand.
#pragma once

#include "twin/device/types.h"

namespace twin {

struct BufPool;

// One buffer that a TPipe manages: a TBuf, or one of the buffers of a TQue.
struct Buffer {
  AscendC::TBufState state = AscendC::TBufState::FREE;
  bool in_queue = false;  // of a TQue, so it has to be allocated before it is used
  bool alive = true;      // until Reset or Destroy of its TPipe
  bool released = false;  // by Destroy: a plain address until the next TPipe hands memory out
  Hardware memory = Hardware::MAX;
  TPosition position = TPosition::MAX;
  uint32_t address = 0;
  uint32_t bytes = 0;
  uint32_t generation = 0;  // counts AllocTensor: tells a tensor that was freed from the next one
  HardEvent free_event = HardEvent::MAX;
  HardEvent enque_event = HardEvent::MAX;
  int8_t free_id = -1;
  int8_t enque_id = -1;
  int32_t user_tag = -1;
  const void* queue = nullptr;
  BufPool* pool = nullptr;  // the TBufPool that it was taken from
  Where where;              // of its last change of state
};

// The fields of a tensor by CANN's names, in the order of LocalView's.
struct BufferAddress {
  uint32_t bufferAddr;
  uint32_t dataLen;
  uint8_t logicPos;
  bool outside;
  uint32_t generation;
  uint8_t* bufferHandle;
};

struct LocalView {
  LocalView()
      : address(0),
        bytes(0),
        position(TPosition::MAX),
        outside(false),
        generation(0),
        buffer(nullptr) {}

  union {
    __extension__ struct {
      uint32_t address;  // bytes from the start of the memory
      uint32_t bytes;    // to the end of the view
      TPosition position;
      bool outside;  // its offset lies beyond the end of the tensor it was taken from
      uint32_t generation;
      Buffer* buffer;  // null for a tensor placed by its address
    };
    BufferAddress address_;  // the same, for kernels that set it themselves
  };

  Hardware memory() const { return AscendC::GetPhyType(position); }
};

struct GlobalBuffer;

struct GlobalView {
  uint8_t* address = nullptr;
  uint64_t bytes = 0;  // as given to SetGlobalBuffer and left by offsets, 0 when not given
  bool sized = false;
  bool outside = false;
  // The memory that the address was taken from; for an address outside all memory, which an offset
  // may lead back from, the memory of the first access.
  mutable GlobalBuffer* buffer = nullptr;
};

}  // namespace twin
