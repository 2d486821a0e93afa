// The inference functions of an operator, called by a text: an argument or attribute a line, in the
// order of the definition.
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "twin/host/registry.h"

namespace {

template <typename T>
std::vector<T> Rest(std::istringstream& line) {
  std::vector<T> values;
  for (T value; line >> value;) values.push_back(value);
  return values;
}

// A list attribute: its length, then its values.
template <typename T>
void AppendList(const std::vector<T>& values, gert::RuntimeAttrs* attrs) {
  gert::ContinuousVector head;
  head.Init(values.size());
  head.SetSize(values.size());
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof(head));
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  attrs->Append(bytes.data(), bytes.size());
}

// "int 3", "floats 1 2", ...
void AppendAttr(const std::string& kind, std::istringstream& line, gert::RuntimeAttrs* attrs) {
  const auto one = [&](auto value) {
    line >> value;
    attrs->Append(&value, sizeof(value));
  };
  if (kind == "int") return one(int64_t{});
  if (kind == "float") return one(float{});
  if (kind == "bool") return one(bool{});
  if (kind == "ints") return AppendList(Rest<int64_t>(line), attrs);
  if (kind == "floats") return AppendList(Rest<float>(line), attrs);
  if (kind == "bools") {
    const std::vector<int> values = Rest<int>(line);
    return AppendList(std::vector<uint8_t>(values.begin(), values.end()), attrs);
  }
  std::string text;
  line >> text;
  attrs->Append(text.c_str(), text.size() + 1);
}

// The inputs of a call. "input DTYPE DIM...", "values VALUE..." for a list that the host knows,
// "absent".
class Inputs {
 public:
  bool Read(const std::string& kind, std::istringstream& line, gert::ComputeNodeInfo* node) {
    if (kind == "absent") {
      node->AddAbsentInput();
      all.push_back(nullptr);
      return true;
    }
    if (kind != "input" && kind != "values") return false;
    int dtype = ge::DT_INT64;
    void* data = nullptr;
    std::vector<int64_t> dims;
    if (kind == "input") {
      line >> dtype;
      dims = Rest<int64_t>(line);
    } else {
      lists_.push_back(std::make_unique<std::vector<int64_t>>(Rest<int64_t>(line)));
      data = lists_.back()->data();
      dims = {static_cast<int64_t>(lists_.back()->size())};
    }
    gert::StorageShape shape;
    for (int64_t dim : dims) {
      shape.MutableOriginShape().AppendDim(dim);
      shape.MutableStorageShape().AppendDim(dim);
    }
    const auto type = static_cast<ge::DataType>(dtype);
    tensors_.push_back(std::make_unique<gert::Tensor>(
        shape, gert::StorageFormat(), data == nullptr ? gert::kOnDeviceHbm : gert::kOnHost, type,
        data));
    node->AddInput({type, gert::StorageFormat()});
    all.push_back(tensors_.back().get());
    return true;
  }

  std::deque<const gert::Tensor*> all;

 private:
  std::vector<std::unique_ptr<gert::Tensor>> tensors_;
  std::vector<std::unique_ptr<std::vector<int64_t>>> lists_;
};

}  // namespace

// A line for each output, "DTYPE DIM...", or "failed STATUS".
extern "C" const char* infer(const char* op_type, const char* call) {
  static std::string result;
  const twin::OpSpec* spec = twin::FindOperator(op_type);
  if (spec == nullptr) return "no such operator";
  gert::ComputeNodeInfo node(op_type, op_type);
  Inputs inputs;
  std::istringstream lines(call);
  for (std::string text; std::getline(lines, text);) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    if (!inputs.Read(kind, line, &node)) AppendAttr(kind, line, &node.MutableAttrs());
  }
  for (size_t i = 0; i < spec->outputs.size(); ++i) node.AddOutput({});
  gert::InferShapeContext shapes(&node, inputs.all);
  gert::InferDataTypeContext dtypes(&node);
  ge::graphStatus status = spec->infer_shape(&shapes);
  if (status == ge::GRAPH_SUCCESS) status = spec->infer_data_type(&dtypes);
  std::ostringstream out;
  for (size_t i = 0; status == ge::GRAPH_SUCCESS && i < spec->outputs.size(); ++i) {
    out << dtypes.GetOutputDataType(i);
    const gert::Shape& shape = *shapes.GetOutputShape(i);
    for (size_t axis = 0; axis < shape.GetDimNum(); ++axis) out << " " << shape.GetDim(axis);
    out << "\n";
  }
  if (status != ge::GRAPH_SUCCESS) out << "failed " << status << "\n";
  result = out.str();
  return result.c_str();
}
