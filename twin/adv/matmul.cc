#include "twin/adv/matmul.h"

namespace twin {

void NoMatmul(const char* what, const Where& where) {
  Fail(what, where,
       "the twin has no Matmul object; it runs kernels that use Mmad and Fixpipe, and of this one "
       "the tiling keys that do");
}

}  // namespace twin
