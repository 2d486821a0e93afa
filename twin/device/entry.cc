#include "twin/device/entry.h"

#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

#include "twin/device/launch_state.h"

namespace twin {
namespace {

// Bytes that CANN keeps at the start of the workspace for its own libraries.
constexpr uint64_t kSystemWorkspace = 16 << 20;

// A kernel type at the scope of a file. `current` gives the tiling key; null where none is asked
// for.
struct FileType {
  std::string file;
  KernelType type;
  uint64_t key;
  uint64_t (*current)();
};

// Built by the initialisers of the files, in any order.
std::vector<FileType>& FileTypes() {
  static auto* types = new std::vector<FileType>;
  return *types;
}

// A condition over TILING_KEY_VAR, as REGISTER_TILING_FOR_TILINGKEY takes it: || && == != < <= > >=
// & | + - * / % >> << ! and parentheses, with C++'s precedence.
class Condition {
 public:
  Condition(const char* text, uint64_t key) : at_(text), key_(key) {}
  bool Parse(int64_t* value) {
    *value = Binary(0);
    Skip();
    return ok_ && *at_ == '\0';
  }

 private:
  struct Operator {
    const char* text;
    int level;
  };

  void Skip() {
    while (std::isspace(static_cast<unsigned char>(*at_))) ++at_;
  }
  const Operator* Peek(int level) {
    static const Operator operators[] = {{"||", 0}, {"&&", 1}, {"==", 4}, {"!=", 4}, {"<=", 5},
                                         {">=", 5}, {"<<", 6}, {">>", 6}, {"<", 5},  {">", 5},
                                         {"|", 2},  {"&", 3},  {"+", 7},  {"-", 7},  {"*", 8},
                                         {"/", 8},  {"%", 8}};
    Skip();
    for (const Operator& o : operators) {
      if (std::strncmp(at_, o.text, std::strlen(o.text)) == 0)
        return o.level == level ? &o : nullptr;
    }
    return nullptr;
  }
  int64_t Binary(int level) {
    if (level == 9) return Unary();
    int64_t left = Binary(level + 1);
    while (const Operator* o = Peek(level)) {
      at_ += std::strlen(o->text);
      left = Apply(o->text, left, Binary(level + 1));
    }
    return left;
  }
  int64_t Apply(const std::string& o, int64_t a, int64_t b) {
    if (o == "||") return a || b;
    if (o == "&&") return a && b;
    if (o == "==") return a == b;
    if (o == "!=") return a != b;
    if (o == "<=") return a <= b;
    if (o == ">=") return a >= b;
    if (o == "<") return a < b;
    if (o == ">") return a > b;
    if (o == "<<") return a << (b & 63);
    if (o == ">>") return a >> (b & 63);
    if (o == "|") return a | b;
    if (o == "&") return a & b;
    if (o == "+") return a + b;
    if (o == "-") return a - b;
    if (o == "*") return a * b;
    if (b == 0) ok_ = false;
    if (!ok_) return 0;
    return o == "/" ? a / b : a % b;
  }
  int64_t Unary() {
    Skip();
    if (*at_ == '!') {
      ++at_;
      return !Unary();
    }
    if (*at_ == '(') {
      ++at_;
      const int64_t value = Binary(0);
      Skip();
      if (*at_ != ')') ok_ = false;
      if (ok_) ++at_;
      return value;
    }
    constexpr const char* name = "TILING_KEY_VAR";
    if (std::strncmp(at_, name, std::strlen(name)) == 0) {
      at_ += std::strlen(name);
      return static_cast<int64_t>(key_);
    }
    char* end = nullptr;
    const uint64_t value = std::strtoull(at_, &end, 0);
    if (end == at_) ok_ = false;
    at_ = end;
    while (std::isalpha(static_cast<unsigned char>(*at_))) ++at_;  // suffixes UL, ULL
    return static_cast<int64_t>(value);
  }

