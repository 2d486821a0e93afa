#define __DAV_CUBE__
#include "twin/tests/device/others_kind.h"

namespace kinds {
void Cube(GM_ADDR* g);
void Cube(GM_ADDR* g) { Both<float>(g); }
}  // namespace kinds
