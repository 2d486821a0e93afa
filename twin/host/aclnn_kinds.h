// The kinds of an aclnn function's parameters, as the generator tells them apart.
#pragma once

namespace twin {

enum class AclnnRole { kInput, kAttr, kOutput };
enum class AclnnKind { kTensor, kIntArray, kFloatArray, kBoolArray, kBool, kFloat, kInt, kString };

}  // namespace twin
