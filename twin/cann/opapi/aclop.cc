// Operators that are called by their type, with descriptions of tensors and attributes by name.
// CANN compiles them at the first call; here they are loops, as those of the aclnn functions are.
#include "twin/cann/opapi/aclop.h"

#include <algorithm>
#include <iterator>

#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

Values FromBytes(const aclTensorDesc& desc) {
  Values values(desc.dims);
  const size_t size = aclDataTypeSize(desc.dtype);
  if (desc.constant.size() < size * values.data.size()) Refuse("a constant has too few bytes");
  for (size_t i = 0; i < values.data.size(); ++i) {
    values.data[i] = ToNumber(desc.constant.data() + i * size, desc.dtype);
  }
  return values;
}

// Handles that live as long as the call is being made.
struct Handles {
  std::vector<aclTensor*> all;
  ~Handles() {
    for (aclTensor* tensor : all) aclDestroyTensor(tensor);
  }
  aclTensor* Make(const aclTensorDesc& desc, void* data) {
    all.push_back(aclCreateTensor(desc.dims.data(), desc.dims.size(), desc.dtype, nullptr, 0,
                                  ACL_FORMAT_ND, desc.dims.data(), desc.dims.size(), data));
    return all.back();
  }
};

// The inputs of a call: among its tensors, or known already because they are on the host.
struct Given {
  std::vector<int> places;  // of an input among the tensors; -1: known
  Tensors known;
  Inputs described;

  // All inputs with their values, which are known when the stream comes to the call.
  Inputs With(const Tensors& values) const {
    Inputs all = described;
    for (size_t i = 0; i < all.size(); ++i) all[i].values = &values[i];
    return all;
  }
};

// The operators see elements in the order of the dimensions, so nothing else may have been set.
void CheckStorage(const std::string& name, const aclTensorDesc& desc) {
  constexpr aclFormat kPlain[] = {ACL_FORMAT_ND,    ACL_FORMAT_NCHW,  ACL_FORMAT_NHWC,
                                  ACL_FORMAT_NCDHW, ACL_FORMAT_NDHWC, ACL_FORMAT_NCL};
  for (aclFormat format : {desc.format, desc.storage_format}) {
    if (std::find(std::begin(kPlain), std::end(kPlain), format) == std::end(kPlain)) {
      Refuse(name + " has the format " + std::to_string(format) + ", which the twin does not have");
    }
  }
  if (desc.storage_dims != desc.dims) {
    Refuse(name + " is stored as " + Text({desc.dtype, desc.storage_dims}) + ", not as " +
           Text({desc.dtype, desc.dims}));
  }
}

void CheckOutputs(const std::vector<Described>& expected, const std::vector<Described>& given) {
  if (expected.size() != given.size()) {
    Refuse("there must be " + std::to_string(expected.size()) + " outputs, got " +
           std::to_string(given.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].dtype == expected[i].dtype && given[i].dims == expected[i].dims) continue;
    Refuse("output " + std::to_string(i) + " must be " + Text(expected[i]) + ", got " +
           Text(given[i]));
  }
}

Given TakeInputs(Plan& plan, Handles* handles, int count, const aclTensorDesc* const* descs,
                 const aclDataBuffer* const* data) {
  Given given;
  for (int i = 0; i < count; ++i) {
    const aclTensorDesc& desc = *descs[i];
    CheckStorage("input " + std::to_string(i), desc);
    given.described.push_back({desc.dtype, desc.dims});
    if (desc.constant.empty() && !desc.on_host) {
      given.places.push_back(static_cast<int>(plan.inputs.size()));
      given.known.emplace_back();
      plan.In("input", handles->Make(desc, data[i]->data));
      continue;
    }
    aclTensorDesc held = desc;
    if (held.constant.empty()) {
      const auto* bytes = static_cast<const uint8_t*>(data[i]->data);
      held.constant.assign(bytes, bytes + data[i]->bytes);
    }
    given.places.push_back(-1);
    given.known.push_back(FromBytes(held));
  }
  return given;
}

