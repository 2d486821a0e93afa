// MindSpore's plugin loads only if this part of the graph engine's library works: its static
// initialisers register texts of errors and makers of operators. The class is laid out as the
// callers of its inline functions expect: one map.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

// Whether the twin has an operator that is called by its type (opapi/aclop.cc).
extern "C" bool TwinHasOperatorType(const char* type);

namespace ge {

class __attribute__((visibility("default"))) StatusFactory {
 public:
  static StatusFactory* Instance();

 private:
  std::map<const uint32_t, std::string> texts_;
};

StatusFactory* StatusFactory::Instance() {
  static StatusFactory factory;
  return &factory;
}

// MindSpore begins with it before its first operator that is called by its type. Those are loops of
// the twin; a graph of the engine is a trap.
__attribute__((visibility("default"))) uint32_t
GEInitialize(const std::map<std::string, std::string>& options);
uint32_t GEInitialize(const std::map<std::string, std::string>&) { return 0; }

class AscendString;

// MindSpore makes one of every operator that it calls by its type, to ask for the kinds of its
// attributes; it is laid out as the callers of its inline functions expect.
class __attribute__((visibility("default"))) Operator {
 public:
  virtual ~Operator() = default;
  // Whether the operator's definition has a default: none of the twin's has.
  uint32_t GetAttr(const char* name, bool& value) const;
  uint32_t GetAttr(const char* name, float& value) const;
  uint32_t GetAttr(const char* name, int32_t& value) const;
  uint32_t GetAttr(const char* name, int64_t& value) const;
  uint32_t GetAttr(const char* name, std::vector<int32_t>& value) const;
  uint32_t GetAttr(const char* name, std::vector<int64_t>& value) const;

 private:
  std::shared_ptr<void> implementation_;
};

class __attribute__((visibility("default"))) OperatorFactory {
 public:
  static bool IsExistOp(const std::string& type);
  static bool IsExistOp(const char* type);
  static Operator CreateOperator(const std::string& name, const std::string& type);
  static Operator CreateOperator(const char* name, const char* type);
};

constexpr uint32_t kFailed = 0xFFFFFFFF;  // GRAPH_FAILED

uint32_t Operator::GetAttr(const char*, bool&) const { return kFailed; }
uint32_t Operator::GetAttr(const char*, float&) const { return kFailed; }
uint32_t Operator::GetAttr(const char*, int32_t&) const { return kFailed; }
uint32_t Operator::GetAttr(const char*, int64_t&) const { return kFailed; }
uint32_t Operator::GetAttr(const char*, std::vector<int32_t>&) const { return kFailed; }
uint32_t Operator::GetAttr(const char*, std::vector<int64_t>&) const { return kFailed; }

bool OperatorFactory::IsExistOp(const std::string& type) {
  return TwinHasOperatorType(type.c_str());
}
bool OperatorFactory::IsExistOp(const char* type) { return TwinHasOperatorType(type); }
Operator OperatorFactory::CreateOperator(const std::string&, const std::string&) { return {}; }
Operator OperatorFactory::CreateOperator(const char*, const char*) { return {}; }

// Nobody makes an operator of the graph engine here, so nobody asks for its maker.
class __attribute__((visibility("default"))) OperatorCreatorRegister {
 public:
  OperatorCreatorRegister(const std::string& type,
                          const std::function<Operator(const std::string&)>& creator);
  OperatorCreatorRegister(const char* type,
                          const std::function<Operator(const AscendString&)>& creator);
};

OperatorCreatorRegister::OperatorCreatorRegister(
    const std::string&, const std::function<Operator(const std::string&)>&) {}
OperatorCreatorRegister::OperatorCreatorRegister(
    const char*, const std::function<Operator(const AscendString&)>&) {}

}  // namespace ge
