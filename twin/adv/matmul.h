// CANN's Matmul library declares these beside its object: shapes' arithmetic, formats, types and
// configurations. The object itself is absent: a kernel that has one does not compile, or with
// -DTWIN_MATMUL_FAILS_AT_RUN_TIME ends where it runs into it, so that its other tiling keys run.
#pragma once

#include <type_traits>

#include "twin/adv/tiling_data.h"
#include "twin/device/tensor.h"
#include "twin/device/tpipe.h"
#include "twin/device/words.h"

using float16_t = half;

enum class CubeFormat {
  ND = 0,
  NZ,
  ZN,
  ZZ,
  NN,
  ND_ALIGN,
  SCALAR,
  VECTOR,
  ROW_MAJOR = ND,
  COLUMN_MAJOR = 8,
};
enum class LayoutMode { NONE = 0, BSNGD, SBNGD, BNGS1S2, NORMAL };
enum class BatchMode {
  NONE = 0,
  BATCH_LESS_THAN_L1,
  BATCH_LARGE_THAN_L1,
  SINGLE_LARGE_THAN_L1,
};
enum BatchOutMode { SINGLE_BATCH = 0, MULTI_BATCH, DYNAMIC };
enum class IterateOrder { ORDER_M = 0, ORDER_N, UNDEF };
enum class ScheduleType { INNER_PRODUCT = 0, OUTER_PRODUCT };
enum IterateMode : uint8_t {
  ITERATE_MODE_NORMAL = 1,
  ITERATE_MODE_ALL = 2,
  ITERATE_MODE_BATCH = 4,
  ITERATE_MODE_N_BATCH = 8,
  ITERATE_MODE_DEFAULT = 255,
};
enum class MatmulConfigMode { CONFIG_NORM, CONFIG_MDL, CONFIG_SPECIALMDL, CONFIG_IBSHARE };

struct MatmulConfig {
  bool doNorm = false;
  bool doBasicBlock = false;
  bool doMultiDataLoad = false;
  uint32_t basicM = 0;
  uint32_t basicN = 0;
  uint32_t basicK = 0;
  bool intrinsicsCheck = false;
  bool isNBatch = false;
  bool enVecND2NZ = false;
  bool doSpecialBasicBlock = false;
  uint32_t doMTE2Preload = 0;
  uint32_t singleCoreM = 0;
  uint32_t singleCoreN = 0;
  uint32_t singleCoreK = 0;
  uint32_t stepM = 0;
  uint32_t stepN = 0;
  uint32_t baseMN = 0;
  uint32_t singleCoreMN = 0;
  bool enUnitFlag = true;
  bool isPerTensor = false;
  bool hasAntiQuantOffset = false;
  bool doIBShareNorm = false;
  bool doSpecialMDL = false;
  bool enableInit = true;
  BatchMode batchMode = BatchMode::NONE;
  bool enableEnd = true;
  bool enableGetTensorC = true;
  bool enableSetOrgShape = true;
  bool enableSetBias = true;
  bool enableSetTail = true;
  bool enableQuantVector = true;
  bool enableSetDefineData = true;
  uint8_t iterateMode = IterateMode::ITERATE_MODE_DEFAULT;
  bool enableReuse = true;
  bool enableUBReuse = false;
  bool enableL1CacheUB = false;
  bool intraBlockPartSum = false;
  IterateOrder iterateOrder = IterateOrder::UNDEF;
  ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
  bool enableDoubleCache = false;
  bool isBiasBatch = true;
  bool enableStaticPadZeros = false;
  bool isPartialOutput = false;
  bool enableMixDualMaster = false;
  bool isA2B2Shared = false;
  bool isEnableChannelSplit = false;
  bool enableKdimReorderLoad = false;
};

struct MatmulShapeParams {
  uint32_t singleCoreM;
  uint32_t singleCoreN;
  uint32_t singleCoreK;
  uint32_t basicM;
  uint32_t basicN;
  uint32_t basicK;
};

// The functions that make configurations give one that nothing reads: an object that would is
// absent.
template <typename... Arguments>
constexpr MatmulConfig GetNormalConfig(Arguments&&...) {
  return {};
}
template <typename... Arguments>
constexpr MatmulConfig GetMDLConfig(Arguments&&...) {
  return {};
}
template <typename... Arguments>
constexpr MatmulConfig GetSpecialMDLConfig(Arguments&&...) {
  return {};
}
template <typename... Arguments>
constexpr MatmulConfig GetBasicConfig(Arguments&&...) {
  return {};
}
template <typename... Arguments>
constexpr MatmulConfig GetSpecialBasicConfig(Arguments&&...) {
  return {};
}
template <typename... Arguments>
constexpr MatmulConfig GetIBShareNormConfig(Arguments&&...) {
  return {};
}
template <MatmulConfigMode mode, typename... Arguments>
constexpr MatmulConfig GetMMConfig(Arguments&&...) {
  return {};
}
constexpr MatmulConfig CFG_NORM{};
constexpr MatmulConfig CFG_MDL{};
constexpr MatmulConfig MM_CFG_BB{};
constexpr MatmulConfig CFG_IBSHARE_NORM{};

struct MatmulApiStaticTiling : AscendC::tiling::TCubeTiling {
  MatmulConfig cfg;
};

