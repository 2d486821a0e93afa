// What has to work of the graph engine's library for MindSpore's plugin to load: its own static
// initialisers register texts of errors and makers of operators. The class is laid out as the
// callers of its inline functions expect: one map.
#include <cstdint>
#include <functional>
#include <map>
#include <string>

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

class AscendString;
class Operator;

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
