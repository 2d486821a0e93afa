#include "twin/device/types.h"

namespace twin {

const char* PipeName(int index) {
  static const char* const names[] = {"PIPE_S",    "PIPE_V",    "PIPE_M",  "PIPE_MTE1",
                                      "PIPE_MTE2", "PIPE_MTE3", "PIPE_FIX"};
  return index >= 0 && index < kPipes ? names[index] : "PIPE_?";
}

const char* MemoryName(Hardware memory) {
  static const char* const names[] = {"GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};
  return memory < Hardware::MAX ? names[static_cast<int>(memory)] : "?";
}

const char* PositionName(TPosition position) {
  static const char* const names[] = {
      "GM",  "A1",    "A2",     "B1",      "B2",  "C1",   "C2",        "CO1",
      "CO2", "VECIN", "VECOUT", "VECCALC", "SPM", "TSCM", "C2PIPE2GM", "C2PIPE2LOCAL"};
  return position < TPosition::MAX ? names[static_cast<int>(position)] : "?";
}

const char* EventName(HardEvent event) {
  static const char* const names[] = {
      "MTE2_MTE1", "MTE1_MTE2", "MTE1_M", "M_MTE1",   "MTE2_V",    "V_MTE2",    "MTE3_V",
      "V_MTE3",    "M_V",       "V_M",    "V_V",      "MTE3_MTE1", "MTE1_MTE3", "MTE1_V",
      "MTE2_M",    "M_MTE2",    "V_MTE1", "M_FIX",    "FIX_M",     "MTE3_MTE2", "MTE2_MTE3",
      "S_V",       "V_S",       "S_MTE2", "MTE2_S",   "S_MTE3",    "MTE3_S",    "MTE2_FIX",
      "FIX_MTE2",  "FIX_S",     "M_S",    "FIX_MTE3", "MTE1_FIX",  "FIX_MTE1",  "FIX_FIX"};
  return event < HardEvent::MAX ? names[static_cast<int>(event)] : "?";
}

}  // namespace twin
