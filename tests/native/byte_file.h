// The files that tests/native/casefile.py writes and reads: little-endian numbers one after
// another, strings and arrays with their length before them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace nsa::test {

class ByteFile {
 public:
  ByteFile(const std::string& path, const char* mode) : file_(std::fopen(path.c_str(), mode)) {
    if (file_ == nullptr) throw std::runtime_error("cannot open " + path);
  }
  ~ByteFile() { std::fclose(file_); }
  ByteFile(const ByteFile&) = delete;
  ByteFile& operator=(const ByteFile&) = delete;

  void read(void* to, size_t bytes) {
    if (bytes != 0 && std::fread(to, bytes, 1, file_) != 1) {
      throw std::runtime_error("the case file ends early");
    }
  }
  void write(const void* from, size_t bytes) {
    if (bytes != 0 && std::fwrite(from, bytes, 1, file_) != 1) {
      throw std::runtime_error("cannot write the results");
    }
  }

  template <class T>
  T get() {
    T value;
    read(&value, sizeof value);
    return value;
  }
  template <class T>
  void put(T value) {
    write(&value, sizeof value);
  }

  std::string get_string() {
    std::string text(get<uint32_t>(), '\0');
    read(text.data(), text.size());
    return text;
  }
  void put_string(const std::string& text) {
    put(static_cast<uint32_t>(text.size()));
    write(text.data(), text.size());
  }

 private:
  std::FILE* file_;
};

}  // namespace nsa::test
