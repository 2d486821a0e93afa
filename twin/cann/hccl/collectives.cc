// The collectives of HCCL, as Atlas A2 has them.
#include <cstring>
#include <numeric>

#include "twin/cann/hccl/communicator.h"

using namespace twin::hccl;

namespace {

using Counts = std::vector<uint64_t>;

std::string Text(uint64_t count, DataType dtype) {
  return std::to_string(count) + " " + NameOf(dtype);
}

std::string Text(const Counts& counts) {
  std::string text;
  for (uint64_t count : counts) text += (text.empty() ? "" : " ") + std::to_string(count);
  return "[" + text + "]";
}

uint64_t Bytes(DataType dtype, uint64_t count) {
  if (SizeOf(dtype) == 0) throw Failure(kNotSupported, "dataType is " + NameOf(dtype));
  return SizeOf(dtype) * count;
}

void CheckReduction(DataType dtype, ReduceOp op) {
  const std::string wrong = CannotReduce(dtype, op);
  if (!wrong.empty()) throw Failure(kNotSupported, wrong);
}

void CheckRoot(const Communicator& communicator, uint32_t root) {
  if (root < communicator.size()) return;
  throw Failure(kParameter, "root must be a worker below " + std::to_string(communicator.size()) +
                                ", got " + std::to_string(root));
}

Counts Listed(const Communicator& communicator, const char* name, const void* values,
              size_t times = 1) {
  RequirePointer(name, values);
  const auto* first = static_cast<const uint64_t*>(values);
  return {first, first + communicator.size() * times};
}

// Elements from the beginning of a buffer to the end of the last part in it.
uint64_t Reached(const Counts& counts, const Counts& places) {
  uint64_t end = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) end = std::max(end, places[i] + counts[i]);
  }
  return end;
}

Counts Sums(const Counts& counts) {
  Counts places(counts.size());
  std::partial_sum(counts.begin(), counts.end() - 1, places.begin() + 1);
  return places;
}

void Put(const std::vector<uint8_t>& payload, void* to, uint64_t offset = 0) {
  if (!payload.empty())
    std::memcpy(static_cast<uint8_t*>(to) + offset, payload.data(), payload.size());
}

// One after another, so that every worker gets the same bits.
std::vector<uint8_t> Reduced(const Payloads& payloads, uint64_t count, DataType dtype,
                             ReduceOp op) {
  std::vector<uint8_t> total = payloads[0];
  for (size_t i = 1; i < payloads.size(); ++i) {
    Reduce(dtype, op, count, payloads[i].data(), total.data());
  }
  return total;
}

std::string Called(const char* function, const std::string& what) {
  return std::string(function) + "(" + what + ")";
}

std::string RootText(uint32_t root) { return ", root " + std::to_string(root); }

// Every worker gives everybody all that it has.
void GiveAll(Collective& collective, const Communicator& communicator, uint64_t bytes) {
  collective.parts.assign(communicator.size(), {0, bytes});
}

void GiveShares(Collective& collective, const Communicator& communicator, uint64_t bytes) {
  for (uint32_t i = 0; i < communicator.size(); ++i) collective.parts.push_back({i * bytes, bytes});
}

void GiveNothing(Collective& collective, const Communicator& communicator) {
  GiveAll(collective, communicator, 0);
}

// One side of an exchange between all workers; counts and places by worker.
struct Sides {
  Counts counts, places;
  DataType dtype;
};

Collective AllToAll(const std::string& call, const void* from, const Sides& sent, const void* to,
                    const Sides& received) {
  Collective made;
  made.call = call;
  made.reads = {{"sendBuf", from, Bytes(sent.dtype, Reached(sent.counts, sent.places))}};
  made.writes = {{"recvBuf", to, Bytes(received.dtype, Reached(received.counts, received.places))}};
  if (from != nullptr && from == to) {
    throw Failure(kParameter, "recvBuf must not be sendBuf");
  }
  for (size_t i = 0; i < sent.counts.size(); ++i) {
    made.parts.push_back({Bytes(sent.dtype, sent.places[i]), Bytes(sent.dtype, sent.counts[i])});
    made.gives.push_back(Text(sent.counts[i], sent.dtype));
    made.expects.push_back(Text(received.counts[i], received.dtype));
  }
  made.finish = [=](const Payloads& payloads) {
    for (size_t i = 0; i < payloads.size(); ++i) {
      Put(payloads[i], const_cast<void*>(to), Bytes(received.dtype, received.places[i]));
    }
  };
  return made;
}

