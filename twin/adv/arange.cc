#include "twin/adv/arange.h"

#include "twin/device/error.h"

namespace twin {

void CheckProgression(const char* name, double diff, int32_t count, const Where& where) {
  if (count <= 0) Fail(name, where, Format("count is %d, expected more than 0", count));
  if (!(diff >= 0)) {
    Fail(name, where, Format("diffValue is %g, expected 0 or more", diff));
  }
}

}  // namespace twin
