// Tiling data by macros: a class that writes its fields into bytes which the kernel reads as a
// struct. Fields stand at multiples of their size, structs and the end at multiples of 8 bytes.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "twin/device/where.h"

namespace optiling {

// One member of the kernel's struct.
struct FieldInfo {
  std::string type;
  std::string name;
  size_t count;  // of an array; 0 for a single value
};

class TWIN_API TilingDef {
 public:
  virtual ~TilingDef() = default;
  TilingDef(const TilingDef&) = delete;
  TilingDef& operator=(const TilingDef&) = delete;

  // Copies the bytes; nothing where `capacity` is too small, or the data has been attached to its
  // destination with SetDataPtr.
  void SaveToBuffer(void* destination, size_t capacity);
  size_t GetDataSize() const { return size_; }
  const char* GetTilingClassName() const { return class_name_; }
  std::vector<FieldInfo> GetFieldInfo() const { return fields_; }
  // The fields live at `data` from now on.
  void SetDataPtr(void* data);

 protected:
  TilingDef() = default;

  // Offset of a new field.
  template <typename T>
  size_t AddField(const char* type, const char* name, size_t count) {
    static_assert((std::is_integral<T>::value && !std::is_same<T, bool>::value) ||
                      std::is_same<T, float>::value,
                  "a field of tiling data is an integer of 8 to 64 bits or a float");
    return Append(type, name, sizeof(T), sizeof(T) * (count == 0 ? 1 : count), count);
  }
  size_t AddStruct(const char* type, const char* name, TilingDef* member);
  void Finish(const char* class_name, bool own);

  uint8_t* data_ = nullptr;

 private:
  struct Member {
    TilingDef* member;
    size_t offset;
  };

  size_t Append(const char* type, const char* name, size_t alignment, size_t bytes, size_t count);
  void Align(size_t alignment);

  const char* class_name_ = "";
  std::vector<FieldInfo> fields_;
  std::vector<Member> members_;
  size_t size_ = 0;
  size_t paddings_ = 0;
  std::vector<uint64_t> owned_;
};

class TWIN_API CTilingDataClassFactory {
 public:
  using Creator = std::shared_ptr<TilingDef> (*)();
  static CTilingDataClassFactory& GetInstance();
  void RegisterTilingData(const char* op_type, Creator creator);
  // Null for an operator without a registered class.
  std::shared_ptr<TilingDef> CreateTilingDataInstance(const char* op_type);
};

}  // namespace optiling

#define BEGIN_TILING_DATA_DEF(class_name)                      \
  class class_name : public ::optiling::TilingDef {            \
   public:                                                     \
    class_name() { Finish(#class_name, true); }                \
    /* Without bytes of its own: a member of another class. */ \
    explicit class_name(void* data) {                          \
      Finish(#class_name, false);                              \
      if (data != nullptr) SetDataPtr(data);                   \
    }

#define TILING_DATA_FIELD_DEF(data_type, field_name)                  \
 public:                                                              \
  void set_##field_name(data_type value) {                            \
    std::memcpy(data_ + field_name##_offset_, &value, sizeof(value)); \
  }                                                                   \
  data_type get_##field_name() const {                                \
    data_type value;                                                  \
    std::memcpy(&value, data_ + field_name##_offset_, sizeof(value)); \
    return value;                                                     \
  }                                                                   \
                                                                      \
 private:                                                             \
  size_t field_name##_offset_ = AddField<data_type>(#data_type, #field_name, 0);

#define TILING_DATA_FIELD_DEF_ARR(data_type, count, field_name)                      \
 public:                                                                             \
  void set_##field_name(const data_type* values) {                                   \
    std::memmove(data_ + field_name##_offset_, values, (count) * sizeof(data_type)); \
  }                                                                                  \
  data_type* get_##field_name() {                                                    \
    return reinterpret_cast<data_type*>(data_ + field_name##_offset_);               \
  }                                                                                  \
                                                                                     \
 private:                                                                            \
  size_t field_name##_offset_ = AddField<data_type>(#data_type, #field_name, (count));

#define TILING_DATA_FIELD_DEF_STRUCT(struct_type, field_name) \
 public:                                                      \
  struct_type field_name{nullptr};                            \
                                                              \
 private:                                                     \
  size_t field_name##_offset_ = AddStruct(#struct_type, #field_name, &field_name);

#define END_TILING_DATA_DEF \
  }                         \
  ;

#define REGISTER_TILING_DATA_CLASS(op_type, class_name)                     \
  namespace {                                                               \
  [[maybe_unused]] const bool g_tiling_data_##op_type##_##class_name = [] { \
    ::optiling::CTilingDataClassFactory::GetInstance().RegisterTilingData(  \
        #op_type, []() -> std::shared_ptr<::optiling::TilingDef> {          \
          return std::make_shared<class_name>();                            \
        });                                                                 \
    return true;                                                            \
  }();                                                                      \
  }

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
