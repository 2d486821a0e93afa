// Tiling asks the machine for this.
#pragma once

#include <cstdint>

#include "twin/device/where.h"

namespace fe {

// The machine that the twin stands for.
class PlatFormInfos {
 public:
  uint32_t cube_cores = 0;
  uint32_t vector_cores = 0;
  uint64_t l2_bytes = 0;
  uint64_t hbm_bytes = 0;
};

}  // namespace fe

enum class NpuArch : uint32_t { DAV_2201 = 2201, DAV_RESV = 0xFFFF };

namespace platform_ascendc {

enum class CoreMemType {
  L0_A = 0,
  L0_B = 1,
  L0_C = 2,
  L1 = 3,
  L2 = 4,
  UB = 5,
  HBM = 6,
  FB = 7,
  BT = 8,
  RESERVED
};

enum class SocVersion {
  ASCEND910 = 0,
  ASCEND910B,  // Atlas A2 and A3
  ASCEND310P,
  ASCEND310B,
  ASCEND950,
  RESERVED_VERSION = 99999,
};

enum class ReservedSize { RESERVED_SIZE_8K, RESERVED_SIZE_16K, RESERVED_SIZE_32K };

class TWIN_API PlatformAscendC {
 public:
  PlatformAscendC() = delete;
  explicit PlatformAscendC(fe::PlatFormInfos* info) : info_(info) {}

  // Cube cores, as on every machine whose cube and vector cores are separate.
  uint32_t GetCoreNum() const;
  uint32_t GetCoreNumAic() const;
  uint32_t GetCoreNumAiv() const;
  // Vector cores that work beside the AI cores, of which Atlas A2 has none.
  uint32_t GetCoreNumVector() const { return 0; }
  // Bytes that a kernel may use.
  void GetCoreMemSize(const CoreMemType& type, uint64_t& size) const;
  // Bytes a cycle and core.
  void GetCoreMemBw(const CoreMemType& type, uint64_t& bandwidth) const;
  void ReserveLocalMemory(ReservedSize size);
  // Blocks for `slices` shares of work, one for each vector core; 0 where there are too many.
  uint32_t CalcTschNumBlocks(uint32_t slices, uint32_t cube_cores, uint32_t vector_cores) const;
  uint32_t CalcTschBlockDim(uint32_t slices, uint32_t cube_cores, uint32_t vector_cores) const;
  uint32_t GetLibApiWorkSpaceSize() const;
  SocVersion GetSocVersion() const { return SocVersion::ASCEND910B; }
  NpuArch GetCurNpuArch() const { return NpuArch::DAV_2201; }

 private:
  const fe::PlatFormInfos& Info() const;

  fe::PlatFormInfos* info_;
  uint32_t reserved_bytes_ = 0;
};

class TWIN_API PlatformAscendCManager {
 public:
  static PlatformAscendC* GetInstance();
  // The twin has one machine; a name that is not Atlas A2's gives null.
  static PlatformAscendC* GetInstance(const char* soc_name);
};

}  // namespace platform_ascendc
