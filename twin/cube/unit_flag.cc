#include "twin/cube/fractal.h"
#include "twin/cube/state.h"

namespace twin {
namespace {

std::string Bytes1024(uint64_t unit) {
  return Format("bytes [%llu, %llu) of L0C",
                static_cast<unsigned long long>(unit * kResultFractalBytes),
                static_cast<unsigned long long>((unit + 1) * kResultFractalBytes));
}

void TakeForWrite(Instr* instr, Unit* unit, uint64_t index, int64_t flag, const Where& where) {
  if (unit->state == Unit::kFull) {
    instr->Fail(Format(
        "unit flag: %s hold the result of the Mmad at %s:%d with unitFlag 3, which no Fixpipe with "
        "unitFlag 3 has read%s",
        Bytes1024(index).c_str(), unit->where.file, unit->where.line,
        flag == 0 ? "; unitFlag has to be set in both" : ": this Mmad waits for ever"));
  }
  if (flag == 0) {
    if (unit->state == Unit::kHeld) {
      instr->Fail(
          Format("unit flag on one side only: %s belong to the Mmad at %s:%d with unitFlag "
                 "2, and this one has unitFlag 0",
                 Bytes1024(index).c_str(), unit->where.file, unit->where.line));
    }
    return;
  }
  if (unit->state == Unit::kReleased) instr->Learn(unit->clock);
  unit->state = flag == 3 ? Unit::kFull : Unit::kHeld;
  instr->CopyClock(unit->clock);
  unit->where = where;
}

void TakeForRead(Instr* instr, Unit* unit, uint64_t index, int64_t flag, const Where& where) {
  if (flag == 0) {
    if (unit->state == Unit::kFull || unit->state == Unit::kHeld) {
      instr->Fail(
          Format("unit flag on one side only: %s were written by the Mmad at %s:%d with "
                 "unitFlag %d, and this Fixpipe has unitFlag 0",
                 Bytes1024(index).c_str(), unit->where.file, unit->where.line,
                 unit->state == Unit::kFull ? 3 : 2));
    }
    return;
  }
  if (unit->state != Unit::kFull) {
    const char* why =
        unit->state == Unit::kHeld
            ? "the last Mmad on them has unitFlag 2, the last one of a sum needs 3"
            : "no Mmad with unitFlag 3 wrote them (unitFlag has to be set in Mmad and in Fixpipe)";
    instr->Fail(Format("unit flag: this Fixpipe has unitFlag %d and waits for ever for %s: %s",
                       static_cast<int>(flag), Bytes1024(index).c_str(), why));
  }
  instr->Learn(unit->clock);
  if (flag == 3) {
    unit->state = Unit::kReleased;
    instr->CopyClock(unit->clock);
    unit->where = where;
  }
}

}  // namespace

void TakeUnits(Instr* instr, const UnitRange& range, int64_t unit_flag, bool writes) {
  std::vector<Unit>& units = CubeStateOf(instr->core()).units;
  if (unit_flag != 0 && range.columns > 0) {
    instr->CountUnits(range.begin, range.begin + (range.columns - 1) * range.pitch + range.rows,
                      unit_flag);
  }
  for (uint64_t column = 0; column < range.columns; ++column) {
    for (uint64_t row = 0; row < range.rows; ++row) {
      const uint64_t index = range.begin + column * range.pitch + row;
      // The bounds of the access itself name the operand.
      if (index >= units.size()) return;
      if (writes) {
        TakeForWrite(instr, &units[index], index, unit_flag, instr->where());
      } else {
        TakeForRead(instr, &units[index], index, unit_flag, instr->where());
      }
    }
  }
}

}  // namespace twin
