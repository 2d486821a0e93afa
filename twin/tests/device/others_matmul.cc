// A kernel of which one tiling key uses CANN's Matmul object.
#define TWIN_MATMUL_FAILS_AT_RUN_TIME
#include "lib/matmul_intf.h"
#include "twin/tests/device/kernels.h"

namespace {

using namespace device_test;

using A = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using C = MatmulType<TPosition::GM, CubeFormat::ND, float>;

// p[0]: what runs into the object.
KERNEL(product_of_a_library) {
  matmul::Matmul<A, A, C, C, CFG_MDL> product;
  TPipe pipe;
  if (p[0] == 1) REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product);
  if (p[0] == 2) {
    while (product.template Iterate<false>()) product.GetTensorC(Out(g));
  }
  GlobalTensor<float> out = Out(g);
  out.SetValue(0, static_cast<float>(CeilAlign(CeilDiv(33, 8), 8) + Ceil(17, 16)));
}

}  // namespace
