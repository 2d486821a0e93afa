// Built with _GLIBCXX_USE_CXX11_ABI=0, like MindSpore's libraries.
#include "binding/custom_extra.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// The part of MindSpore's classes that a vtable call relies on: the order of the virtual functions
// and the data members. Not in an anonymous namespace: there the compiler would know that no class
// derives from it, and would call the pure virtual function directly.
namespace nsa_aot {

class AotKernelData {
 public:
  virtual ~AotKernelData() = default;
};

class AotExtra {
 public:
  virtual ~AotExtra() = default;
  virtual bool HasAttr(std::string name) = 0;
  virtual bool GetAttrBool(std::string name) = 0;
  virtual int64_t GetAttrInt(std::string name) = 0;
  virtual float GetAttrFloat(std::string name) = 0;
  virtual std::string GetAttrStr(std::string name) = 0;
  virtual std::vector<int64_t> GetAttrIntVec(std::string name) = 0;
  virtual std::vector<float> GetAttrFloatVec(std::string name) = 0;
  virtual std::vector<std::vector<int64_t>> GetAttrInt2DVec(std::string name) = 0;
  virtual std::vector<std::vector<float>> GetAttrFloat2DVec(std::string name) = 0;

  std::vector<size_t> workspace_;
  AotKernelData* kernel_data_ = nullptr;
};

}  // namespace nsa_aot

std::size_t nsa_custom_string_attr(void* extra, const char* name, char* buffer,
                                   std::size_t capacity) {
  const std::string value = static_cast<nsa_aot::AotExtra*>(extra)->GetAttrStr(name);
  std::memcpy(buffer, value.data(), std::min(value.size(), capacity));
  return value.size();
}
