// Every figure that modelled time is made from: the cost of an instruction, and its source.
//
// Sources: "table" is CANN's tables of theoretical performance of vector and cube instructions
// (asc-devkit, docs/zh/api, appendix); "banks" its example bank_conflict_ub, 1000 Adds on a device;
// "copies" its example data_copy, profiled on a device; "UnitFlag" its page of that name; "matmul"
// its examples matmul_high_performance; "fit" the calibration in pto-isa (costmodel/a2a3,
// flash_atten/scripts/fa_cost_model.py); "platform" a platform file of CANN quoted by third
// parties. "assumed" has no published figure.
#pragma once

#include <cstdint>

namespace twin::clock {

// name, value, low end, high end, unit, source
#define TWIN_CLOCK_COSTS(ROW)                                                                      \
  ROW(vector_start, 8, 8, 10, "cycles", "fit: 8 to 14 before the first repeat")                    \
  ROW(vector_end, 14, 6, 16, "cycles",                                                             \
      "banks: start and end are 22 between Adds without a barrier; fit: 16 to 25, by instruction") \
  ROW(vector_bank_conflict, 1, 1, 1, "times the rate",                                             \
      "banks: 4167 against 2390 ticks of 20 ns at 1.8 GHz; fit: Div 4 against 2")                  \
  ROW(barrier, 1, 1, 20, "cycles", "fit: 1 beyond the end of what came before, one call 20")       \
  ROW(flag, 1, 1, 1, "cycles", "fit")                                                              \
  ROW(scalar_issue, 8, 4, 20, "cycles",                                                            \
      "assumed; copies: a loop of DataCopyPad takes 20.6 for each, the pipe's part included")      \
  ROW(scalar_local, 20, 4, 40, "cycles", "assumed: GetValue and SetValue in UB")                   \
  ROW(scalar_cached, 4, 1, 20, "cycles", "assumed: scalar access to GM in the data cache")         \
  ROW(queue_depth, 32, 32, 32, "instructions", "docs, hardware constraints: queues of MTE1 and M") \
  ROW(mmad_start, 7.5, 6, 16, "cycles", "UnitFlag: 60 for 8 Mmads; measured 13 to 128, fit 6")     \
  ROW(l1_to_l0a, 256, 256, 256, "B/cycle", "table; fit: 441 GiB/s")                                \
  ROW(l1_to_l0b, 128, 128, 128, "B/cycle", "table; fit: 220.5 GiB/s")                              \
  ROW(l1_to_table, 32, 32, 32, "B/cycle", "table: to the bias table and the fixpipe buffer")       \
  ROW(mte1_start, 7.5, 0, 16, "cycles", "assumed as of Mmad: the table names a head without size") \
  ROW(gm_to_ub, 67, 58.6, 67, "B/cycle",                                                           \
      "copies: 906 MB from L2 in 152 us by 48 AIV; fit: 100.9 GiB/s")                              \
  ROW(gm_to_l1, 111, 78.4, 111, "B/cycle",                                                         \
      "copies: 906 MB from L2 in 183 us by 24 AIC; platform 110; fit: 135 GiB/s")                  \
  ROW(ub_to_gm, 64, 64, 109, "B/cycle", "platform; fit: 188.5 GiB/s")                              \
  ROW(l1_to_gm, 32, 32, 32, "B/cycle", "fit: 32 GiB/s")                                            \
  ROW(dma_start, 12, 8, 20, "cycles",                                                              \
      "copies: 20.6 for a DataCopyPad of one row of 128 bytes, with that row")                     \
  ROW(ub_row, 8, 8, 12, "cycles", "copies: 8.3 for each row of 128 bytes to UB, 11.6 from L2")     \
  ROW(l1_row, 5, 5, 8, "cycles", "copies: 5.3 for each row of 128 bytes to L1, 7.9 from L2")       \
  ROW(store_row, 8, 8, 12, "cycles", "assumed as of loads to UB")                                  \
  ROW(unaligned_ub, 1.28, 1, 1.28, "times", "copies: 259 against 203 us, rows off 32 bytes")       \
  ROW(unaligned_l1, 1.97, 1, 1.97, "times", "copies: 423 against 215 us, rows off 32 bytes")       \
  ROW(load_latency, 214, 67, 400, "cycles",                                                        \
      "fit: half of 247 GiB/s at 30643 bytes to UB, of 28.6 GiB/s at 1107 to L1")                  \
  ROW(store_latency, 107, 107, 214, "cycles", "fit: half of 28.2 GiB/s at 1755 bytes")             \
  ROW(fix_start, 12, 8, 20, "cycles", "assumed as of DataCopy")                                    \
  ROW(fix_to_gm, 53, 53, 86, "B/cycle",                                                            \
      "fit: the QK stage stores 128 KB in 2487 cycles; platform: 86")                              \
  ROW(fix_to_l1, 64, 64, 64, "elements/cycle", "table")                                            \
  ROW(exchange, 333, 73, 333, "cycles",                                                            \
      "fit: three exchanges of cores take 1000 on a device, 220 in a simulator")                   \
  ROW(soft_sync, 1000, 400, 2000, "cycles", "assumed: stores and reads of slots in GM")            \
  ROW(launch, 20.5, 5.9, 21, "us", "docs: a launch of all cores 20 to 21; fit: 10905 cycles")      \
  ROW(hbm_share, 0.93, 0.88, 1, "of the peak", "copies: 1.49 TB/s to UB, 1.41 TB/s to L1")         \
  ROW(l2_rate, 3216, 2800, 3784, "B/cycle", "copies: 48 AIV at 67; docs: 5.2 to 7 TB/s")

struct Costs {
#define TWIN_CLOCK_FIELD(name, value, low, high, unit, source) double name = value;
  TWIN_CLOCK_COSTS(TWIN_CLOCK_FIELD)
#undef TWIN_CLOCK_FIELD
};

struct CostRow {
  const char* name;
  double value, low, high;
  const char* unit;
  const char* source;
};

inline constexpr CostRow kCostRows[] = {
#define TWIN_CLOCK_ROW(name, value, low, high, unit, source) \
  {#name, value, low, high, unit, source},
    TWIN_CLOCK_COSTS(TWIN_CLOCK_ROW)
#undef TWIN_CLOCK_ROW
};

// Cycles that a vector instruction takes for a repeat of 256 bytes, by the width of its elements.
struct VectorRate {
  const char* names;  // with a space before and after each
  double wide;        // elements of 4 bytes
  double narrow;      // of 2 bytes
  bool banks;         // reads and writes whole blocks lane by lane, so banks decide
  const char* source;
};

inline constexpr VectorRate kVectorRates[] = {
    {" Exp Ln Sqrt Div ", 2, 4, true, "table: 32 elements/cycle; fit: 2 for floats"},
    {" MulAddDst ", 2, 2, false, "table: 32 and 64 elements/cycle"},
    {" ReduceRepeat RepeatReduceSum WholeReduceSum WholeReduceMax WholeReduceMin ReduceSum "
     "ReduceMax ReduceMin ",
     7, 7, false, "table: 64/7 and 128/7 elements/cycle; the count forms are built from it"},
    {" ReduceDataBlock BlockReduceSum BlockReduceMax BlockReduceMin ", 1, 7, false,
     "table: 64 and 128/7 elements/cycle"},
    {" GatherMask ", 2, 2, false, "table: 32 and 64 elements/cycle; fit: 14"},
    {" Gather ", 12.8, 25.6, false, "table: 5 elements/cycle; fit: 26 for one repeat"},
    {" Gatherb ", 3.05, 3.05, false, "table: 21 and 42 elements/cycle"},
    {" Sort32 ", 16, 16, false, "table: 2 elements/cycle, of 32 a repeat"},
    {" Transpose TransDataTo5HD ", 2, 2, false, "table: 128 elements/cycle, 16 x 16 of them"},
    {" SoftMax SimpleSoftMax SoftmaxFlashV2 ", 12, 24, false,
     "assumed: the instructions that they are built from"},
    {" SoftmaxGradFront ", 10, 12, false, "assumed, as SoftMax"},
    {" TopK ", 48, 48, false, "assumed: Sort32 and merges, of 32 a repeat"},
};
// Everything else: 64 elements of 4 bytes or 128 of 2 bytes a cycle.
inline constexpr VectorRate kUsualRate = {"", 1, 1, true, "table: 64 and 128 elements/cycle"};

}  // namespace twin::clock
