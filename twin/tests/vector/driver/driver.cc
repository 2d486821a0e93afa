#include "twin/tests/vector/driver/driver.h"

#include <sstream>

namespace vector_test {

std::map<std::string, Runner>& Runners() {
  static std::map<std::string, Runner> runners;
  return runners;
}

namespace {

// Brings the image in, runs the call, takes the image out. An exception must not leave the kernel.
void Kernel(const uint8_t* in, uint8_t* out, uint32_t bytes, Call call, const Runner& runner,
            std::string* misuse) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  pipe.InitBuffer(buffer, bytes);
  AscendC::GlobalTensor<uint8_t> source, target;
  source.SetGlobalBuffer(const_cast<uint8_t*>(in), bytes);
  target.SetGlobalBuffer(out, bytes);
  call.ub = buffer.Get<uint8_t>();
  AscendC::DataCopy(call.ub, source, bytes);
  AscendC::PipeBarrier<PIPE_ALL>();
  try {
    runner(call);
  } catch (const std::logic_error& e) {
    *misuse = e.what();
  }
  AscendC::PipeBarrier<PIPE_ALL>();
  AscendC::DataCopy(target, call.ub, bytes);
}

}  // namespace
}  // namespace vector_test

// Returns 0, or 1 with the error's text. `call` is "api types form": types separated by commas.
// numbers: form's mask (low, high), repeats, then the API's own.
extern "C" __attribute__((visibility("default"))) int run_vector_call(
    const char* call_text, const uint8_t* in, uint8_t* out, uint32_t bytes, const int64_t* numbers,
    int count, int64_t* results, char* error, int error_bytes) {
  using namespace vector_test;
  Call call;
  std::string types, form;
  std::istringstream text(call_text);
  text >> call.api >> types >> form;
  std::istringstream list(types);
  for (std::string type; std::getline(list, type, ',');) call.types.push_back(type);
  call.form = std::stoi(form);
  call.mask[0] = static_cast<uint64_t>(numbers[0]);
  call.mask[1] = static_cast<uint64_t>(numbers[1]);
  call.repeats = numbers[2];
  call.args.assign(numbers + 3, numbers + count);
  call.results = results;

  std::string message;
  const auto runner = Runners().find(call.api);
  if (runner == Runners().end()) {
    message = "the driver has no " + call.api;
  } else {
    twin::LaunchOptions options;
    options.kernel = "vector_test";
    options.print_warnings = false;
    options.buffers = {{"in", const_cast<uint8_t*>(in), bytes, twin::Role::kInput},
                       {"out", out, bytes, twin::Role::kOutput}};
    const twin::LaunchReport report =
        twin::Launch(options, [&] { Kernel(in, out, bytes, call, runner->second, &message); });
    if (message.empty()) message = report.error;
  }
  std::strncpy(error, message.c_str(), static_cast<size_t>(error_bytes) - 1);
  return message.empty() ? 0 : 1;
}
