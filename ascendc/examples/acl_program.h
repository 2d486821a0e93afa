// Frame of an aclnn program around its call: set-up, device tensors, errors.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

// Ends the program where a call fails, with the runtime's reason.
inline void Check(int status, const char* call) {
  if (status == ACL_SUCCESS) return;
  const char* reason = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s returned %d: %s\n", call, status, reason == nullptr ? "" : reason);
  std::exit(1);
}
#define CHECK(call) Check(call, #call)

// The device with a stream, for the time of the program.
class Session {
 public:
  Session() {
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream_));
  }
  ~Session() {
    aclrtDestroyStream(stream_);
    aclrtResetDevice(0);
    aclFinalize();
  }
  aclrtStream stream() const { return stream_; }

  // Runs the second phase of an operator and waits for it.
  template <class SecondPhase>
  void Run(SecondPhase second, uint64_t workspace_size, aclOpExecutor* executor) const {
    void* workspace = nullptr;
    if (workspace_size > 0) {
      CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    CHECK(second(workspace, workspace_size, executor, stream_));
    CHECK(aclrtSynchronizeStream(stream_));
    if (workspace != nullptr) CHECK(aclrtFree(workspace));
  }

 private:
  aclrtStream stream_ = nullptr;
};

// How a type of elements lies in device memory.
struct Half {
  using Element = aclFloat16;
  static constexpr aclDataType kType = ACL_FLOAT16;
  static Element FromFloat(float value) { return aclFloatToFloat16(value); }
  static float ToFloat(Element element) { return aclFloat16ToFloat(element); }
};
struct Float {
  using Element = float;
  static constexpr aclDataType kType = ACL_FLOAT;
  static Element FromFloat(float value) { return value; }
  static float ToFloat(Element element) { return element; }
};
struct Int {
  using Element = int32_t;
  static constexpr aclDataType kType = ACL_INT32;
  static Element FromFloat(float value) { return static_cast<Element>(value); }
  static float ToFloat(Element element) { return static_cast<float>(element); }
};
struct Long {
  using Element = int64_t;
  static constexpr aclDataType kType = ACL_INT64;
  static Element FromFloat(float value) { return static_cast<Element>(value); }
  static float ToFloat(Element element) { return static_cast<float>(element); }
};
struct Byte {
  using Element = uint8_t;
  static constexpr aclDataType kType = ACL_UINT8;
  static Element FromFloat(float value) { return static_cast<Element>(value); }
  static float ToFloat(Element element) { return static_cast<float>(element); }
};

// A contiguous tensor in device memory. The host sees it as floats.
template <class Type>
class Tensor {
 public:
  explicit Tensor(std::vector<int64_t> shape) : shape_(std::move(shape)) {
    size_ = 1;
    for (int64_t dim : shape_) size_ *= static_cast<size_t>(dim);
    CHECK(aclrtMalloc(&memory_, Bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
    tensor_ = aclCreateTensor(shape_.data(), shape_.size(), Type::kType, nullptr, 0, ACL_FORMAT_ND,
                              shape_.data(), shape_.size(), memory_);
  }
  Tensor(std::vector<int64_t> shape, const std::vector<float>& values) : Tensor(std::move(shape)) {
    std::vector<Element> elements;
    for (float value : values) elements.push_back(Type::FromFloat(value));
    CHECK(aclrtMemcpy(memory_, Bytes(), elements.data(), Bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
  }
  ~Tensor() {
    aclDestroyTensor(tensor_);
    aclrtFree(memory_);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  aclTensor* get() const { return tensor_; }
  std::vector<float> Values() const {
    std::vector<Element> elements(size_);
    CHECK(aclrtMemcpy(elements.data(), Bytes(), memory_, Bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
    std::vector<float> values;
    for (Element element : elements) values.push_back(Type::ToFloat(element));
    return values;
  }

 private:
  using Element = typename Type::Element;

  size_t Bytes() const { return size_ * sizeof(Element); }

  std::vector<int64_t> shape_;
  size_t size_ = 0;
  void* memory_ = nullptr;
  aclTensor* tensor_ = nullptr;
};
using HalfTensor = Tensor<Half>;
using FloatTensor = Tensor<Float>;
using ByteTensor = Tensor<Byte>;
using IntTensor = Tensor<Int>;
using LongTensor = Tensor<Long>;

// Numbers of a few bits: every product and most sums of them are exact.
inline std::vector<float> Pattern(size_t size, int step, int modulus) {
  std::vector<float> values;
  for (size_t i = 0; i < size; ++i) {
    const int number =
        static_cast<int>(i * static_cast<size_t>(step) % static_cast<size_t>(modulus));
    values.push_back(static_cast<float>(number - modulus / 2) / 8.0f);
  }
  return values;
}

// 0, 1, 0, 1, ...
inline std::vector<float> Alternating(size_t size) {
  std::vector<float> values;
  for (size_t i = 0; i < size; ++i) values.push_back(static_cast<float>(i % 2));
  return values;
}

// The mask that sparse modes 2 to 4 share at every length: 1 hides what lies behind the diagonal.
constexpr int64_t kCausalMaskSize = 2048;
inline std::vector<float> CausalMask() {
  std::vector<float> values;
  for (int64_t row = 0; row < kCausalMaskSize; ++row) {
    for (int64_t column = 0; column < kCausalMaskSize; ++column) {
      values.push_back(column > row ? 1.0f : 0.0f);
    }
  }
  return values;
}

// One line per output: "name: value value ...".
template <class Type>
void Print(const std::string& name, const Tensor<Type>& tensor) {
  std::printf("%s:", name.c_str());
  for (float value : tensor.Values()) std::printf(" %.9g", static_cast<double>(value));
  std::printf("\n");
}
