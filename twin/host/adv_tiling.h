// The host side of the high-level kernel APIs shares this.
#pragma once

#include <cstdint>
#include <string>

#include "graph/tensor.h"

namespace twin {

// A shape as rows and columns, the last axis.
struct Rows2D {
  uint32_t rows = 0;
  uint32_t columns = 0;
};

// False, and logged for `function`, unless all dimensions are positive and their product is below
// 2^31.
bool GetRows(const char* function, const char* name, const ge::Shape& shape, Rows2D* rows);
// False, and logged, unless the size of a data type is one of `sizes`, such as "2 or 4".
bool CheckTypeSize(const char* function, const char* name, uint32_t size, const char* sizes);

}  // namespace twin
