// Sizes: the names in the shapes of one call, and the checks of inputs against them. Messages name
// the input, its shape as the declaration writes it, and what the call has.
#pragma once

#include <array>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "infer/check.h"

namespace nsa {

class Sizes {
 public:
  // Knows the sizes that are attributes.
  explicit Sizes(const Context& c);

  // Which shape of a tensor counts where the declaration has one for each layout; where it has
  // fewer, the last.
  void set_form(size_t form) { form_ = form; }

  // Checks inputs one after another: the rank, what must not be empty, what an attribute says, and
  // each size. Absent inputs are passed over.
  void match(std::initializer_list<size_t> inputs);
  // Checks the ranks of all inputs, then what must not be empty, then what an attribute says. It
  // takes the sizes of all, so that match(), which comes next, knows them.
  void match_ranks(std::initializer_list<size_t> inputs);

  // -1 where unknown.
  int64_t operator[](size_t name) const { return values_[name]; }
  void set(size_t name, int64_t size) { values_[name] = size; }
  // Takes sizes that are still unknown from inputs, without a check.
  void take(std::initializer_list<size_t> inputs);

  // The struct of NSA_SIZES whose names are in the shapes of `inputs`.
  template <class Named, class Positions>
  Named as(const Positions&) const;

  // The outputs as they are declared; what is left to the rules is unknown.
  std::vector<OutputDesc> outputs() const;

 private:
  const Shape& shape_of(size_t input) const;
  int64_t evaluate(const ShapeTable& table, const ShapeAxis& axis, const uint8_t* places) const;
  void take(size_t input);
  void require_rank(size_t input, const Shape& shape) const;
  void require_sizes(size_t input, const Shape& shape) const;
  void require_not_empty(size_t input, const Shape& shape) const;
  void require_attributes(size_t input, const Shape& shape) const;

  const Context& c_;
  const ShapeTable& table_;
  size_t form_ = 0;
  std::array<int64_t, kMostSizes> values_;
};

// The places in a table of shapes of the names of a struct of NSA_SIZES.
template <class Named>
constexpr std::array<size_t, sizeof(Named) / sizeof(int64_t)> places_of(const ShapeTable& table) {
  std::array<size_t, sizeof(Named) / sizeof(int64_t)> places{};
  std::string_view rest = Named::kSizes;
  for (size_t& place : places) {
    const size_t comma = rest.find(',');
    place = table.at(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 2);
  }
  return places;
}

template <class Named, class Positions>
Named Sizes::as(const Positions&) const {
  constexpr Positions kInputs{};
  constexpr auto kPlaces = places_of<Named>(kInputs.shapes());
  int64_t sizes[kPlaces.size()];
  for (size_t i = 0; i < kPlaces.size(); ++i) sizes[i] = values_[kPlaces[i]];
  Named named;
  std::memcpy(&named, sizes, sizeof(named));
  return named;
}

}  // namespace nsa
