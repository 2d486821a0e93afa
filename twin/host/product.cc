#include "twin/host/product.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace twin {

namespace {

// Atlas A2 and A3. Every one has two vector cores for each cube core.
constexpr Product kProducts[] = {
    {"Ascend910B1", "ascend910b", 24, 192ull << 20},
    {"Ascend910B2", "ascend910b", 24, 192ull << 20},
    {"Ascend910B3", "ascend910b", 20, 192ull << 20},
    {"Ascend910B4", "ascend910b", 20, 96ull << 20},
    {"Ascend910_9391", "ascend910_93", 24, 192ull << 20},
    {"Ascend910_9392", "ascend910_93", 24, 192ull << 20},
    {"Ascend910_9381", "ascend910_93", 24, 192ull << 20},
    {"Ascend910_9382", "ascend910_93", 24, 192ull << 20},
    {"Ascend910_9372", "ascend910_93", 20, 192ull << 20},
    {"Ascend910_9362", "ascend910_93", 20, 168ull << 20},
};
constexpr const Product& kDefault = kProducts[1];

}  // namespace

const Product* NamedProduct() {
  const char* text = std::getenv("ASCENDC_TWIN_SOC");
  if (text == nullptr || text[0] == '\0') return nullptr;
  std::string names;
  for (const Product& product : kProducts) {
    if (std::string(text) == product.name) return &product;
    names += (names.empty() ? "" : ", ") + std::string(product.name);
  }
  throw std::invalid_argument("ASCENDC_TWIN_SOC must be one of " + names + ", got '" + text + "'");
}

const Product& CurrentProduct() {
  const Product* named = NamedProduct();
  return named == nullptr ? kDefault : *named;
}

}  // namespace twin
