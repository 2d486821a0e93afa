#include "twin/host/machine.h"

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "twin/device/environment.h"
#include "twin/device/types.h"
#include "twin/host/product.h"
#include "twin/host/timing.h"

namespace twin {

namespace {

constexpr uint32_t kVectorPerCube = 2;
// More than any product has; a launch keeps the memories of all cores.
constexpr uint64_t kMostCores = 1024;

struct Choice {
  std::mutex mutex;
  uint32_t cube_cores = 0;
  uint32_t vector_cores = 0;
  std::optional<uint64_t> seed;
};

Choice& TheChoice() {
  static Choice choice;
  return choice;
}

}  // namespace

Machine CurrentMachine() {
  // The chip that launches are timed on; where they are not, the first in the clock's list.
  const clock::Chip chip = CurrentClock().chip;
  Choice& choice = TheChoice();
  const std::lock_guard<std::mutex> lock(choice.mutex);
  Machine machine;
  const Product* product = NamedProduct();
  machine.info.l2_bytes = product != nullptr ? product->l2_bytes : chip.l2_bytes;
  machine.info.hbm_bytes = kHbmBytes;
  machine.info.cube_cores = choice.cube_cores;
  machine.info.vector_cores = choice.vector_cores;
  if (choice.vector_cores == 0) {
    const auto cube = EnvironmentNumber("ASCENDC_TWIN_AIC", 1, kMostCores);
    const auto vector = EnvironmentNumber("ASCENDC_TWIN_AIV", 1, kMostCores);
    const uint64_t cubes = cube                 ? *cube
                           : vector             ? std::max<uint64_t>(1, *vector / kVectorPerCube)
                           : product != nullptr ? product->cube_cores
                                                : chip.aic_cores;
    machine.info.cube_cores = static_cast<uint32_t>(cubes);
    machine.info.vector_cores = static_cast<uint32_t>(vector ? *vector : cubes * kVectorPerCube);
  }
  machine.seed = choice.seed ? *choice.seed
                             : EnvironmentNumber("ASCENDC_TWIN_SEED", 0, UINT64_MAX).value_or(0);
  return machine;
}

}  // namespace twin

bool TwinSetCores(uint32_t cube_cores, uint32_t vector_cores) {
  if ((cube_cores == 0) != (vector_cores == 0)) return false;
  if (cube_cores > twin::kMostCores || vector_cores > twin::kMostCores) return false;
  twin::Choice& choice = twin::TheChoice();
  const std::lock_guard<std::mutex> lock(choice.mutex);
  choice.cube_cores = cube_cores;
  choice.vector_cores = vector_cores;
  return true;
}

void TwinSetSeed(uint64_t seed) {
  twin::Choice& choice = twin::TheChoice();
  const std::lock_guard<std::mutex> lock(choice.mutex);
  choice.seed = seed;
}

void TwinResetSeed() {
  twin::Choice& choice = twin::TheChoice();
  const std::lock_guard<std::mutex> lock(choice.mutex);
  choice.seed.reset();
}

namespace platform_ascendc {

namespace {

// The framework takes this part of UB and L1.
constexpr uint64_t kFrameworkBytes = 256;
// The first bank of the fixpipe buffer, the one for quantisation.
constexpr uint64_t kFixpipeBytes = 2048;

}  // namespace

const fe::PlatFormInfos& PlatformAscendC::Info() const {
  if (info_ == nullptr) throw std::invalid_argument("PlatformAscendC: the platform info is null");
  return *info_;
}

uint32_t PlatformAscendC::GetCoreNum() const { return GetCoreNumAic(); }
uint32_t PlatformAscendC::GetCoreNumAic() const { return Info().cube_cores; }
uint32_t PlatformAscendC::GetCoreNumAiv() const { return Info().vector_cores; }

void PlatformAscendC::GetCoreMemSize(const CoreMemType& type, uint64_t& size) const {
  using AscendC::Hardware;
  switch (type) {
    case CoreMemType::L0_A:
      size = twin::MemoryBytes(Hardware::L0A);
      break;
    case CoreMemType::L0_B:
      size = twin::MemoryBytes(Hardware::L0B);
      break;
    case CoreMemType::L0_C:
      size = twin::MemoryBytes(Hardware::L0C);
      break;
    case CoreMemType::L1:
      size = twin::MemoryBytes(Hardware::L1) - kFrameworkBytes;
      break;
    case CoreMemType::UB:
      size = twin::MemoryBytes(Hardware::UB) - kFrameworkBytes - reserved_bytes_;
      break;
    case CoreMemType::BT:
      size = twin::MemoryBytes(Hardware::BIAS);
      break;
    case CoreMemType::FB:
      size = kFixpipeBytes;
      break;
    case CoreMemType::L2:
      size = Info().l2_bytes;
      break;
    case CoreMemType::HBM:
      size = Info().hbm_bytes;
      break;
    default:
      size = 0;
  }
}

void PlatformAscendC::GetCoreMemBw(const CoreMemType& type, uint64_t& bandwidth) const {
  bandwidth = type == CoreMemType::L2 ? 110 : type == CoreMemType::HBM ? 32 : 0;
}

void PlatformAscendC::ReserveLocalMemory(ReservedSize size) {
  reserved_bytes_ = 8u * 1024u << static_cast<uint32_t>(size);
}

uint32_t PlatformAscendC::CalcTschNumBlocks(uint32_t slices, uint32_t cube_cores,
                                            uint32_t vector_cores) const {
  if (cube_cores == 0 || vector_cores == 0 || cube_cores > vector_cores) return slices;
  const uint32_t ratio = vector_cores / cube_cores;
  const uint32_t blocks = (slices + ratio - 1) / ratio;
  return ratio == 2 && blocks > cube_cores ? 0 : blocks;
}

uint32_t PlatformAscendC::CalcTschBlockDim(uint32_t slices, uint32_t cube_cores,
                                           uint32_t vector_cores) const {
  return CalcTschNumBlocks(slices, cube_cores, vector_cores);
}

uint32_t PlatformAscendC::GetLibApiWorkSpaceSize() const { return twin::kLibraryWorkspaceBytes; }

PlatformAscendC* PlatformAscendCManager::GetInstance() { return GetInstance(nullptr); }

PlatformAscendC* PlatformAscendCManager::GetInstance(const char* soc_name) {
  const std::string name = soc_name == nullptr ? "Ascend910B" : soc_name;
  if (name.rfind("Ascend910B", 0) != 0 && name.rfind("Ascend910_93", 0) != 0) return nullptr;
  // The machine does not change once it has been asked for, as on a device.
  static fe::PlatFormInfos info = twin::CurrentMachine().info;
  static PlatformAscendC platform(&info);
  return &platform;
}

}  // namespace platform_ascendc
