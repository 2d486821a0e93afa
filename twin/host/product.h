// The product that the twin stands for: its names, and what differs between products.
#pragma once

#include <cstdint>

namespace twin {

struct Product {
  const char* name;    // what aclrtGetSocName gives
  const char* config;  // what AddConfig of a definition calls it
  uint32_t cube_cores;
  uint64_t l2_bytes;
};

// The one that ASCENDC_TWIN_SOC names, null where it is unset or empty. Throws
// std::invalid_argument for another name.
const Product* NamedProduct();
// Gives the product that the environment names, or Ascend910B2.
const Product& CurrentProduct();

}  // namespace twin
