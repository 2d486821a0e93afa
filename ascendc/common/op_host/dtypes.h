// CANN's data types and those of infer/.
#pragma once

#include "graph/types.h"
#include "infer/op.h"

namespace nsa::ascend {

struct DtypePair {
  ge::DataType ge;
  DType dtype;
};

inline constexpr DtypePair kDtypes[] = {
    {ge::DT_FLOAT16, DType::kFloat16},
    {ge::DT_BF16, DType::kBFloat16},
    {ge::DT_FLOAT, DType::kFloat32},
    {ge::DT_DOUBLE, DType::kFloat64},
    {ge::DT_BOOL, DType::kBool},
    {ge::DT_INT8, DType::kInt8},
    {ge::DT_UINT8, DType::kUint8},
    {ge::DT_INT16, DType::kInt16},
    {ge::DT_UINT16, DType::kUint16},
    {ge::DT_INT32, DType::kInt32},
    {ge::DT_UINT32, DType::kUint32},
    {ge::DT_INT64, DType::kInt64},
    {ge::DT_UINT64, DType::kUint64},
    {ge::DT_COMPLEX64, DType::kComplex64},
    {ge::DT_COMPLEX128, DType::kComplex128},
};

// kFloat8E4M3FN, which no operator takes, for a type that infer/ has no name for.
constexpr DType dtype_of(ge::DataType dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.ge == dtype) return pair.dtype;
  }
  return DType::kFloat8E4M3FN;
}

constexpr ge::DataType ge_dtype_of(DType dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.dtype == dtype) return pair.ge;
  }
  return ge::DT_UNDEFINED;
}

}  // namespace nsa::ascend
