// The operators as the outside sees them: types, schemas, and the one entry point that checks a
// call and infers its outputs. Everything below this header needs the standard library only.
#pragma once

#include <any>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "infer/declare.h"
#include "infer/operators.h"

namespace nsa {

// Values are MindSpore's TypeIds, so that its type inference needs no translation.
enum class DType : int {
  kUnknown = 0,  // not known yet: dtype checks are passed over
  kBool = 30,
  kInt8 = 32,
  kInt16 = 33,
  kInt32 = 34,
  kInt64 = 35,
  kUint8 = 37,
  kUint16 = 38,
  kUint32 = 39,
  kUint64 = 40,
  kFloat16 = 42,
  kFloat32 = 43,
  kFloat64 = 44,
  kBFloat16 = 45,
  kFloat8E4M3FN = 46,
  kFloat8E5M2 = 47,
  kHiFloat8 = 48,
  kComplex64 = 51,
  kComplex128 = 52,
};

const char* dtype_name(DType dtype);
// False if no dtype has that name.
bool dtype_from_name(std::string_view name, DType* dtype);
// The dtype that an attribute names.
template <class Choice>
DType dtype_of(Choice choice) {
  DType dtype = DType::kUnknown;
  dtype_from_name(name_of(choice), &dtype);
  return dtype;
}
// Bytes of one element; 0 for kUnknown.
int64_t dtype_size(DType dtype);

enum class Target { kCpu, kAscend };

struct TensorDesc {
  bool present = true;
  DType dtype = DType::kUnknown;
  bool known_rank = true;
  std::vector<int64_t> shape;                    // -1: unknown dimension
  const std::vector<int64_t>* values = nullptr;  // host values of a list, nullptr if not known
  void* data = nullptr;  // the elements where the call is run; rules do not read them
};

// In `shape`, -1 is an unknown dimension and {-2} an unknown rank, as MindSpore writes them.
struct OutputDesc {
  DType dtype = DType::kUnknown;
  std::vector<int64_t> shape;
};

enum AclnnCode : int { kAclnnNullptr = 161001, kAclnnInvalid = 161002, kAclnnLimit = 561002 };

struct OpError : std::exception {
  enum Kind { kType, kValue };

  OpError(Kind kind, std::string message, int aclnn_code = kAclnnInvalid)
      : kind(kind), message(std::move(message)), aclnn_code(aclnn_code) {}
  const char* what() const noexcept override { return message.c_str(); }

  Kind kind;
  std::string message;
  int aclnn_code;
};

class Attrs {
 public:
  using Value = std::variant<int64_t, double, std::string>;
  using Item = std::pair<std::string, Value>;

  // Replaces the value if the name is there already.
  Attrs& set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // The value, or `fallback` if the name is absent. An int is accepted as a float; any other type
  // is an OpError.
  int64_t get_int(std::string_view name, int64_t fallback) const;
  double get_float(std::string_view name, double fallback) const;
  std::string get_str(std::string_view name, const std::string& fallback) const;

  const std::vector<Item>& items() const { return items_; }
  void reserve(size_t count) { items_.reserve(count); }

 private:
  std::vector<Item> items_;
};

enum class AttrType { kInt, kFloat, kString };

struct AttrSpec {
  const char* name;
  AttrType type;
  bool required;
  Attrs::Value fallback;               // meaningless where required
  bool flag = false;                   // an int that is 0 or 1
  int64_t min = kNoMin, max = kNoMax;  // of an int
  bool rows = false;                   // an int that is the size of an output, which kernels see
  bool probability = false;            // a float in (0, 1]
  Choices choices = {};                // of a str
};

// The attributes of an operator: how they are described, and what makes its struct of values in
// this order.
struct AttrSchema {
  std::vector<AttrSpec> specs;
  std::any (*declared)(const std::vector<Attrs::Value>& values);
};

enum class OpId {
#define NSA_OP_ID(op, function, outputs) k##op,
  NSA_OPERATORS(NSA_OP_ID)
#undef NSA_OP_ID
};

inline constexpr size_t kOpCount = 0
#define NSA_OP_COUNT(op, function, outputs) +1
    NSA_OPERATORS(NSA_OP_COUNT)
#undef NSA_OP_COUNT
    ;

// The sizes that the shapes of an operator name: those of the inputs, then those that only outputs
// have.
struct SizeSources {
  std::vector<int16_t> attrs;       // the place of the attribute that says it, or -1
  std::vector<uint8_t> of_outputs;  // the size that each name in the shapes of the outputs is
  std::vector<uint8_t> likes;       // for each output the input whose shape it has; else 0
  size_t float_input = 0;           // the last input that is kFloat
};

struct OpSchema {
  // Name and function are those of NSA_OPERATORS.
  OpSchema(OpId id, const Inputs& inputs, AttrSchema attrs, const Outputs& outputs);

  OpId id;
  const char* name;      // "NsaCompress"
  const char* function;  // "nsa_compress": how messages name it
  const Inputs& inputs;
  std::vector<AttrSpec> attrs;
  std::any (*declared)(const std::vector<Attrs::Value>& values);
  const Outputs& outputs;
  SizeSources sizes;
};

// Throws OpError for an unknown name.
const OpSchema& schema(std::string_view op);
const OpSchema& schema(OpId op);
std::vector<std::string> op_names();

// Checks everything that is known about the call and returns the outputs; throws OpError. An
// unknown dimension, rank, dtype or list value passes the checks that need it, so the call is
// repeated at run time with everything known.
std::vector<OutputDesc> infer(std::string_view op, const std::vector<TensorDesc>& inputs,
                              const Attrs& attrs, Target target = Target::kCpu);

// How often infer() of check.h, through which each call goes, has called an operator's rules.
int64_t rules_called();

}  // namespace nsa
