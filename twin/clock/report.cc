#include "twin/clock/report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "twin/clock/plain_numbers.h"

namespace twin::clock {
namespace {

constexpr size_t kShownPlaces = 12;

std::string Print(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string Print(const char* format, ...) {
  const PlainNumbers plain;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

const CostRow& RowOf(const std::string& name) {
  for (const CostRow& row : kCostRows) {
    if (name == row.name) return row;
  }
  return kCostRows[0];
}

std::string Waits(const PipeSummary& pipe, double whole) {
  std::string text;
  const auto add = [&](const std::string& name, double cycles) {
    if (cycles < 0.005 * whole) return;
    text += Print("%s%s %.0f%%", text.empty() ? "" : ", ", name.c_str(), 100 * cycles / whole);
  };
  for (int from = 0; from < kPipeCount; ++from) {
    add(std::string("flag of ") + ShortPipeName(from), pipe.flag_waits[from]);
  }
  for (Cause cause :
       {Cause::kBarrier, Cause::kUnitFlag, Cause::kCross, Cause::kQueue, Cause::kIssue}) {
    add(CauseName(cause), pipe.waits[static_cast<int>(cause)]);
  }
  return text;
}

}  // namespace

const char* ShortPipeName(int pipe) {
  static const char* const names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
  return names[pipe];
}

double Bound::Most() const { return std::max({cube, vector, fix, mte1, load, store, l2, hbm}); }

const char* Bound::Name() const {
  const double most = Most();
  if (most == cube) return "cube";
  if (most == vector) return "vector";
  if (most == fix) return "FIX";
  if (most == mte1) return "MTE1";
  if (most == load) return "MTE2";
  if (most == store) return "MTE3";
  return most == l2 ? "L2" : "HBM";
}

Report::Report(std::shared_ptr<const LaunchRecord> record, const Options& options)
    : record_(std::move(record)), options_(options), replay_(Run(*record_, options)) {}

double Report::MicrosecondsWith(const std::string& cost, double value) const {
  Options other = options_;
  SetCost(&other.costs, cost, value);
  return ToMicroseconds(Run(*record_, other).cycles);
}

std::vector<PipeSummary> Report::Pipes() const {
  std::vector<PipeSummary> pipes;
  for (const bool cube : {true, false}) {
    for (int p = 0; p < kPipeCount; ++p) {
      PipeSummary sum;
      sum.cube = cube;
      sum.pipe = p;
      for (size_t c = 0; c < record_->cores.size(); ++c) {
        if (record_->cores[c]->cube != cube) continue;
        const PipeUse& use = replay_.cores[c].pipes[p];
        sum.instructions += use.instructions;
        sum.busy += use.busy;
        sum.most_busy = std::max(sum.most_busy, use.busy);
        sum.ideal += use.ideal;
        sum.conflicts += use.conflicts;
        sum.gm_bytes += use.gm_bytes;
        for (int i = 0; i < static_cast<int>(Cause::kCauses); ++i) sum.waits[i] += use.waits[i];
        for (int i = 0; i < kPipeCount; ++i) sum.flag_waits[i] += use.flag_waits[i];
      }
      if (sum.instructions > 0 || Waits(sum, 1).size() > 0) pipes.push_back(sum);
    }
  }
  return pipes;
}

Bound Report::bound() const {
  Bound bound;
  const Chip& chip = options_.chip;
  for (const PipeSummary& pipe : Pipes()) {
    const double cores = pipe.cube ? chip.aic_cores : chip.aiv_cores;
    const double us = ToMicroseconds(pipe.ideal / cores);
    if (pipe.pipe == kM) bound.cube = us;
    if (pipe.pipe == kV) bound.vector = us;
    if (pipe.pipe == kFix) bound.fix = us;
    if (pipe.pipe == kMte1) bound.mte1 = us;
    if (pipe.pipe == kMte2) bound.load = std::max(bound.load, us);
    if (pipe.pipe == kMte3) bound.store = std::max(bound.store, us);
  }
  const MemoryTotals& memory = replay_.memory;
  bound.l2 = ToMicroseconds(memory.l2_bytes / replay_.l2_rate);
  bound.hbm = ToMicroseconds((memory.hbm_read + memory.hbm_written) / replay_.hbm_rate);
  return bound;
}

double Report::Imbalance() const {
  double worst = 0;
  for (const bool cube : {true, false}) {
    double sum = 0, most = 0;
    int count = 0;
    for (size_t c = 0; c < record_->cores.size(); ++c) {
      if (record_->cores[c]->cube != cube) continue;
      const double time = replay_.cores[c].end - replay_.cores[c].begin;
      sum += time;
      most = std::max(most, time);
      ++count;
    }
    if (sum > 0) worst = std::max(worst, most * count / sum - 1);
  }
  return worst;
}

std::string Report::Table() const {
  const Chip& chip = options_.chip;
  const double whole = replay_.cycles;
  std::string text = Print(
      "modelled time of %s on Ascend%s: %.2f us (%.0f cycles at %.0f MHz), launch apart "
      "(%.1f us for all cores)\n",
      record_->kernel.c_str(), chip.name, microseconds(), whole, chip.mhz, options_.costs.launch);
  text +=
      Print("blocks %u, %u at a time in %u wave%s%s; longest core over the mean: +%.1f%%\n",
            record_->blocks, replay_.resident_blocks, replay_.waves, replay_.waves == 1 ? "" : "s",
            replay_.all_blocks_needed ? ", but they wait for each other" : "", 100 * Imbalance());
  const std::vector<PipeSummary> pipes = Pipes();
  text += "  core pipe   instr.  busy us/core    most    used   at rate  GB/s   waits\n";
  for (const PipeSummary& pipe : pipes) {
    int cores = 0;
    double time = 0;
    for (size_t c = 0; c < record_->cores.size(); ++c) {
      if (record_->cores[c]->cube != pipe.cube) continue;
      ++cores;
      time += replay_.cores[c].end - replay_.cores[c].begin;
    }
    text += Print("  %-4s %-5s %8llu %13.2f %7.2f %6.1f%% %8.1f%% %6.0f   %s\n",
                  pipe.cube ? "AIC" : "AIV", ShortPipeName(pipe.pipe),
                  static_cast<unsigned long long>(pipe.instructions),
                  ToMicroseconds(pipe.busy) / cores, ToMicroseconds(pipe.most_busy),
                  100 * pipe.busy / time, pipe.busy > 0 ? 100 * pipe.ideal / pipe.busy : 0,
                  pipe.gm_bytes / (microseconds() * 1e3), Waits(pipe, time).c_str());
    if (pipe.conflicts > 0.005 * time) {
      text +=
          Print("             bank conflicts: %.1f%% of the time\n", 100 * pipe.conflicts / time);
    }
  }
  const MemoryTotals& memory = replay_.memory;
  text += Print("HBM: %.2f MB read, %.2f MB written, %.0f GB/s; L2: %.2f MB, %.0f GB/s\n",
                memory.hbm_read / 1e6, memory.hbm_written / 1e6,
                (memory.hbm_read + memory.hbm_written) / (microseconds() * 1e3),
                memory.l2_bytes / 1e6, memory.l2_bytes / (microseconds() * 1e3));
  const Bound least = bound();
  text += Print("bound from counts: %.2f us (%s), time over bound %.2f\n", least.Most(),
                least.Name(), microseconds() / std::max(least.Most(), 1e-9));
  bool cross = false, fix = false;
  for (const PipeSummary& pipe : pipes) {
    fix = fix || (pipe.pipe == kFix && pipe.gm_bytes > 0);
    cross = cross || pipe.waits[static_cast<int>(Cause::kCross)] > 0;
  }
  for (const auto& [used, name] :
       {std::pair<bool, const char*>{fix, "fix_to_gm"}, {cross, "exchange"}}) {
    if (!used) continue;
    const CostRow& row = RowOf(name);
    text += Print("with %s %g to %g %s: %.2f to %.2f us\n", name, row.low, row.high, row.unit,
                  MicrosecondsWith(name, row.low), MicrosecondsWith(name, row.high));
  }
  text += "critical path, by place in the source:\n";
  const std::vector<PathPlace> path = CriticalPath();
  double shown = 0;
  for (size_t i = 0; i < path.size() && i < kShownPlaces; ++i) {
    const PathPlace& p = path[i];
    shown += p.cycles;
    text += Print("  %5.1f%%  %s:%d %s, %s\n", 100 * p.cycles / whole, p.file.c_str(), p.line,
                  p.name.c_str(), p.what.c_str());
  }
  if (path.size() > kShownPlaces) {
    text +=
        Print("  %5.1f%%  %zu more\n", 100 * (whole - shown) / whole, path.size() - kShownPlaces);
  }
  return text;
}

std::string Report::Json() const {
  const auto quoted = [](const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out + "\"";
  };
  const Bound b = bound();
  std::string out = "{\"kernel\": " + quoted(record_->kernel);
  out += Print(", \"chip\": \"%s\", \"mhz\": %.17g, \"cycles\": %.17g, \"microseconds\": %.17g",
               options_.chip.name, options_.chip.mhz, replay_.cycles, microseconds());
  out += Print(", \"blocks\": %u, \"resident_blocks\": %u, \"waves\": %u, \"imbalance\": %.6g",
               record_->blocks, replay_.resident_blocks, replay_.waves, Imbalance());
  out += Print(
      ", \"bound\": {\"cube\": %.6g, \"vector\": %.6g, \"fix\": %.6g, \"mte1\": %.6g, "
      "\"mte2\": %.6g, \"mte3\": %.6g, \"l2\": %.6g, \"hbm\": %.6g}",
      b.cube, b.vector, b.fix, b.mte1, b.load, b.store, b.l2, b.hbm);
  out += Print(", \"hbm_read\": %.17g, \"hbm_written\": %.17g, \"l2_bytes\": %.17g",
               replay_.memory.hbm_read, replay_.memory.hbm_written, replay_.memory.l2_bytes);
  out += ", \"pipes\": [";
  for (const PipeSummary& p : Pipes()) {
    if (out.back() == '}') out += ", ";
    out += Print(
        "{\"core\": \"%s\", \"pipe\": \"%s\", \"instructions\": %llu, \"busy\": %.17g, "
        "\"most_busy\": %.17g, \"ideal\": %.17g, \"conflicts\": %.17g, \"gm_bytes\": %.17g",
        p.cube ? "AIC" : "AIV", ShortPipeName(p.pipe),
        static_cast<unsigned long long>(p.instructions), p.busy, p.most_busy, p.ideal, p.conflicts,
        p.gm_bytes);
    out += ", \"waits\": {";
    for (int i = 0; i < static_cast<int>(Cause::kCauses); ++i) {
      out +=
          Print("%s\"%s\": %.6g", i > 0 ? ", " : "", CauseName(static_cast<Cause>(i)), p.waits[i]);
    }
    out += "}}";
  }
  out += "], \"critical_path\": [";
  for (const PathPlace& p : CriticalPath()) {
    if (out.back() == '}') out += ", ";
    out += "{\"name\": " + quoted(p.name) + ", \"file\": " + quoted(p.file) +
           Print(", \"line\": %d, \"cycles\": %.17g, \"what\": ", p.line, p.cycles) +
           quoted(p.what) + "}";
  }
  return out + "]}";
}

}  // namespace twin::clock
