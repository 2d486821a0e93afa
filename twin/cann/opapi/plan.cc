#include "twin/cann/opapi/plan.h"

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>

namespace twin::cann {

namespace {

void Check(const char* name, const aclTensor* tensor, Dtypes allowed) {
  if (tensor == nullptr) Refuse(std::string(name) + " must not be null");
  if (!IsKnown(tensor->dtype)) {
    Refuse(std::string(name) +
           " has a dtype that this operator of the twin does not know: " + DescribeTensor(*tensor));
  }
  RequireDtype(name, tensor, allowed);
  if (tensor->dims.size() > 8) {
    Refuse(std::string(name) + " must have at most 8 dimensions, got " + DescribeTensor(*tensor));
  }
}

// Writes what a process calls of CANN's own, each of it once, into the file that the variable
// names.
void Note(const std::string& function) {
  static const char* const file = std::getenv("ASCENDC_TWIN_CALLED");
  if (file == nullptr) return;
  static std::mutex mutex;
  static std::set<std::string> noted;
  const std::lock_guard<std::mutex> lock(mutex);
  if (noted.insert(function).second) std::ofstream(file, std::ios::app) << function << '\n';
}

}  // namespace

void Refuse(const std::string& what) { throw std::runtime_error(what); }

void Plan::In(const char* name, const aclTensor* tensor, Dtypes allowed) {
  Check(name, tensor, allowed);
  inputs.push_back({name, tensor});
}

void Plan::Out(const char* name, const aclTensor* tensor, Dtypes allowed) {
  Check(name, tensor, allowed);
  outputs.push_back({name, tensor});
}

void Plan::InOut(const char* name, const aclTensor* tensor, Dtypes allowed) {
  In(name, tensor, allowed);
  Out(name, tensor, allowed);
}

aclnnStatus MakePlan(const char* function, uint64_t* workspace_size, aclOpExecutor** executor,
                     const std::function<void(Plan&)>& build) {
  Note(function);
  Plan plan;
  try {
    build(plan);
  } catch (const std::exception& error) {
    std::string given;
    for (const HostTensor& each : plan.inputs) {
      given += (given.empty() ? "" : ", ") + (each.name + (" " + DescribeTensor(*each.tensor)));
    }
    return RefuseCall(function, kAclnnInvalid, std::string(error.what()) + " (" + given + ")");
  }
  return PrepareHostCall(function, plan.inputs, plan.outputs, std::move(plan.compute),
                         workspace_size, executor);
}

void RequireDims(const char* name, const aclTensor* tensor, const Dims& dims) {
  if (tensor->dims == dims) return;
  aclTensor expected = *tensor;
  expected.dims = dims;
  Refuse(std::string(name) + " must be " + DescribeTensor(expected) + ", got " +
         DescribeTensor(*tensor));
}

double Number(const aclScalar* scalar) {
  if (scalar == nullptr || !Exists(scalar)) Refuse("a scalar is null or does not exist");
  return ToNumber(scalar->bytes.data(), scalar->dtype);
}

int64_t CheckedIndex(double index, int64_t count) {
  const auto place = static_cast<int64_t>(index);
  if (place < 0 || place >= count) {
    Refuse("an index is out of range: " + std::to_string(place) + " of " + std::to_string(count));
  }
  return place;
}

Dims Integers(const aclIntArray* array) {
  if (array == nullptr || !Exists(array)) Refuse("a list of integers is null or does not exist");
  return array->values;
}

}  // namespace twin::cann
