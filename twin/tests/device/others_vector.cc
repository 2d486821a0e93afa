#define __DAV_C220_VEC__
#include "twin/tests/device/others_kind.h"

namespace kinds {
void Vector(GM_ADDR* g);
void Vector(GM_ADDR* g) { Both<float>(g); }
}  // namespace kinds
