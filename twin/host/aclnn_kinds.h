// What the parameters of an aclnn function are, as the generator tells them apart.
#pragma once

namespace twin {

enum class AclnnRole { kInput, kAttr, kOutput };
enum class AclnnKind { kTensor, kIntArray, kFloatArray, kBoolArray, kBool, kFloat, kInt, kString };

}  // namespace twin
