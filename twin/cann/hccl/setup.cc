// How communicators are made, and what they say of themselves.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <regex>
#include <set>

#include "twin/cann/hccl/communicator.h"
#include "twin/cann/refuse.h"

using namespace twin::hccl;

namespace {

// The beginning of the root info; a random text follows.
constexpr char kMark[] = "ascendc_twin:";

std::string Hex(uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[value >> shift & 15];
  return text;
}

std::string NameIn(const Config* config, const std::string& otherwise) {
  if (config == nullptr) return otherwise;
  uint32_t magic;
  std::memcpy(&magic, config->reserved + 8, sizeof(magic));
  if (magic != kConfigMagic) {
    throw Failure(kParameter, "config must be what HcclCommConfigInit has made");
  }
  const std::string name(config->name, strnlen(config->name, kNameBytes));
  return name.empty() ? otherwise : name;
}

void Join(Place place, void** comm) {
  RequirePointer("comm", comm);
  if (place.rank >= place.size) {
    throw Failure(kParameter, "rank must be below the number of workers, " +
                                  std::to_string(place.size) + ", got " +
                                  std::to_string(place.rank));
  }
  if (aclrtGetDevice(&place.device) != ACL_SUCCESS) {
    throw Failure(kRuntime, "this thread has no device; call aclrtSetDevice");
  }
  *comm = Add(std::make_shared<Communicator>(std::move(place)));
}

void JoinByRoot(uint32_t size, const RootInfo* root, uint32_t rank, const Config* config,
                void** comm) {
  RequirePointer("rootInfo", root);
  const size_t mark = sizeof(kMark) - 1;
  if (std::strncmp(root->internal, kMark, mark) != 0) {
    throw Failure(kParameter, "rootInfo must be what HcclGetRootInfo has given to one worker");
  }
  const std::string token(root->internal + mark, strnlen(root->internal + mark, 64));
  Join({token, NameIn(config, "hccl_" + token.substr(0, 8)), rank, size, 0}, comm);
}

// The numbers of the workers in a table, and that there is one server: what is needed of it here.
uint32_t WorkersIn(const std::string& path, const std::string& text) {
  const auto found = [&](const char* pattern) {
    std::set<std::string> values;
    const std::regex expression(pattern);
    std::sregex_iterator match(text.begin(), text.end(), expression);
    for (; match != std::sregex_iterator(); ++match) values.insert((*match)[1]);
    return values;
  };
  if (found(R"re("server_id"\s*:\s*"([^"]*)")re").size() != 1) {
    throw Failure(kNotSupported, path + " must have one server: the twin is on one machine");
  }
  const std::set<std::string> ranks = found(R"re("rank_id"\s*:\s*"(\d+)")re");
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks.count(std::to_string(i)) > 0) continue;
    throw Failure(kParameter, path + " must have rank_id 0 to " + std::to_string(ranks.size() - 1) +
                                  ", each once; " + std::to_string(i) + " is missing");
  }
  return static_cast<uint32_t>(ranks.size());
}

void JoinByTable(const char* path, uint32_t rank, const Config* config, void** comm) {
  RequirePointer("clusterInfo", path);
  std::ifstream file(path);
  if (!file) throw Failure(kCannotOpen, std::string("cannot read the rank table ") + path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const uint32_t size = WorkersIn(path, text);
  // All workers read one file; another job's table has other devices or another place.
  const std::hash<std::string> hash;
  const std::string token = Hex(hash(text)) + Hex(hash(path));
  Join({token, NameIn(config, "hccl_world"), rank, size, 0}, comm);
}

constexpr char kShared[] = "memory that workers share";

Result Refuse(const char* function, const std::string& what) {
  twin::cann::Refused(function, what);
  return kNotSupported;
}

}  // namespace

#define HCCL extern "C" ACL_FUNC_VISIBILITY Result

HCCL HcclGetRootInfo(RootInfo* root) {
  return Guarded("HcclGetRootInfo", [=] {
    RequirePointer("rootInfo", root);
    std::random_device draw;
    std::string token;
    for (int i = 0; i < 2; ++i) token += Hex(static_cast<uint64_t>(draw()) << 32 | draw());
    *root = {};
    const std::string text = kMark + token;
    std::memcpy(root->internal, text.data(), text.size());
  });
}

HCCL HcclCommInitRootInfo(uint32_t size, const RootInfo* root, uint32_t rank, void** comm) {
  return Guarded("HcclCommInitRootInfo", [=] { JoinByRoot(size, root, rank, nullptr, comm); });
}

HCCL HcclCommInitRootInfoConfig(uint32_t size, const RootInfo* root, uint32_t rank,
                                const Config* config, void** comm) {
  return Guarded("HcclCommInitRootInfoConfig", [=] {
    RequirePointer("config", config);
    JoinByRoot(size, root, rank, config, comm);
  });
}

HCCL HcclCommInitClusterInfo(const char* path, uint32_t rank, void** comm) {
  return Guarded("HcclCommInitClusterInfo", [=] { JoinByTable(path, rank, nullptr, comm); });
}

HCCL HcclCommInitClusterInfoConfig(const char* path, uint32_t rank, Config* config, void** comm) {
  return Guarded("HcclCommInitClusterInfoConfig", [=] {
    RequirePointer("config", config);
    JoinByTable(path, rank, config, comm);
  });
}

HCCL HcclCreateSubCommConfig(void** comm, uint32_t size, uint32_t* ranks, uint64_t identity,
                             uint32_t rank, Config* config, void** sub) {
  return Guarded("HcclCreateSubCommConfig", [=] {
    RequirePointer("comm", comm);
    RequirePointer("subComm", sub);
    const auto whole = Find(*comm);
    // A worker that is none of it gets none.
    if (ranks == nullptr && size == 0) {
      *sub = nullptr;
      return;
    }
    RequirePointer("rankIds", ranks);
    const std::string id = Hex(identity);
    const std::set<uint32_t> members(ranks, ranks + size);
    if (members.size() != size || *members.rbegin() >= whole->size()) {
      throw Failure(kParameter,
                    "rankIds must be different workers below " + std::to_string(whole->size()));
    }
    if (rank >= size || ranks[rank] != whole->rank()) {
      throw Failure(kParameter,
                    "rankIds[subCommRankId] must be this worker, " + std::to_string(whole->rank()));
    }
    Join({whole->token().substr(0, 32) + "." + id, NameIn(config, "hccl_" + id.substr(8)), rank,
          size, 0},
         sub);
  });
}

HCCL HcclCommDestroy(void* comm) {
  return Guarded("HcclCommDestroy", [=] { Destroy(comm); });
}

HCCL HcclGetRankId(void* comm, uint32_t* rank) {
  return Guarded("HcclGetRankId", [=] {
    RequirePointer("rank", rank);
    *rank = Find(comm)->rank();
  });
}

HCCL HcclGetRankSize(void* comm, uint32_t* size) {
  return Guarded("HcclGetRankSize", [=] {
    RequirePointer("rankSize", size);
    *size = Find(comm)->size();
  });
}

HCCL HcclGetCommName(void* comm, char* name) {
  return Guarded("HcclGetCommName", [=] {
    RequirePointer("commName", name);
    const std::string own = Find(comm)->name();
    const size_t length = std::min(own.size(), kNameBytes - 1);
    std::memcpy(name, own.data(), length);
    name[length] = '\0';
  });
}

HCCL HcclGetCommAsyncError(void* comm, Result* error) {
  return Guarded("HcclGetCommAsyncError", [=] {
    RequirePointer("asyncError", error);
    std::string what;
    *error = Find(comm)->broken(&what);
  });
}

extern "C" ACL_FUNC_VISIBILITY const char* HcclGetErrorString(Result code) {
  switch (code) {
    case kSuccess:
      return "no error";
    case kParameter:
      return "parameter error";
    case kNullPointer:
      return "null pointer";
    case kNotSupported:
      return "not supported";
    case kTimeout:
      return "timeout";
    case kCannotOpen:
      return "a file cannot be read";
    case kCannotConnect:
      return "no connection to another worker";
    case kRuntime:
      return "error of the acl runtime";
    case kRemote:
      return "error of another worker";
    default:
      return "internal error";
  }
}

// Size of the buffer, deterministic sums, the name.
extern "C" ACL_FUNC_VISIBILITY uint32_t HcclGetCommConfigCapability() { return 3; }

// 0 is deterministic sums, which these are always.
HCCL HcclSetConfig(int option, int) {
  return option == 0 ? kSuccess : Refuse("HcclSetConfig", "option " + std::to_string(option));
}

// MindSpore asks for it where there is such a thing, and goes on without it.
HCCL HcclSetGlobalCommInfo(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t) {
  return kNotSupported;
}

HCCL HcclCommResume(void*) {
  return Refuse("HcclCommResume", "a communicator that goes on after an error");
}

HCCL HcclCommWorkingDevNicSet(void*, uint32_t*, bool*, uint32_t) {
  return Refuse("HcclCommWorkingDevNicSet", "another network card");
}

HCCL HcclCommSetMemoryRange(void*, void*, size_t, size_t, uint64_t) {
  return Refuse("HcclCommSetMemoryRange", kShared);
}
HCCL HcclCommUnsetMemoryRange(void*, void*) { return Refuse("HcclCommUnsetMemoryRange", kShared); }
HCCL HcclCommActivateCommMemory(void*, void*, size_t, size_t, void*, uint64_t) {
  return Refuse("HcclCommActivateCommMemory", kShared);
}
HCCL HcclCommDeactivateCommMemory(void*, void*) {
  return Refuse("HcclCommDeactivateCommMemory", kShared);
}