void PlanByType(Plan& plan, Handles* handles, const OperatorType& type, int inputs,
                const aclTensorDesc* const* input_descs, const aclDataBuffer* const* input_data,
                int outputs, const aclTensorDesc* const* output_descs,
                aclDataBuffer* const* output_data, const aclopAttr* attr) {
  const Attributes attrs(attr == nullptr ? aclopAttr{} : *attr, type.attributes);
  const Given given = TakeInputs(plan, handles, inputs, input_descs, input_data);
  if (given.places.size() < type.least || given.places.size() > type.most) {
    Refuse("there must be " + std::to_string(type.least) + " to " + std::to_string(type.most) +
           " inputs, got " + std::to_string(inputs));
  }
  std::vector<Described> shapes;
  for (int i = 0; i < outputs; ++i) {
    CheckStorage("output " + std::to_string(i), *output_descs[i]);
    shapes.push_back({output_descs[i]->dtype, output_descs[i]->dims});
    plan.Out("output", handles->Make(*output_descs[i], output_data[i]->data));
  }
  Inputs known = given.described;
  for (size_t i = 0; i < known.size(); ++i) {
    if (given.places[i] < 0) known[i].values = &given.known[i];
  }
  try {
    CheckOutputs(type.infer(known, attrs, shapes.size()), shapes);
  } catch (const Later&) {
    // Checked when the stream comes to the call.
  }
  for (const size_t place : type.written) {
    if (given.places[place] < 0) Refuse("an input that is written must be on the device");
    plan.Out("output", plan.inputs[given.places[place]].tensor);
  }
  const size_t count = plan.inputs.size();
  const int copied = type.copied < 0 ? -1 : given.places[type.copied];
  plan.compute = [=, &type](const Arguments& all) {
    if (copied >= 0 && CopyBits(all.at(copied), all.at(count))) return;
    Tensors in = given.known;
    for (size_t i = 0; i < in.size(); ++i) {
      if (given.places[i] >= 0) in[i] = Read(all[given.places[i]]);
    }
    CheckOutputs(type.infer(given.With(in), attrs, shapes.size()), shapes);
    const Tensors results = type.loop(in, attrs, shapes);
    for (size_t i = 0; i < results.size(); ++i) Write(results[i], all.at(count + i));
  };
}

aclError RunByType(const char* type, int inputs, const aclTensorDesc* const* input_descs,
                   const aclDataBuffer* const* input_data, int outputs,
                   const aclTensorDesc* const* output_descs, aclDataBuffer* const* output_data,
                   const aclopAttr* attr, aclrtStream stream) {
  const std::string api = std::string("aclop ") + type;
  const auto found = AclopOperators().find(type);
  if (found == AclopOperators().end()) {
    return twin::RefuseCall(api.c_str(), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                            "MindSpore asked CANN for the operator " + std::string(type) +
                                ", which the twin does not have");
  }
  Handles handles;
  uint64_t workspace = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status = MakePlan(api.c_str(), &workspace, &executor, [&](Plan& plan) {
    PlanByType(plan, &handles, found->second, inputs, input_descs, input_data, outputs,
               output_descs, output_data, attr);
  });
  if (status != ACL_SUCCESS) return status;
  return twin::RunExecutor(api.c_str(), nullptr, workspace, executor, stream);
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) bool TwinHasOperatorType(const char* type) {
  return AclopOperators().count(type) != 0;
}

#define ACL extern "C" ACL_FUNC_VISIBILITY

// The name of each operator in turn, and null behind the last, for lists of what there is.
ACL const char* TwinOperatorType(size_t index) {
  if (index >= AclopOperators().size()) return nullptr;
  return std::next(AclopOperators().begin(), static_cast<int64_t>(index))->first.c_str();
}

ACL aclError aclopCompileAndExecute(const char* type, int inputs,
                                    const aclTensorDesc* const input_descs[],
                                    const aclDataBuffer* const input_data[], int outputs,
                                    const aclTensorDesc* const output_descs[],
                                    aclDataBuffer* const output_data[], const aclopAttr* attr, int,
                                    int, const char*, aclrtStream stream) {
  return RunByType(type, inputs, input_descs, input_data, outputs, output_descs, output_data, attr,
                   stream);
}
ACL aclError aclopCompileAndExecuteV2(const char* type, int inputs, aclTensorDesc* input_descs[],
                                      aclDataBuffer* input_data[], int outputs,
                                      aclTensorDesc* output_descs[], aclDataBuffer* output_data[],
                                      aclopAttr* attr, int, int, const char*, aclrtStream stream) {
  return RunByType(type, inputs, input_descs, input_data, outputs, output_descs, output_data, attr,
                   stream);
}