namespace twin {

[[noreturn]] TWIN_API void NoMatmul(const char* what, const Where& where);

template <typename... Types>
struct NoSuchObject {
  static constexpr bool value = false;
};

// A call of the absent object gives one: it is anything that its caller asks for.
struct Anything {
  template <typename T>
  operator T() const {
    NoMatmul("Matmul", Here());
  }
};

// The functions of the object, each of which ends the kernel.
class AbsentMatmul {
 public:
#define TWIN_MATMUL(Name)                           \
  template <auto... options, typename... Arguments> \
  Anything Name(Arguments&&...) {                   \
    NoMatmul("Matmul::" #Name, Here());             \
  }
  TWIN_MATMUL(Init)
  TWIN_MATMUL(SetOrgShape)
  TWIN_MATMUL(SetSingleShape)
  TWIN_MATMUL(SetTail)
  TWIN_MATMUL(SetTensorA)
  TWIN_MATMUL(SetTensorB)
  TWIN_MATMUL(SetBias)
  TWIN_MATMUL(DisableBias)
  TWIN_MATMUL(ClearBias)
  TWIN_MATMUL(SetHF32)
  TWIN_MATMUL(SetQuantScalar)
  TWIN_MATMUL(SetQuantVector)
  TWIN_MATMUL(SetAntiQuantScalar)
  TWIN_MATMUL(SetAntiQuantVector)
  TWIN_MATMUL(SetBatchNum)
  TWIN_MATMUL(SetWorkspace)
  TWIN_MATMUL(SetLocalWorkspace)
  TWIN_MATMUL(SetUserDefInfo)
  TWIN_MATMUL(SetSelfDefineData)
  TWIN_MATMUL(SetSparseIndex)
  TWIN_MATMUL(SetSubBlockIdx)
  TWIN_MATMUL(Iterate)
  TWIN_MATMUL(IterateAll)
  TWIN_MATMUL(IterateBatch)
  TWIN_MATMUL(IterateNBatch)
  TWIN_MATMUL(GetTensorC)
  TWIN_MATMUL(GetBatchTensorC)
  TWIN_MATMUL(GetBatchC)
  TWIN_MATMUL(AsyncGetTensorC)
  TWIN_MATMUL(WaitIterateAll)
  TWIN_MATMUL(WaitIterateBatch)
  TWIN_MATMUL(WaitGetTensorC)
  TWIN_MATMUL(End)
#undef TWIN_MATMUL
};

}  // namespace twin

namespace AscendC {

using ::BatchMode;
using ::CubeFormat;
using ::IterateOrder;
using ::LayoutMode;
using ::MatmulConfig;

template <typename T>
T Ceil(T num1, T num2) {
  return (num1 + num2 - 1) / num2;
}
template <typename T>
T CeilAlign(T num1, T num2) {
  return Ceil(num1, num2) * num2;
}
inline uint16_t CeilDiv(uint16_t num1, uint16_t num2) {
  return static_cast<uint16_t>((num1 + num2 - 1) / num2);
}
inline uint16_t CeilAlign(uint16_t num1, uint16_t num2) {
  return static_cast<uint16_t>(CeilDiv(num1, num2) * num2);
}

template <TPosition POSITION, CubeFormat FORMAT, typename TYPE, bool ISTRANS = false,
          LayoutMode LAYOUT = LayoutMode::NONE, bool IBSHARE = false,
          TPosition SRCPOS = TPosition::GM>
struct MatmulType {
  using T = TYPE;
  static constexpr TPosition pos = POSITION;
  static constexpr CubeFormat format = FORMAT;
  static constexpr bool isTrans = ISTRANS;
  static constexpr LayoutMode layout = LAYOUT;
  static constexpr bool ibShare = IBSHARE;
  static constexpr TPosition srcPos = SRCPOS;
};

template <auto... functions>
struct MatmulCallBackFunc {};

template <typename A_TYPE, typename B_TYPE, typename C_TYPE, typename BIAS_TYPE>
constexpr MatmulApiStaticTiling GetMatmulApiTiling(const MatmulConfig&, int32_t = 0) {
  return {};
}

template <typename A_TYPE, typename B_TYPE, typename C_TYPE, typename BIAS_TYPE = C_TYPE,
          const auto& MM_CFG = CFG_NORM, typename MM_CB = MatmulCallBackFunc<>, typename... Policy>
class MatmulImpl : public twin::AbsentMatmul {
 public:
#ifndef TWIN_MATMUL_FAILS_AT_RUN_TIME
  static_assert(twin::NoSuchObject<A_TYPE>::value,
                "Matmul: the twin has no Matmul object, it runs kernels that use Mmad and Fixpipe; "
                "with -DTWIN_MATMUL_FAILS_AT_RUN_TIME only the tiling keys that use it fail");
#endif
  using AType = A_TYPE;
  using BType = B_TYPE;
  using CType = C_TYPE;
  using BiasType = BIAS_TYPE;
  using CallBack = MM_CB;
};
template <typename A_TYPE, typename B_TYPE, typename C_TYPE, typename BIAS_TYPE = C_TYPE,
          const auto& MM_CFG = CFG_NORM, typename MM_CB = MatmulCallBackFunc<>, typename... Policy>
using Matmul = MatmulImpl<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB, Policy...>;

}  // namespace AscendC

namespace matmul = AscendC;

// Objects and their tiling, one after the other.
#define REGIST_MATMUL_OBJ(pipe, workspace, ...) \
  ::twin::NoMatmul("REGIST_MATMUL_OBJ(" #__VA_ARGS__ ")", ::twin::Here())
#define REGIST_MATMUL_OBJ_STATIC REGIST_MATMUL_OBJ
