// Tiling data by macros.
#include <map>
#include <mutex>
#include <string>

#include "register/tilingdata_base.h"
#include "twin/host/log.h"

namespace optiling {

namespace {

constexpr size_t kStructAlignment = 8;

std::map<std::string, CTilingDataClassFactory::Creator>& Creators() {
  static std::map<std::string, CTilingDataClassFactory::Creator> creators;
  return creators;
}

std::mutex& CreatorsMutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void TilingDef::Align(size_t alignment) {
  const size_t missing = (alignment - size_ % alignment) % alignment;
  if (missing == 0) return;
  fields_.push_back({"uint8_t", "padding" + std::to_string(paddings_++), missing});
  size_ += missing;
}

size_t TilingDef::Append(const char* type, const char* name, size_t alignment, size_t bytes,
                         size_t count) {
  Align(alignment);
  fields_.push_back({type, name, count});
  const size_t offset = size_;
  size_ += bytes;
  return offset;
}

size_t TilingDef::AddStruct(const char* type, const char* name, TilingDef* member) {
  const size_t offset = Append(type, name, kStructAlignment, member->size_, 0);
  members_.push_back({member, offset});
  return offset;
}

void TilingDef::Finish(const char* class_name, bool own) {
  class_name_ = class_name;
  Align(kStructAlignment);
  if (!own) return;
  owned_.assign(size_ / sizeof(uint64_t), 0);
  uint8_t* bytes = reinterpret_cast<uint8_t*>(owned_.data());
  data_ = bytes;
  for (const Member& member : members_) member.member->SetDataPtr(bytes + member.offset);
}

void TilingDef::SetDataPtr(void* data) {
  owned_.clear();
  data_ = static_cast<uint8_t*>(data);
  for (const Member& member : members_) member.member->SetDataPtr(data_ + member.offset);
}

void TilingDef::SaveToBuffer(void* destination, size_t capacity) {
  if (owned_.empty()) return;
  if (capacity < size_) {
    twin::LogError(class_name_, "SaveToBuffer: the tiling data has " + std::to_string(size_) +
                                    " bytes, the buffer " + std::to_string(capacity));
    return;
  }
  std::memcpy(destination, data_, size_);
}

CTilingDataClassFactory& CTilingDataClassFactory::GetInstance() {
  static CTilingDataClassFactory factory;
  return factory;
}

void CTilingDataClassFactory::RegisterTilingData(const char* op_type, Creator creator) {
  const std::lock_guard<std::mutex> lock(CreatorsMutex());
  Creators()[op_type] = creator;
}

std::shared_ptr<TilingDef> CTilingDataClassFactory::CreateTilingDataInstance(const char* op_type) {
  const std::lock_guard<std::mutex> lock(CreatorsMutex());
  const auto creator = Creators().find(op_type);
  return creator == Creators().end() ? nullptr : creator->second();
}

}  // namespace optiling