// A worker's own part is not checked by the messages.
void CheckOwn(const Communicator& communicator, const char* sent_name, uint64_t sent,
              const char* received_name, uint64_t received) {
  if (sent == received) return;
  const std::string at = "[" + std::to_string(communicator.rank()) + "]";
  throw Failure(kParameter, std::string(received_name) + at + " must be " + sent_name + ", " +
                                std::to_string(sent) + ", got " + std::to_string(received));
}

std::vector<Transfer> OneTransfer(Kind kind, const char* name, const void* buffer, uint64_t count,
                                  DataType dtype, uint32_t peer) {
  return {{kind, peer, {name, buffer, Bytes(dtype, count)}, Text(count, dtype)}};
}

}  // namespace

#define HCCL extern "C" ACL_FUNC_VISIBILITY Result

HCCL HcclAllReduce(void* send, void* receive, uint64_t count, DataType dtype, ReduceOp op,
                   void* comm, aclrtStream stream) {
  return Together("HcclAllReduce", comm, stream, [=](Communicator& all) {
    CheckReduction(dtype, op);
    const uint64_t bytes = Bytes(dtype, count);
    Collective made;
    made.call = Called("HcclAllReduce", Text(count, dtype) + ", " + NameOf(op));
    made.reads = {{"sendBuf", send, bytes}};
    made.writes = {{"recvBuf", receive, bytes}};
    GiveAll(made, all, bytes);
    made.finish = [=](const Payloads& payloads) {
      Put(Reduced(payloads, count, dtype, op), receive);
    };
    return made;
  });
}

HCCL HcclReduce(void* send, void* receive, uint64_t count, DataType dtype, ReduceOp op,
                uint32_t root, void* comm, aclrtStream stream) {
  return Together("HcclReduce", comm, stream, [=](Communicator& all) {
    CheckReduction(dtype, op);
    CheckRoot(all, root);
    const uint64_t bytes = Bytes(dtype, count);
    const bool gets = all.rank() == root;
    Collective made;
    made.call = Called("HcclReduce", Text(count, dtype) + ", " + NameOf(op) + RootText(root));
    made.reads = {{"sendBuf", send, bytes}};
    if (gets) made.writes = {{"recvBuf", receive, bytes}};
    GiveNothing(made, all);
    made.parts[root].second = bytes;
    made.finish = [=](const Payloads& payloads) {
      if (gets) Put(Reduced(payloads, count, dtype, op), receive);
    };
    return made;
  });
}

HCCL HcclReduceScatter(void* send, void* receive, uint64_t count, DataType dtype, ReduceOp op,
                       void* comm, aclrtStream stream) {
  return Together("HcclReduceScatter", comm, stream, [=](Communicator& all) {
    CheckReduction(dtype, op);
    const uint64_t bytes = Bytes(dtype, count);
    Collective made;
    made.call = Called("HcclReduceScatter", Text(count, dtype) + ", " + NameOf(op));
    made.reads = {{"sendBuf", send, bytes * all.size()}};
    made.writes = {{"recvBuf", receive, bytes}};
    GiveShares(made, all, bytes);
    made.finish = [=](const Payloads& payloads) {
      Put(Reduced(payloads, count, dtype, op), receive);
    };
    return made;
  });
}

