// Prints the length that nsa_custom_string_attr() returns and the buffer behind it, of 16 bytes
// '.', for an attribute of as many letters as the first argument says and a capacity, the second
// one.
#include <cstdio>
#include <cstdlib>

#include "binding/custom_extra.cc"

namespace {

struct Extra : nsa_aot::AotExtra {
  std::string value;

  bool HasAttr(std::string) override { return true; }
  bool GetAttrBool(std::string) override { return false; }
  int64_t GetAttrInt(std::string) override { return 0; }
  float GetAttrFloat(std::string) override { return 0; }
  std::string GetAttrStr(std::string name) override { return name == "letters" ? value : ""; }
  std::vector<int64_t> GetAttrIntVec(std::string) override { return {}; }
  std::vector<float> GetAttrFloatVec(std::string) override { return {}; }
  std::vector<std::vector<int64_t>> GetAttrInt2DVec(std::string) override { return {}; }
  std::vector<std::vector<float>> GetAttrFloat2DVec(std::string) override { return {}; }
};

}  // namespace

int main(int, char** arguments) {
  Extra extra;
  extra.value.reserve(64);  // bytes behind the text may be read
  for (int i = 0; i < std::atoi(arguments[1]); ++i) extra.value += static_cast<char>('a' + i);
  char buffer[17] = "................";
  const size_t size =
      nsa_custom_string_attr(&extra, "letters", buffer, std::strtoul(arguments[2], nullptr, 10));
  std::printf("%zu %s", size, buffer);
}
