// A launch records this for modelled time.
#include <algorithm>
#include <cstdio>
#include <map>

#include "twin/device/instr.h"
#include "twin/device/launch_state.h"

namespace twin {
namespace {

static_assert(clock::kPipeCount == kPipes && clock::kFix == PipeIndex(PIPE_FIX) &&
                  clock::kMte3 == PipeIndex(PIPE_MTE3),
              "the clock counts pipes as the twin does");
static_assert(static_cast<int>(clock::Memory::kFixbuf) == static_cast<int>(Hardware::FIXBUF),
              "the clock counts memories as the twin does");

// The second trace to a file of this name gets ".2" before the name's end, and so on.
std::string NextFile(const std::string& path) {
  static auto* written = new std::map<std::string, int>;
  const int count = ++(*written)[path];
  if (count == 1) return path;
  const size_t dot = path.rfind('.');
  const size_t end =
      dot == std::string::npos || path.find('/', dot) != std::string::npos ? path.size() : dot;
  return path.substr(0, end) + "." + std::to_string(count) + path.substr(end);
}

void PlaceBuffer(clock::LaunchRecord& record, GlobalBuffer& buffer) {
  // Buffers begin at multiples of 512 bytes, as on a device.
  buffer.clock_begin = static_cast<int64_t>(record.gm_bytes);
  record.gm_bytes += CeilDivide(buffer.bytes, 512) * 512;
}

clock::Memory MemoryOf(const Operand& operand) {
  if (operand.local == nullptr) return clock::Memory::kGm;
  return static_cast<clock::Memory>(operand.local->memory());
}

}  // namespace

void RecordSync(Core& core, clock::OpKind kind, const char* name, const Where& where, int pipe,
                int other, int id) {
  if (__builtin_expect(core.record == nullptr, 1)) return;
  core.record->Sync(kind, core.launch->sites.Id(name, where), pipe, other, id);
}

void Instr::BeginRecord() {
  const auto memory = [this](int i) {
    return i < count_ ? MemoryOf(operands_[i]) : clock::Memory::kNone;
  };
  // Repeats count the widest of a vector instruction's first two; a product its factors.
  uint32_t element = count_ > 0 ? operands_[0].element : 1;
  if (count_ > 1) {
    const uint32_t second = operands_[1].element;
    element = pipe_ == PIPE_V ? std::max(element, second) : second;
  }
  core_->record->Begin(ticket_.site, ticket_.pipe, element, memory(0), memory(1));
}

void Instr::RecordGlobal(AccessKind kind, GlobalBuffer& buffer, int64_t first, const Rows& rows) {
  if (buffer.clock_begin < 0) PlaceBuffer(*core_->launch->record, buffer);
  const bool leaves = buffer.role == Role::kOutput || buffer.role == Role::kInOut;
  core_->record->Global({static_cast<uint64_t>(buffer.clock_begin + first), rows.pitch,
                         static_cast<uint32_t>(rows.rows), static_cast<uint32_t>(rows.row_bytes),
                         kind != kRead, leaves});
}

void Instr::CountUnits(uint64_t begin, uint64_t end, int64_t flag) {
  if (core_->record != nullptr) core_->record->Units(begin, end, flag);
}

void StartRecord(LaunchState& launch, uint32_t aic_per_block, uint32_t aiv_per_block) {
  launch.record = std::make_shared<clock::LaunchRecord>();
  clock::LaunchRecord& record = *launch.record;
  record.kernel = launch.options.kernel;
  record.blocks = launch.options.block_dim;
  record.aic_per_block = aic_per_block;
  record.aiv_per_block = aiv_per_block;
  for (const auto& core : launch.cores) {
    record.cores.push_back(std::make_unique<clock::CoreRecord>());
    core->record = record.cores.back().get();
    core->record->cube = core->cube;
    core->record->block = core->block;
    core->record->sub_block = core->sub_block;
  }
  // Now, since the order of their first use is that of the cores' turns.
  for (const auto& buffer : launch.buffers) PlaceBuffer(record, *buffer);
}

std::shared_ptr<const clock::Report> EndRecord(LaunchState& launch) {
  clock::LaunchRecord& record = *launch.record;
  for (const auto& core : record.cores) core->Close();
  for (uint32_t i = 0; i < launch.sites.count(); ++i) {
    const Site& site = launch.sites.at(i);
    std::string file = site.file;
    // The unit of a generated kernel includes its source by a relative path.
    while (file.rfind("../", 0) == 0) file.erase(0, 3);
    record.places.push_back({site.name, file, site.line});
  }
  const clock::Options& options = launch.options.clock;
  auto report = std::make_shared<const clock::Report>(launch.record, options);
  if (options.print) std::fputs(report->Table().c_str(), stderr);
  if (!options.trace.empty()) {
    const std::string file = NextFile(options.trace);
    if (!report->WriteTrace(file)) {
      throw Error("kernel " + record.kernel + ": the trace cannot be written to " + file);
    }
  }
  return report;
}

}  // namespace twin
