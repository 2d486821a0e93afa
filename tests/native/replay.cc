// Runs the operator calls of a case file under conditions that a caller from Python cannot make,
// and writes their outputs to a result file, which tests/native/test_replay.py judges: every tensor
// in a heap block of exactly its size, so that a sanitizer sees the first byte past it; pointers
// aligned to no more than an element; outputs and scratch full of NaN; one thread and several,
// which must give the same bits.
//
// usage: nsa_replay CASES RESULTS ISA, where ISA "?" prints the available instruction sets.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "binding/op_call.h"
#include "cpu/runtime.h"
#include "tests/native/byte_file.h"

namespace nsa::test {
namespace {

constexpr char kCaseMagic[] = "NSACASE1";
constexpr char kResultMagic[] = "NSARSLT1";
constexpr int kPoison = 0xFF;

struct Tensor {
  bool present = false;
  DType dtype = DType::kUnknown;
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

struct Case {
  std::string op;
  Attrs attrs;
  std::vector<Tensor> inputs;
};

int64_t byte_count(DType dtype, const std::vector<int64_t>& shape) {
  int64_t count = dtype_size(dtype);
  for (const int64_t dim : shape) count *= dim;
  return count;
}

Attrs::Value read_value(ByteFile& file) {
  switch (file.get<char>()) {
    case 'i':
      return file.get<int64_t>();
    case 'f':
      return file.get<double>();
    case 's':
      return file.get_string();
    default:
      throw std::runtime_error("unknown attribute type in the case file");
  }
}

Tensor read_tensor(ByteFile& file) {
  Tensor tensor;
  tensor.present = file.get<uint8_t>() != 0;
  if (!tensor.present) return tensor;
  tensor.dtype = static_cast<DType>(file.get<int32_t>());
  tensor.shape.resize(file.get<uint32_t>());
  for (int64_t& dim : tensor.shape) dim = file.get<int64_t>();
  tensor.bytes.resize(byte_count(tensor.dtype, tensor.shape));
  file.read(tensor.bytes.data(), tensor.bytes.size());
  return tensor;
}

std::vector<Case> read_cases(const std::string& path) {
  ByteFile file(path, "rb");
  char magic[8];
  file.read(magic, sizeof magic);
  if (std::memcmp(magic, kCaseMagic, sizeof magic) != 0) {
    throw std::runtime_error(path + " is no case file");
  }
  std::vector<Case> cases(file.get<uint32_t>());
  for (Case& one : cases) {
    one.op = file.get_string();
    for (uint32_t n = file.get<uint32_t>(); n > 0; --n) {
      const std::string name = file.get_string();
      one.attrs.set(name, read_value(file));
    }
    one.inputs.resize(file.get<uint32_t>());
    for (Tensor& input : one.inputs) input = read_tensor(file);
  }
  return cases;
}

// A heap block of its own for one tensor. `shift` elements past malloc's alignment, ending where
// the block ends.
class Block {
 public:
  Block(DType dtype, const std::vector<int64_t>& shape, int64_t shift)
      : bytes_(byte_count(dtype, shape)),
        offset_(shift * dtype_size(dtype)),
        base_(static_cast<char*>(std::malloc(bytes_ + offset_))) {
    if (base_ == nullptr && bytes_ + offset_ != 0) throw std::bad_alloc();
    if (bytes_ != 0) std::memset(data(), kPoison, bytes_);
  }
  ~Block() { std::free(base_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  char* data() const { return base_ + offset_; }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_, offset_;
  char* base_;
};

struct Outcome {
  std::string error;  // empty: the call went through
  std::vector<OutputDesc> descs;
  std::vector<std::unique_ptr<Block>> outputs;
};

Outcome run(const Case& one, int threads, int64_t shift) {
  Outcome outcome;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<TensorDesc> in, out;
  for (const Tensor& input : one.inputs) {
    TensorDesc tensor;
    tensor.present = input.present;
    if (input.present) {
      blocks.push_back(std::make_unique<Block>(input.dtype, input.shape, shift));
      if (!input.bytes.empty()) {
        std::memcpy(blocks.back()->data(), input.bytes.data(), input.bytes.size());
      }
      tensor.data = blocks.back()->data();
      tensor.dtype = input.dtype;
      tensor.shape = input.shape;
    }
    in.push_back(tensor);
  }
  cpu::set_num_threads(threads);
  try {
    const BoundAttrs attrs(schema(one.op), one.attrs);
    outcome.descs = infer(Context(attrs, in, Target::kCpu));
    for (const OutputDesc& desc : outcome.descs) {
      outcome.outputs.push_back(std::make_unique<Block>(desc.dtype, desc.shape, shift));
      out.push_back({true, desc.dtype, true, desc.shape, nullptr, outcome.outputs.back()->data()});
    }
    check_and_run(attrs, in, out);
  } catch (const OpError& error) {
    outcome.error = error.message;
  }
  return outcome;
}

// Empty if the two are equal bit for bit, else what differs.
std::string difference(const Case& one, const Outcome& a, const Outcome& b) {
  if (a.error != b.error) return "errors: " + a.error + " / " + b.error;
  if (!a.error.empty()) return "";
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const char* x = a.outputs[i]->data();
    const char* y = b.outputs[i]->data();
    for (int64_t at = 0; at < a.outputs[i]->bytes(); ++at) {
      if (x[at] == y[at]) continue;
      return std::string(schema(one.op).outputs[i]) + ", element " +
             std::to_string(at / dtype_size(a.descs[i].dtype));
    }
  }
  return "";
}

void write_outcome(ByteFile& file, const Outcome& outcome) {
  file.put_string(outcome.error);
  if (!outcome.error.empty()) return;
  file.put(static_cast<uint32_t>(outcome.outputs.size()));
  for (size_t i = 0; i < outcome.outputs.size(); ++i) {
    const OutputDesc& desc = outcome.descs[i];
    file.put(static_cast<int32_t>(desc.dtype));
    file.put(static_cast<uint32_t>(desc.shape.size()));
    for (const int64_t dim : desc.shape) file.put(dim);
    file.write(outcome.outputs[i]->data(), outcome.outputs[i]->bytes());
  }
}

int replay(const std::string& case_path, const std::string& result_path) {
  const std::vector<Case> cases = read_cases(case_path);
  ByteFile results(result_path, "wb");
  results.write(kResultMagic, 8);
  int failures = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::fprintf(stderr, "case %zu %s\n", i, cases[i].op.c_str());
    const Outcome alone = run(cases[i], 1, 1);
    struct {
      int threads;
      int64_t shift;
    } const variants[] = {{2, 0}, {5, 3}};
    for (const auto& variant : variants) {
      const Outcome again = run(cases[i], variant.threads, variant.shift);
      const std::string what = difference(cases[i], alone, again);
      if (what.empty()) continue;
      ++failures;
      std::printf("case %zu %s: 1 and %d threads differ in %s\n", i, cases[i].op.c_str(),
                  variant.threads, what.c_str());
    }
    write_outcome(results, alone);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nsa::test

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: nsa_replay CASES RESULTS ISA\n");
    return 2;
  }
  try {
    if (std::strcmp(argv[3], "?") == 0) {
      for (const std::string& name : nsa::cpu::available_isas()) std::puts(name.c_str());
      return 0;
    }
    nsa::cpu::set_isa(argv[3]);
    return nsa::test::replay(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
