// CANN's own names of the parts of the standard library that a core can use.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

namespace AscendC {
namespace Std {

using std::add_const_t;
using std::add_lvalue_reference_t;
using std::add_pointer_t;
using std::bool_constant;
using std::conditional;
using std::conditional_t;
using std::decay;
using std::decay_t;
using std::declval;
using std::enable_if;
using std::enable_if_t;
using std::false_type;
using std::forward;
using std::get;
using std::ignore;
using std::index_sequence;
using std::integer_sequence;
using std::integral_constant;
using std::is_array;
using std::is_array_v;
using std::is_base_of;
using std::is_base_of_v;
using std::is_class;
using std::is_class_v;
using std::is_const;
using std::is_const_v;
using std::is_convertible;
using std::is_convertible_v;
using std::is_floating_point;
using std::is_floating_point_v;
using std::is_integral;
using std::is_integral_v;
using std::is_pointer;
using std::is_pointer_v;
using std::is_reference;
using std::is_reference_v;
using std::is_same;
using std::is_same_v;
using std::is_void;
using std::is_void_v;
using std::make_index_sequence;
using std::make_integer_sequence;
using std::make_tuple;
using std::move;
using std::remove_const_t;
using std::remove_cv;
using std::remove_cv_t;
using std::remove_pointer_t;
using std::remove_reference;
using std::remove_reference_t;
using std::tie;
using std::true_type;
using std::tuple;
using std::tuple_element;
using std::tuple_element_t;
using std::tuple_size;
using std::tuple_size_v;

template <typename T>
using remove_cvref_t = std::remove_cv_t<std::remove_reference_t<T>>;
template <typename T, typename... Others>
struct is_one_of : bool_constant<(std::is_same_v<T, Others> || ...)> {};
template <typename T, typename... Others>
constexpr bool is_one_of_v = is_one_of<T, Others...>::value;
template <typename...>
constexpr bool always_false_v = false;

template <typename T, typename U>
constexpr auto min(const T& src0, const U& src1) {
  using Common = std::common_type_t<T, U>;
  return static_cast<Common>(src0) < static_cast<Common>(src1) ? static_cast<Common>(src0)
                                                               : static_cast<Common>(src1);
}
template <typename T, typename U>
constexpr auto max(const T& src0, const U& src1) {
  using Common = std::common_type_t<T, U>;
  return static_cast<Common>(src0) > static_cast<Common>(src1) ? static_cast<Common>(src0)
                                                               : static_cast<Common>(src1);
}
template <typename T, typename U>
constexpr auto ceil_division(const T& num1, const U& num2) {
  return (num1 + num2 - 1) / num2;
}
template <typename T, typename U>
constexpr auto ceil_align(const T& num1, const U& num2) {
  return ceil_division(num1, num2) * num2;
}

}  // namespace Std
}  // namespace AscendC
