// Synchronisation inside a core and between cores, and the variables that tell a core who it is.
#pragma once

#include "twin/device/tensor.h"

namespace AscendC {

enum class MemDsbT : uint8_t { ALL = 0, DDR, UB, SEQ };

}  // namespace AscendC

namespace twin {

TWIN_API void SetFlag(HardEvent event, int id, const Where& where);
TWIN_API void WaitFlag(HardEvent event, int id, const Where& where);
TWIN_API void Barrier(pipe_t pipe, const Where& where);
TWIN_API HardEvent EventOf(pipe_t src, pipe_t dst, const Where& where);

TWIN_API void CrossCoreSet(int mode, pipe_t pipe, int flag, const Where& where);
TWIN_API void CrossCoreSetByUser(int mode, pipe_t pipe, int flag, const Where& where);
TWIN_API void CrossCoreWait(int flag, const Where& where);
TWIN_API void HardSyncAll(bool vector_only, const Where& where);
TWIN_API void SoftSyncAll(const Operand& gm, const Operand& ub, int32_t used_cores,
                          const Where& where);

TWIN_API void BlockFlag(const char* name, const Operand& gm, const Operand& ub, bool vector_only,
                        int32_t block, int32_t event, bool set, const Where& where);

enum class TurnStep { kInit, kWait, kNotify };
TWIN_API void BlockTurn(const char* name, const Operand& gm, const Operand& ub, TurnStep step,
                        const Where& where);

TWIN_API int64_t BlockNum(const Where& where);
TWIN_API int64_t BlockIdx(const Where& where);
TWIN_API int64_t SubBlockIdx(const Where& where);
TWIN_API int64_t SubBlockNum(const Where& where);
TWIN_API int64_t TaskRatio(const Where& where);

}  // namespace twin

namespace AscendC {

template <HardEvent event>
void SetFlag(int32_t eventID, twin::Where where = twin::Here()) {
  twin::SetFlag(event, eventID, where);
}
template <HardEvent event>
void WaitFlag(int32_t eventID, twin::Where where = twin::Here()) {
  twin::WaitFlag(event, eventID, where);
}
template <pipe_t pipe>
void PipeBarrier(twin::Where where = twin::Here()) {
  static_assert(pipe != PIPE_S, "PipeBarrier does not take PIPE_S");
  twin::Barrier(pipe, where);
}
// Orders scalar accesses; those complete in program order here.
template <MemDsbT arg0>
void DataSyncBarrier() {}

template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, twin::Where where = twin::Here()) {
  static_assert(modeId <= 2, "CrossCoreSetFlag: dav-c220 has the modes 0, 1 and 2");
  static_assert(pipe != PIPE_S && pipe != PIPE_ALL,
                "CrossCoreSetFlag does not take PIPE_S or PIPE_ALL");
  twin::CrossCoreSetByUser(modeId, pipe, flagId, where);
}
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, twin::Where where = twin::Here()) {
  twin::CrossCoreWait(flagId, where);
}
// The names that these two have inside CANN's headers, for the cores of one block.
template <pipe_t pipe>
void NotifyEvent(uint16_t flagId, twin::Where where = twin::Here()) {
  CrossCoreSetFlag<2, pipe>(flagId, where);
}
template <pipe_t pipe = PIPE_S>
void WaitEvent(uint16_t flagId, twin::Where where = twin::Here()) {
  CrossCoreWaitFlag<0, pipe>(flagId, where);
}
template <bool isAIVOnly = true>
void SyncAll(twin::Where where = twin::Here()) {
  twin::HardSyncAll(isAIVOnly, where);
}
template <bool isAIVOnly = true>
void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
             const int32_t usedCores = 0, twin::Where where = twin::Here()) {
  static_assert(isAIVOnly, "SyncAll with a workspace is for AIV cores");
  twin::SoftSyncAll({"gmWorkspace", gmWorkspace}, {"ubWorkspace", ubWorkspace}, usedCores, where);
}

// One AIV waits for a flag that another sets, in a slot of gmWorkspace for each block and event.
template <bool isAIVOnly = true>
void IBSet(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
           int32_t blockIdx, int32_t eventID, twin::Where where = twin::Here()) {
  twin::BlockFlag("IBSet", {"gmWorkspace", gmWorkspace}, {"ubWorkspace", ubWorkspace}, isAIVOnly,
                  blockIdx, eventID, true, where);
}
template <bool isAIVOnly = true>
void IBWait(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
            int32_t blockIdx, int32_t eventID, twin::Where where = twin::Here()) {
  twin::BlockFlag("IBWait", {"gmWorkspace", gmWorkspace}, {"ubWorkspace", ubWorkspace}, isAIVOnly,
                  blockIdx, eventID, false, where);
}

// Between WaitPreBlock and NotifyNextBlock AIV cores are one after the other, by their indices.
inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t>& gmWorkspace,
                                          LocalTensor<int32_t>& ubWorkspace,
                                          twin::Where where = twin::Here()) {
  twin::BlockTurn("InitDetermineComputeWorkspace", {"gmWorkspace", gmWorkspace},
                  {"ubWorkspace", ubWorkspace}, twin::TurnStep::kInit, where);
}
inline void WaitPreBlock(GlobalTensor<int32_t>& gmWorkspace, LocalTensor<int32_t>& ubWorkspace,
                         twin::Where where = twin::Here()) {
  twin::BlockTurn("WaitPreBlock", {"gmWorkspace", gmWorkspace}, {"ubWorkspace", ubWorkspace},
                  twin::TurnStep::kWait, where);
}
inline void NotifyNextBlock(GlobalTensor<int32_t>& gmWorkspace, LocalTensor<int32_t>& ubWorkspace,
                            twin::Where where = twin::Here()) {
  twin::BlockTurn("NotifyNextBlock", {"gmWorkspace", gmWorkspace}, {"ubWorkspace", ubWorkspace},
                  twin::TurnStep::kNotify, where);
}

inline int64_t GetBlockNum(twin::Where where = twin::Here()) { return twin::BlockNum(where); }
inline int64_t GetBlockIdx(twin::Where where = twin::Here()) { return twin::BlockIdx(where); }
inline int64_t GetSubBlockIdx(twin::Where where = twin::Here()) { return twin::SubBlockIdx(where); }
inline int64_t GetSubBlockNum(twin::Where where = twin::Here()) { return twin::SubBlockNum(where); }
inline int64_t GetTaskRatio(twin::Where where = twin::Here()) { return twin::TaskRatio(where); }
inline int64_t GetTaskRation(twin::Where where = twin::Here()) { return twin::TaskRatio(where); }

}  // namespace AscendC

inline void set_flag(pipe_t src, pipe_t dst, event_t id, twin::Where where = twin::Here()) {
  twin::SetFlag(twin::EventOf(src, dst, where), id, where);
}
inline void wait_flag(pipe_t src, pipe_t dst, event_t id, twin::Where where = twin::Here()) {
  twin::WaitFlag(twin::EventOf(src, dst, where), id, where);
}
inline void pipe_barrier(pipe_t pipe, twin::Where where = twin::Here()) {
  twin::Barrier(pipe, where);
}
