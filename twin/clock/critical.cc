// The critical path: from the last end back through what each operation waited for.
#include <algorithm>
#include <map>
#include <tuple>

#include "twin/clock/report.h"

namespace twin::clock {
namespace {

class Walk {
 public:
  Walk(const LaunchRecord& record, const Replay& replay) : record_(record), replay_(replay) {}

  std::vector<PathPlace> Run() {
    OpRef at = Last();
    double until = replay_.cycles;
    if (at.op == kNoOp) return {};
    bool issuing = false;  // the scalar unit's way to `at`, rather than `at` itself
    for (;;) {
      const Moment& m = MomentOf(at);
      if (!issuing) {
        Charge(at, "runs", until - m.start);
        until = std::min(until, m.start);
        if (m.start_cause == Cause::kIssue || m.start_after.op == kNoOp) {
          issuing = true;
          continue;
        }
        const OpRef next = m.start_after;
        const Moment& before = MomentOf(next);
        const double reached = m.start_cause == Cause::kPipe ? before.free : before.end;
        if (until > reached) Charge(at, CauseName(m.start_cause), until - reached);
        until = std::min(until, std::max(reached, before.start));
        at = next;
        continue;
      }
      Charge(at, "scalar issue", until - m.issue);
      until = std::min(until, m.issue);
      if (m.issue_after.op != kNoOp) {
        const OpRef next = m.issue_after;
        const Moment& before = MomentOf(next);
        const double reached = m.issue_cause == Cause::kQueue ? before.start : before.end;
        if (until > reached) Charge(at, CauseName(m.issue_cause), until - reached);
        until = std::min(until, std::max(reached, before.start));
        at = next;
        issuing = false;
        continue;
      }
      if (at.op > 0) {
        --at.op;
        continue;
      }
      const double begin = replay_.cores[at.core].begin;
      Charge(at, "scalar issue", until - begin);
      until = begin;
      // An earlier block ran on these cores.
      if (begin <= 0 || !Ended(begin, &at)) break;
      issuing = false;
    }
    std::vector<PathPlace> places;
    for (const auto& [key, cycles] : cycles_) {
      const Place& place = record_.places[std::get<0>(key)];
      places.push_back({place.name, place.file, place.line, std::get<1>(key), cycles});
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const PathPlace& a, const PathPlace& b) { return a.cycles > b.cycles; });
    return places;
  }

 private:
  const Moment& MomentOf(OpRef at) const { return replay_.cores[at.core].moments[at.op]; }

  void Charge(OpRef at, const char* what, double cycles) {
    if (cycles <= 0) return;
    const uint32_t site = record_.cores[at.core]->ops[at.op].site;
    cycles_[{site, what}] += cycles;
  }

  OpRef Last() const {
    OpRef last;
    for (uint32_t core = 0; core < replay_.cores.size(); ++core) {
      if (replay_.cores[core].end >= replay_.cycles) return LastOf(core);
    }
    return last;
  }

  // This operation ended last on the core.
  OpRef LastOf(uint32_t core) const {
    const std::vector<Moment>& moments = replay_.cores[core].moments;
    OpRef last;
    for (uint32_t op = 0; op < moments.size(); ++op) {
      if (last.op == kNoOp || moments[op].end >= moments[last.op].end) last = {op, core};
    }
    return last;
  }

  bool Ended(double time, OpRef* at) const {
    for (uint32_t core = 0; core < replay_.cores.size(); ++core) {
      if (replay_.cores[core].end != time || replay_.cores[core].moments.empty()) continue;
      *at = LastOf(core);
      return true;
    }
    return false;
  }

  const LaunchRecord& record_;
  const Replay& replay_;
  std::map<std::tuple<uint32_t, std::string>, double> cycles_;
};

}  // namespace

std::vector<PathPlace> Report::CriticalPath() const { return Walk(*record_, replay_).Run(); }

}  // namespace twin::clock