HCCL HcclReduceScatterV(void* send, const void* counts, const void* places, void* receive,
                        uint64_t count, DataType dtype, ReduceOp op, void* comm,
                        aclrtStream stream) {
  return Together("HcclReduceScatterV", comm, stream, [=](Communicator& all) {
    CheckReduction(dtype, op);
    const Counts given = Listed(all, "sendCounts", counts);
    const Counts from = Listed(all, "sendDispls", places);
    CheckOwn(all, "recvCount", count, "sendCounts", given[all.rank()]);
    Collective made;
    made.call = Called("HcclReduceScatterV", NameOf(dtype) + " " + Text(given) + ", " + NameOf(op));
    made.reads = {{"sendBuf", send, Bytes(dtype, Reached(given, from))}};
    made.writes = {{"recvBuf", receive, Bytes(dtype, count)}};
    for (uint32_t i = 0; i < all.size(); ++i) {
      made.parts.push_back({Bytes(dtype, from[i]), Bytes(dtype, given[i])});
    }
    made.finish = [=](const Payloads& payloads) {
      Put(Reduced(payloads, count, dtype, op), receive);
    };
    return made;
  });
}

HCCL HcclAllGather(void* send, void* receive, uint64_t count, DataType dtype, void* comm,
                   aclrtStream stream) {
  return Together("HcclAllGather", comm, stream, [=](Communicator& all) {
    const uint64_t bytes = Bytes(dtype, count);
    Collective made;
    made.call = Called("HcclAllGather", Text(count, dtype));
    made.reads = {{"sendBuf", send, bytes}};
    made.writes = {{"recvBuf", receive, bytes * all.size()}};
    GiveAll(made, all, bytes);
    made.finish = [=](const Payloads& payloads) {
      for (size_t i = 0; i < payloads.size(); ++i) Put(payloads[i], receive, i * bytes);
    };
    return made;
  });
}

HCCL HcclAllGatherV(void* send, uint64_t count, void* receive, const void* counts,
                    const void* places, DataType dtype, void* comm, aclrtStream stream) {
  return Together("HcclAllGatherV", comm, stream, [=](Communicator& all) {
    const Counts taken = Listed(all, "recvCounts", counts);
    const Counts to = Listed(all, "recvDispls", places);
    CheckOwn(all, "sendCount", count, "recvCounts", taken[all.rank()]);
    Collective made;
    made.call = Called("HcclAllGatherV", NameOf(dtype) + " " + Text(taken));
    made.reads = {{"sendBuf", send, Bytes(dtype, count)}};
    made.writes = {{"recvBuf", receive, Bytes(dtype, Reached(taken, to))}};
    GiveAll(made, all, Bytes(dtype, count));
    made.finish = [=](const Payloads& payloads) {
      for (size_t i = 0; i < payloads.size(); ++i) Put(payloads[i], receive, Bytes(dtype, to[i]));
    };
    return made;
  });
}

HCCL HcclBroadcast(void* buffer, uint64_t count, DataType dtype, uint32_t root, void* comm,
                   aclrtStream stream) {
  return Together("HcclBroadcast", comm, stream, [=](Communicator& all) {
    CheckRoot(all, root);
    const uint64_t bytes = Bytes(dtype, count);
    Collective made;
    made.call = Called("HcclBroadcast", Text(count, dtype) + RootText(root));
    made.reads = made.writes = {{"buf", buffer, bytes}};
    GiveAll(made, all, all.rank() == root ? bytes : 0);
    made.finish = [=](const Payloads& payloads) { Put(payloads[root], buffer); };
    return made;
  });
}

HCCL HcclScatter(void* send, void* receive, uint64_t count, DataType dtype, uint32_t root,
                 void* comm, aclrtStream stream) {
  return Together("HcclScatter", comm, stream, [=](Communicator& all) {
    CheckRoot(all, root);
    const uint64_t bytes = Bytes(dtype, count);
    Collective made;
    made.call = Called("HcclScatter", Text(count, dtype) + RootText(root));
    made.writes = {{"recvBuf", receive, bytes}};
    if (all.rank() == root) {
      made.reads = {{"sendBuf", send, bytes * all.size()}};
      GiveShares(made, all, bytes);
    } else {
      GiveNothing(made, all);
    }
    made.finish = [=](const Payloads& payloads) { Put(payloads[root], receive); };
    return made;
  });
}

