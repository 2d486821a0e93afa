// What every aclnn program does around its call: set-up, device tensors, errors.
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

// A contiguous float16 tensor in device memory. The host sees it as floats.
class HalfTensor {
 public:
  explicit HalfTensor(std::vector<int64_t> shape) : shape_(std::move(shape)) {
    size_ = 1;
    for (int64_t dim : shape_) size_ *= static_cast<size_t>(dim);
    CHECK(aclrtMalloc(&memory_, Bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
    tensor_ = aclCreateTensor(shape_.data(), shape_.size(), ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND,
                              shape_.data(), shape_.size(), memory_);
  }
  HalfTensor(std::vector<int64_t> shape, const std::vector<float>& values)
      : HalfTensor(std::move(shape)) {
    std::vector<aclFloat16> bits;
    for (float value : values) bits.push_back(aclFloatToFloat16(value));
    CHECK(aclrtMemcpy(memory_, Bytes(), bits.data(), Bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
  }
  ~HalfTensor() {
    aclDestroyTensor(tensor_);
    aclrtFree(memory_);
  }
  HalfTensor(const HalfTensor&) = delete;
  HalfTensor& operator=(const HalfTensor&) = delete;

  aclTensor* get() const { return tensor_; }
  std::vector<float> Values() const {
    std::vector<aclFloat16> bits(size_);
    CHECK(aclrtMemcpy(bits.data(), Bytes(), memory_, Bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
    std::vector<float> values;
    for (aclFloat16 half : bits) values.push_back(aclFloat16ToFloat(half));
    return values;
  }

 private:
  size_t Bytes() const { return size_ * sizeof(aclFloat16); }

  std::vector<int64_t> shape_;
  size_t size_ = 0;
  void* memory_ = nullptr;
  aclTensor* tensor_ = nullptr;
};

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

// One line per output: "name: value value ...".
inline void Print(const std::string& name, const HalfTensor& tensor) {
  std::printf("%s:", name.c_str());
  for (float value : tensor.Values()) std::printf(" %.9g", static_cast<double>(value));
  std::printf("\n");
}
