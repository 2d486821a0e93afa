// One of the two compilations of the kernel, with -D__DAV_CUBE__ or -D__DAV_VEC__. HALF is the name
// under which the program finds it.
#include "scaled_product.h"

using Kernel = tiles::ScaledProduct<tiles::Shape<64, 64, 64>, half>;

extern "C" __attribute__((visibility("default"))) void HALF(GM_ADDR a, GM_ADDR b, GM_ADDR c,
                                                            float alpha) {
  Kernel()({.a = a, .b = b, .c = c, .alpha = alpha});
}