HCCL HcclAlltoAll(const void* send, uint64_t send_count, DataType send_dtype, const void* receive,
                  uint64_t receive_count, DataType receive_dtype, void* comm, aclrtStream stream) {
  return Together("HcclAlltoAll", comm, stream, [=](Communicator& all) {
    const Counts sent(all.size(), send_count), received(all.size(), receive_count);
    if (Text(send_count, send_dtype) != Text(receive_count, receive_dtype)) {
      throw Failure(kParameter, "a worker must receive what it sends, got " +
                                    Text(receive_count, receive_dtype) + " and " +
                                    Text(send_count, send_dtype));
    }
    return AllToAll(Called("HcclAlltoAll", Text(send_count, send_dtype)), send,
                    {sent, Sums(sent), send_dtype}, receive,
                    {received, Sums(received), receive_dtype});
  });
}

HCCL HcclAlltoAllV(const void* send, const void* send_counts, const void* send_places,
                   DataType send_dtype, const void* receive, const void* receive_counts,
                   const void* receive_places, DataType receive_dtype, void* comm,
                   aclrtStream stream) {
  return Together("HcclAlltoAllV", comm, stream, [=](Communicator& all) {
    const Sides sent = {Listed(all, "sendCounts", send_counts), Listed(all, "sdispls", send_places),
                        send_dtype};
    const Sides received = {Listed(all, "recvCounts", receive_counts),
                            Listed(all, "rdispls", receive_places), receive_dtype};
    CheckOwn(all, "sendCounts of this worker", sent.counts[all.rank()], "recvCounts",
             received.counts[all.rank()]);
    return AllToAll("HcclAlltoAllV", send, sent, receive, received);
  });
}

HCCL HcclAlltoAllVC(const void* send, const void* matrix, DataType send_dtype, const void* receive,
                    DataType receive_dtype, void* comm, aclrtStream stream) {
  return Together("HcclAlltoAllVC", comm, stream, [=](Communicator& all) {
    const Counts counts = Listed(all, "sendCountMatrix", matrix, all.size());
    Counts sent, received;
    for (uint32_t i = 0; i < all.size(); ++i) {
      sent.push_back(counts[all.rank() * all.size() + i]);
      received.push_back(counts[i * all.size() + all.rank()]);
    }
    return AllToAll(Called("HcclAlltoAllVC", Text(counts)), send, {sent, Sums(sent), send_dtype},
                    receive, {received, Sums(received), receive_dtype});
  });
}

HCCL HcclBarrier(void* comm, aclrtStream stream) {
  return Together("HcclBarrier", comm, stream, [](Communicator& all) {
    Collective made;
    made.call = "HcclBarrier()";
    GiveNothing(made, all);
    made.finish = [](const Payloads&) {};
    return made;
  });
}

HCCL HcclSend(void* buffer, uint64_t count, DataType dtype, uint32_t to, void* comm,
              aclrtStream stream) {
  return Between("HcclSend", comm, stream, [=](Communicator&) {
    return OneTransfer(Kind::kSend, "sendBuf", buffer, count, dtype, to);
  });
}

HCCL HcclRecv(void* buffer, uint64_t count, DataType dtype, uint32_t from, void* comm,
              aclrtStream stream) {
  return Between("HcclRecv", comm, stream, [=](Communicator&) {
    return OneTransfer(Kind::kReceive, "recvBuf", buffer, count, dtype, from);
  });
}

HCCL HcclBatchSendRecv(SendRecvItem* items, uint32_t count, void* comm, aclrtStream stream) {
  return Between("HcclBatchSendRecv", comm, stream, [=](Communicator&) {
    RequirePointer("sendRecvInfo", items);
    if (count == 0) throw Failure(kParameter, "itemNum must be at least 1, got 0");
    std::vector<Transfer> made;
    for (uint32_t i = 0; i < count; ++i) {
      const SendRecvItem& item = items[i];
      if (item.kind != 0 && item.kind != 1) {
        throw Failure(kParameter, "sendRecvType must be 0 or 1, got " + std::to_string(item.kind));
      }
      made.push_back(OneTransfer(item.kind == 0 ? Kind::kSend : Kind::kReceive, "buf", item.buffer,
                                 item.count, item.dtype, item.remote_rank)[0]);
    }
    return made;
  });
}
