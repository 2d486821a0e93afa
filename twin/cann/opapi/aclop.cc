// Operators that are called by their type, with descriptions of tensors and attributes by name.
// CANN compiles them at the first call; here they are loops, as those of the aclnn functions are.
#include "twin/cann/opapi/aclop.h"

#include <memory>

#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

struct aclTensorDesc {
  aclDataType dtype;
  Dims dims;
  aclFormat format;
  std::vector<uint8_t> constant;  // content that the caller gave with the description
  bool on_host = false;
};

struct aclDataBuffer {
  void* data;
  size_t bytes;
};

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
    // Where an input is: among the tensors of the call, or known already.
    std::vector<int> places;
    auto known = std::make_shared<Tensors>();
    for (int i = 0; i < inputs; ++i) {
      const aclTensorDesc& desc = *input_descs[i];
      if (desc.constant.empty() && !desc.on_host) {
        places.push_back(static_cast<int>(plan.inputs.size()));
        known->emplace_back();
        plan.In("input", handles.Make(desc, input_data[i]->data));
        continue;
      }
      aclTensorDesc held = desc;
      if (held.constant.empty()) {
        const auto* bytes = static_cast<const uint8_t*>(input_data[i]->data);
        held.constant.assign(bytes, bytes + input_data[i]->bytes);
      }
      places.push_back(-1);
      known->push_back(FromBytes(held));
    }
    std::vector<Dims> shapes;
    for (int i = 0; i < outputs; ++i) {
      shapes.push_back(output_descs[i]->dims);
      plan.Out("output", handles.Make(*output_descs[i], output_data[i]->data));
    }
    for (const size_t place : WrittenInputs(type)) {
      if (place >= places.size() || places[place] < 0) Refuse("an input that is written");
      plan.Out("output", plan.inputs[places[place]].tensor);
    }
    const size_t given = plan.inputs.size();
    plan.compute = [=, op = found->second,
                    attrs = attr == nullptr ? aclopAttr{} : *attr](const Arguments& all) {
      Tensors in = *known;
      for (size_t i = 0; i < in.size(); ++i) {
        if (places[i] >= 0) in[i] = Read(all[places[i]]);
      }
      const Tensors results = op(in, attrs, shapes);
      for (size_t i = 0; i < results.size(); ++i) Write(results[i], all.at(given + i));
    };
  });
  if (status != ACL_SUCCESS) return status;
  return twin::RunExecutor(api.c_str(), nullptr, workspace, executor, stream);
}

template <class Value>
aclError SetAttribute(aclopAttr* attr, const char* name, Value value) {
  attr->values[name] = value;
  return ACL_SUCCESS;
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) bool TwinHasOperatorType(const char* type) {
  return AclopOperators().count(type) != 0;
}

#define ACL extern "C" ACL_FUNC_VISIBILITY

ACL aclTensorDesc* aclCreateTensorDesc(aclDataType dtype, int rank, const int64_t* dims,
                                       aclFormat format) {
  return new aclTensorDesc{dtype, Dims(dims, dims + rank), format, {}, false};
}
ACL void aclDestroyTensorDesc(const aclTensorDesc* desc) { delete desc; }
ACL void aclSetTensorDescName(aclTensorDesc*, const char*) {}
// The tensors of these operators are contiguous, whatever their dimensions are called.
ACL aclError aclSetTensorFormat(aclTensorDesc*, aclFormat) { return ACL_SUCCESS; }
ACL aclError aclSetTensorShape(aclTensorDesc*, int, const int64_t*) { return ACL_SUCCESS; }
// 1: host memory that is there when the call is made.
ACL aclError aclSetTensorPlaceMent(aclTensorDesc* desc, int place) {
  desc->on_host = place != 0;
  return ACL_SUCCESS;
}
ACL aclError aclSetTensorConst(aclTensorDesc* desc, void* data, size_t bytes) {
  const auto* first = static_cast<const uint8_t*>(data);
  desc->constant.assign(first, first + bytes);
  return ACL_SUCCESS;
}
ACL size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) { return desc->dims.size(); }
ACL aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* size) {
  *size = desc->dims.at(index);
  return ACL_SUCCESS;
}
ACL size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  return static_cast<size_t>(Product(desc->dims)) * aclDataTypeSize(desc->dtype);
}

ACL aclDataBuffer* aclCreateDataBuffer(void* data, size_t bytes) {
  return new aclDataBuffer{data, bytes};
}
ACL aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
  delete buffer;
  return ACL_SUCCESS;
}
ACL aclError aclUpdateDataBuffer(aclDataBuffer* buffer, void* data, size_t bytes) {
  *buffer = {data, bytes};
  return ACL_SUCCESS;
}
ACL void* aclGetDataBufferAddr(const aclDataBuffer* buffer) { return buffer->data; }

ACL aclopAttr* aclopCreateAttr() { return new aclopAttr; }
ACL void aclopDestroyAttr(const aclopAttr* attr) { delete attr; }
ACL aclError aclopSetAttrBool(aclopAttr* attr, const char* name, uint8_t value) {
  return SetAttribute(attr, name, int64_t{value});
}
ACL aclError aclopSetAttrInt(aclopAttr* attr, const char* name, int64_t value) {
  return SetAttribute(attr, name, value);
}
ACL aclError aclopSetAttrFloat(aclopAttr* attr, const char* name, float value) {
  return SetAttribute(attr, name, static_cast<double>(value));
}
ACL aclError aclopSetAttrString(aclopAttr* attr, const char* name, const char* value) {
  return SetAttribute(attr, name, std::string(value));
}
ACL aclError aclopSetAttrDataType(aclopAttr* attr, const char* name, aclDataType value) {
  return SetAttribute(attr, name, static_cast<int64_t>(value));
}
ACL aclError aclopSetAttrListInt(aclopAttr* attr, const char* name, int count,
                                 const int64_t* values) {
  return SetAttribute(attr, name, Dims(values, values + count));
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

// How CANN would compile; there is nothing to be compiled.
ACL aclError aclSetCompileopt(int, const char*) { return ACL_SUCCESS; }
ACL aclError aclopSetCompileFlag(int) { return ACL_SUCCESS; }
ACL aclError aclopSetModelDir(const char*) { return ACL_SUCCESS; }

// Where operators may take memory from; these need none.
ACL void* aclrtAllocatorCreateDesc() { return new char; }
ACL aclError aclrtAllocatorDestroyDesc(void* desc) {
  delete static_cast<char*>(desc);
  return ACL_SUCCESS;
}
ACL aclError aclrtAllocatorSetObjToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorSetAllocFuncToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorSetFreeFuncToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorSetAllocAdviseFuncToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorRegister(aclrtStream, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorUnregister(aclrtStream) { return ACL_SUCCESS; }