  const char* at_;
  uint64_t key_;
  bool ok_ = true;
};

}  // namespace

uint64_t TilingKey(const Where& where) {
  if (current_core == nullptr && current_launch != nullptr) {
    return current_launch->options.tiling_key;
  }
  return ThisCore("TILING_KEY_IS", where).launch->options.tiling_key;
}

bool DeclareType(KernelType type, const Where& where) {
  if (current_core == nullptr) {
    FileTypes().push_back({where.file, type, 0, nullptr});
    return true;
  }
  LaunchState& launch = *current_core->launch;
  if (!launch.probing) return true;
  launch.type = type;
  EndProbe();
  return true;
}

bool DeclareKeyType(uint64_t key, uint64_t (*current)(), KernelType type, const Where& where) {
  if (current_core == nullptr) {
    FileTypes().push_back({where.file, type, key, current});
  } else if (current() == key) {
    DeclareType(type, where);
  }
  return true;
}

KernelType TypeOfFile(const LaunchState& launch) {
  KernelType found = KernelType::kUnset;
  bool several = false;
  for (const FileType& declared : FileTypes()) {
    if (declared.current != nullptr && declared.current() != declared.key) continue;
    const bool here = launch.probed.count(declared.file) > 0;
    if (here) return declared.type;
    several |= found != KernelType::kUnset && found != declared.type;
    found = declared.type;
  }
  if (several) {
    throw Error("kernel " + launch.options.kernel +
                ": files declare several kernel types, and its first instruction lies in none of "
                "them: KERNEL_TASK_TYPE_DEFAULT inside the kernel");
  }
  return found;
}

const void* TilingData(const void* address, uint64_t bytes, const Where& where) {
  Core& core = ThisCore("GET_TILING_DATA", where);
  const GlobalBuffer* buffer = FindGlobalBuffer(address);
  if (buffer == nullptr) {
    Fail("GET_TILING_DATA", where, "the tiling argument points into none of the kernel's buffers");
  }
  const uint64_t offset = static_cast<const uint8_t*>(address) - buffer->address;
  if (offset + bytes > buffer->bytes) {
    Fail("GET_TILING_DATA", where,
         Format("the structure has %llu bytes, the tiling data of the host has %llu",
                static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(buffer->bytes - offset)));
  }
  // On an AIV the data passes through the start of UB.
  const auto& ub = core.memory[static_cast<int>(Hardware::UB)];
  if (!core.cube && ub != nullptr && bytes <= MemoryBytes(Hardware::UB) &&
      ub->shadow.Unwritten(0, bytes) != bytes) {
    Fail("GET_TILING_DATA", where,
         Format("overwrites bytes [0, %llu) of UB, which hold values already: read the tiling data "
                "first",
                static_cast<unsigned long long>(bytes)));
  }
  return address;
}

void RegisterTiling(const char* condition, uint64_t key, const void* type, const Where& where) {
  int64_t value;
  LaunchState& launch = *ThisCore("REGISTER_TILING_FOR_TILINGKEY", where).launch;
  if (!Condition(condition, key).Parse(&value)) {
    Fail("REGISTER_TILING_FOR_TILINGKEY", where,
         Format("cannot read the condition \"%s\"", condition));
  }
  if (value != 0) launch.key_tiling = type;
}

void CheckDefaultTiling(const void* type, const Where& where) {
  const LaunchState& launch = *ThisCore("GET_TILING_DATA", where).launch;
  if (launch.key_tiling != nullptr && launch.key_tiling != type) {
    Fail("GET_TILING_DATA", where,
         Format("tiling key %llu is registered with another structure: GET_TILING_DATA_WITH_STRUCT",
                static_cast<unsigned long long>(launch.options.tiling_key)));
  }
}

}  // namespace twin

namespace AscendC {

GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }

}  // namespace AscendC

GM_ADDR GetSysWorkSpacePtr() {
  static auto* space = static_cast<GM_ADDR>(std::calloc(1, twin::kSystemWorkspace));
  twin::LaunchState* launch = twin::current_launch;
  if (launch != nullptr && twin::FindGlobalBuffer(space) == nullptr) {
    auto buffer = std::make_unique<twin::GlobalBuffer>();
    buffer->name = "system workspace";
    buffer->address = space;
    buffer->bytes = twin::kSystemWorkspace;
    buffer->role = twin::Role::kWorkspace;
    buffer->tracked = true;
    buffer->shadow.Resize(buffer->bytes);
    launch->buffers.push_back(std::move(buffer));
  }
  return space;
}
