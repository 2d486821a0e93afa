#include "twin/device/saturation.h"

#include "twin/device/instr.h"
#include "twin/device/launch_state.h"

namespace twin {

void WriteCtrl(const char* name, uint64_t bits, const Where& where) {
  if (bits > 1) {
    Fail(name, where,
         Format("value is %llu, one bit takes 0 or 1", static_cast<unsigned long long>(bits)));
  }
  Instr instr(name, PIPE_S, where, {});
  instr.WritesCtrl();
  instr.core().registers.ctrl = bits << kFloatSaturationBit;
}

void WriteWholeCtrl(const char* name, uint64_t value, const Where& where) {
  const uint64_t bit = uint64_t{1} << kFloatSaturationBit;
  if ((value & ~bit) != kOtherCtrlBits) {
    Fail(name, where,
         Format(
             "CTRL would be 0x%llx, and was 0x%llx: only bit %d may be changed on the twin",
             static_cast<unsigned long long>(value),
             static_cast<unsigned long long>(kOtherCtrlBits | ThisCore(name, where).registers.ctrl),
             kFloatSaturationBit));
  }
  WriteCtrl(name, value >> kFloatSaturationBit & 1, where);
}

uint64_t ReadCtrl(const char* name, const Where& where) {
  return ThisCore(name, where).registers.ctrl >> kFloatSaturationBit & 1;
}

void Instr::ReadsCtrl() { core_->registers.ctrl_reads[ticket_.pipe] = {ticket_.seq, ticket_.site}; }

void Instr::WritesCtrl() const {
  for (int p = 1; p < kPipes; ++p) {
    const Registers::Access& read = core_->registers.ctrl_reads[p];
    if (ticket_.seen[p] >= read.seq) continue;
    const Site& site = core_->launch->sites.at(read.site);
    Fail(Format(
        "hazard, write after read: CTRL, read by %s on %s at %s:%d, which is not known to be "
        "complete; SetFlag/WaitFlag<HardEvent::%s_S> or PipeBarrier<PIPE_ALL> between them",
        site.name, PipeName(p), site.file, site.line, PipeName(p) + 5));
  }
}

}  // namespace twin
