// The trace in Chrome's format: a process for each core, a thread for each pipe.
#include <cstdio>

#include "twin/clock/plain_numbers.h"
#include "twin/clock/report.h"

namespace twin::clock {
namespace {

// Files beyond this are slow to open; cores after those that fit are left out.
constexpr size_t kMostSlices = 1000000;

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string CoreName(const CoreRecord& core) {
  std::string name = core.cube ? "AIC " : "AIV ";
  name += std::to_string(core.block);
  if (!core.cube) name += "." + std::to_string(core.sub_block);
  return name;
}

}  // namespace

bool Report::WriteTrace(const std::string& path) const {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const PlainNumbers plain;
  std::fprintf(file,
               "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"kernel\": \"%s\", "
               "\"chip\": \"%s\", \"time\": \"modelled\"},\n\"traceEvents\": [",
               Escaped(record_->kernel).c_str(), options_.chip.name);
  const char* comma = "\n";
  size_t slices = 0;
  for (size_t c = 0; c < record_->cores.size() && slices < kMostSlices; ++c) {
    const CoreRecord& core = *record_->cores[c];
    const std::vector<Moment>& moments = replay_.cores[c].moments;
    std::fprintf(file,
                 "%s{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %zu, "
                 "\"args\": {\"name\": \"%s\"}}",
                 comma, c, CoreName(core).c_str());
    comma = ",\n";
    for (int pipe = 0; pipe < kPipeCount; ++pipe) {
      std::fprintf(file,
                   ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %zu, "
                   "\"tid\": %d, \"args\": {\"name\": \"%s\"}}",
                   c, pipe, ShortPipeName(pipe));
    }
    for (size_t i = 0; i < core.ops.size(); ++i) {
      const Op& op = core.ops[i];
      const Moment& m = moments[i];
      if (op.kind != OpKind::kInstruction || m.free <= m.start) continue;
      const Place& place = record_->places[op.site];
      std::fprintf(
          file,
          ",\n{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %zu, \"tid\": %d, "
          "\"ts\": %.4f, \"dur\": %.4f, \"args\": {\"line\": \"%s:%d\", \"after\": \"%s\"}}",
          Escaped(place.name).c_str(), c, op.pipe, ToMicroseconds(m.start),
          ToMicroseconds(m.free) - ToMicroseconds(m.start), Escaped(place.file).c_str(), place.line,
          CauseName(m.start_cause));
      ++slices;
    }
  }
  std::fprintf(file, "\n]}\n");
  return std::fclose(file) == 0;
}

}  // namespace twin::clock
