// One lane of a vector instruction computes this. Halves are computed in single precision and
// rounded once per operation; float is IEEE single; integers wrap.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "twin/device/where.h"
#include "twin/vector/rounding.h"

namespace twin {

// Integer arithmetic through the unsigned type: overflow wraps instead of being undefined.
template <typename T>
using Wrapping = std::make_unsigned_t<T>;

template <typename T>
constexpr bool kIsInteger = std::is_integral<T>::value;

struct AddLane {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (kIsInteger<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
};
struct SubLane {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (kIsInteger<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
    } else {
      return a - b;
    }
  }
};
struct MulLane {
  template <typename T>
  static T Do(T a, T b) {
    if constexpr (kIsInteger<T>) {
      // Through 64 bits: two 16-bit factors would be promoted to int and could overflow it.
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct DivLane {
  template <typename T>
  static T Do(T a, T b) {
    return a / b;
  }
};
// A NaN operand gives a NaN.
struct MaxLane {
  template <typename T>
  static T Do(T a, T b) {
    return (a > b || a != a) ? a : b;
  }
};
struct MinLane {
  template <typename T>
  static T Do(T a, T b) {
    return (a < b || a != a) ? a : b;
  }
};
struct AndLane {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct OrLane {
  template <typename T>
  static T Do(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct ReluLane {
  template <typename T>
  static T Do(T a) {
    return (a > static_cast<T>(0) || a != a) ? a : static_cast<T>(0);
  }
};
template <typename Op>
struct ThenRelu {
  template <typename T>
  static T Do(T a, T b) {
    return ReluLane::Do(Op::Do(a, b));
  }
};
struct LeakyReluLane {
  template <typename T>
  static T Do(T a, T slope) {
    return a >= static_cast<T>(0) ? a : a * slope;
  }
};

struct NotLane {
  template <typename T>
  static T Do(T a) {
    return static_cast<T>(~a);
  }
};
struct AbsLane {
  template <typename T>
  static T Do(T a) {
    return std::fabs(static_cast<float>(a));
  }
};
struct SqrtLane {
  template <typename T>
  static T Do(T a) {
    return std::sqrt(static_cast<float>(a));
  }
};
// Through double precision: the single-precision result is the correctly rounded one but for about
// one value in 2^28, well inside the documented error of one unit in the last place.
struct ExpLane {
  template <typename T>
  static T Do(T a) {
    return static_cast<float>(std::exp(static_cast<double>(static_cast<float>(a))));
  }
};
struct LnLane {
  template <typename T>
  static T Do(T a) {
    return static_cast<float>(std::log(static_cast<double>(static_cast<float>(a))));
  }
};

// Reciprocal and Rsqrt are table look-ups on the device, good to 8 fraction bits: the sample values
// of the documentation (1 / 4.473 = 0.2231, 1 / sqrt(2.2) = 0.676) are the value at the middle of
// the argument's table interval rounded to a 512th. A kernel that needs more accuracy uses Div and
// Sqrt, as the documentation says.
TWIN_API float CoarseReciprocal(float value);
TWIN_API float CoarseRsqrt(float value);

struct ReciprocalLane {
  template <typename T>
  static T Do(T a) {
    return CoarseReciprocal(static_cast<float>(a));
  }
};
struct RsqrtLane {
  template <typename T>
  static T Do(T a) {
    return CoarseRsqrt(static_cast<float>(a));
  }
};

// dst += a * b, rounded once: the sample of MulAddDst in the documentation agrees with the rounded
// exact value and not with a rounded product.
struct MulAddLane {
  template <typename S, typename D>
  static D Do(S a, S b, D c) {
    if constexpr (std::is_same<D, float>::value) {
      return std::fma(static_cast<float>(a), static_cast<float>(b), c);
    } else {
      // Exact in double but where the sum is c with a product below its last bit.
      const double product = static_cast<double>(static_cast<float>(a)) * static_cast<float>(b);
      return RoundToHalf(product + static_cast<float>(c));
    }
  }
};

// dst = a * dst + b. The product is rounded to the data type before the sum: so is the
// documentation's sample, in every one of its 256 values.
struct FusedMulAddLane {
  template <typename T>
  static T Do(T a, T b, T c) {
    const T product = a * c;
    return product + b;
  }
};
struct MulAddReluLane {
  template <typename T>
  static T Do(T a, T b, T c) {
    return ReluLane::Do(FusedMulAddLane::Do(a, b, c));
  }
};

// Arithmetic for signed types: the sign bit stays where it is.
struct ShiftLeftLane {
  template <typename T>
  static T Do(T a, T positions) {
    using U = Wrapping<T>;
    const int n = static_cast<int>(positions);
    const U shifted =
        n >= static_cast<int>(8 * sizeof(T)) ? U{0} : static_cast<U>(static_cast<U>(a) << n);
    if constexpr (std::is_signed<T>::value) {
      constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(T) - 1));
      return static_cast<T>((shifted & static_cast<U>(~kSign)) | (static_cast<U>(a) & kSign));
    } else {
      return shifted;
    }
  }
};
// kRound adds the last bit that was shifted out, for signed types.
template <bool kRound>
struct ShiftRightLane {
  template <typename T>
  static T Do(T a, T positions) {
    const int n = static_cast<int>(positions);
    const int64_t wide = static_cast<int64_t>(a);
    int64_t result = wide >> n;
    if (kRound && std::is_signed<T>::value && n > 0) result += (wide >> (n - 1)) & 1;
    return static_cast<T>(result);
  }
};

}  // namespace twin
