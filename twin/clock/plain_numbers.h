// Numbers as programs read them, in a process of any locale.
#pragma once

#include <locale.h>

namespace twin {

// While it lives, its thread writes numbers with a point, whatever the locale of the process.
class PlainNumbers {
 public:
  PlainNumbers() {
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    before_ = uselocale(plain);
  }
  PlainNumbers(const PlainNumbers&) = delete;
  PlainNumbers& operator=(const PlainNumbers&) = delete;
  ~PlainNumbers() { uselocale(before_); }

 private:
  locale_t before_;
};

}  // namespace twin
