// The attributes of a call bound to what its operator declares: checked and read once, for as many
// calls as have them.
#pragma once

#include <any>
#include <type_traits>
#include <utility>
#include <vector>

#include "infer/op.h"

namespace nsa {

class BoundAttrs {
 public:
  // Throws OpError where a name, a type or a value is not what the schema says. The schema must
  // outlive it.
  BoundAttrs(const OpSchema& schema, const Attrs& attrs);

  const OpSchema& schema() const { return *schema_; }
  // By its place in the schema, fallbacks filled in.
  const Attrs::Value& value(size_t place) const { return values_[place]; }
  // The struct that declares them.
  template <class Declared>
  const Declared& as() const {
    return std::any_cast<const Declared&>(declared_);
  }

 private:
  const OpSchema* schema_;
  std::vector<Attrs::Value> values_;
  std::any declared_;
};

// Fills what is declared from values in the order of the schema.
template <class Declared>
struct AttrReader {
  const std::vector<Attrs::Value>& values;
  Declared& attrs;
  size_t next = 0;

  template <class Struct, class T>
  void required(const char*, T Struct::* member, int64_t = 0, int64_t = 0) {
    const Attrs::Value& value = values[next++];
    const int64_t* number = std::get_if<int64_t>(&value);
    if constexpr (std::is_enum_v<T>) {
      const Choices choices = choices_of(T{});
      size_t place = 0;
      while (std::get<std::string>(value) != choices.names[place]) ++place;
      attrs.*member = static_cast<T>(place);
    } else if constexpr (std::is_floating_point_v<T>) {
      const double real =
          number != nullptr ? static_cast<double>(*number) : std::get<double>(value);
      attrs.*member = static_cast<T>(real);
    } else {
      attrs.*member = static_cast<T>(*number);
    }
  }
  template <class Struct, class T>
  void optional(const char* name, T Struct::* member, int64_t = 0, int64_t = 0) {
    required(name, member);
  }
  template <class Struct>
  void rows(const char* name, int64_t Struct::* member, int64_t = 0) {
    required(name, member);
  }
  template <class Struct>
  void probability(const char* name, double Struct::* member) {
    required(name, member);
  }
};

// Makes the schema of the attributes from their declaration.
template <class Declared>
struct AttrLister {
  std::vector<AttrSpec> specs;

  template <class Struct, class T>
  void required(const char* name, T Struct::*, int64_t min = kNoMin, int64_t max = kNoMax) {
    specs.push_back({name, type_of<T>(), true, {}, std::is_same_v<T, bool>, min, max});
    if constexpr (std::is_enum_v<T>) specs.back().choices = choices_of(T{});
  }
  template <class Struct, class T>
  void optional(const char* name, T Struct::* member, int64_t min = kNoMin, int64_t max = kNoMax) {
    required(name, member, min, max);
    specs.back().required = false;
    const T value = Declared{}.*member;
    if constexpr (std::is_enum_v<T>) {
      specs.back().fallback = std::string(name_of(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      specs.back().fallback = static_cast<double>(value);
    } else {
      specs.back().fallback = static_cast<int64_t>(value);
    }
  }
  // An optional int that says the size of an output, which kernels see.
  template <class Struct>
  void rows(const char* name, int64_t Struct::* member, int64_t min) {
    optional(name, member, min);
    specs.back().rows = true;
  }
  // A float in (0, 1], optional where the declaration has a value.
  template <class Struct>
  void probability(const char* name, double Struct::* member) {
    required(name, member);
    specs.back().probability = true;
    const double value = Declared{}.*member;
    if (value <= 0) return;
    specs.back().required = false;
    specs.back().fallback = value;
  }

 private:
  template <class T>
  static constexpr AttrType type_of() {
    static_assert(std::is_enum_v<T> || std::is_floating_point_v<T> || std::is_same_v<T, int64_t> ||
                  std::is_same_v<T, bool>);
    if (std::is_enum_v<T>) return AttrType::kString;
    return std::is_floating_point_v<T> ? AttrType::kFloat : AttrType::kInt;
  }
};

template <class Declared>
AttrSchema attr_specs() {
  AttrLister<Declared> lister;
  Declared::each(lister);
  return {std::move(lister.specs), [](const std::vector<Attrs::Value>& values) {
            Declared declared{};
            AttrReader<Declared> reader{values, declared};
            Declared::each(reader);
            return std::any(declared);
          }};
}

}  // namespace nsa
