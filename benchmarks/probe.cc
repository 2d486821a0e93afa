// Points of measurement for `python -m benchmarks`, compiled by it when it runs: every operator's
// native function with a clock around it, functions that do nothing or only read, and a parallel
// copy.
#include <dlfcn.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void* library = nullptr;
double seconds = 0;

// Source of Reader: the next piece at every call.
struct Source {
  const uint64_t* data;
  int64_t bytes, piece, at;
  int threads;
} source;
volatile uint64_t total_read = 0;

template <class Function>
Function* find(const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("no symbol ") + name);
  return function;
}

using Shape = std::vector<int64_t>;
using Kernel = int(int, void**, int*, int64_t**, const char**, void*, void*);
template <class Result>
using InferShape = Result(int*, int64_t**, void*);
template <class Result>
using InferType = Result(std::vector<int>, void*);

constexpr int kFloat32 = 43;  // MindSpore's TypeId

std::vector<Shape> empty_shapes(size_t outputs, const int* ndims, int64_t** shapes) {
  std::vector<Shape> result(outputs, Shape{1});
  result[0].assign(shapes[0], shapes[0] + ndims[0]);
  return result;
}

}  // namespace

extern "C" {

int nsa_probe_open(const char* path) {
  library = dlopen(path, RTLD_NOW);
  return library != nullptr;
}

// Time spent in the native function of the last call.
double nsa_probe_seconds() { return seconds; }

// Copies in pieces of `piece` bytes, which decides how memcpy stores them.
void nsa_probe_copy(char* to, const char* from, int64_t bytes, int64_t piece, int threads) {
#pragma omp parallel num_threads(threads)
  {
    const int64_t share = bytes / omp_get_num_threads();
    const int64_t end = share * (omp_get_thread_num() + 1);
    for (int64_t at = end - share; at < end; at += piece) {
      std::memcpy(to + at, from + at, std::min(piece, end - at));
    }
  }
}

// Reads everything once; gives a sum, so that no compiler leaves it out.
uint64_t nsa_probe_read(const uint64_t* from, int64_t bytes, int threads) {
  uint64_t total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  {
    const int64_t share = bytes / 8 / omp_get_num_threads();
    const uint64_t* part = from + share * omp_get_thread_num();
    for (int64_t i = 0; i < share; ++i) total += part[i];
  }
  return total;
}

void nsa_probe_source(const uint64_t* data, int64_t bytes, int64_t piece, int threads) {
  source = {data, bytes, piece, 0, threads};
}

// The output is like the first input.
int Reader(int, void**, int*, int64_t**, const char**, void*, void*) {
  if (source.at + source.piece > source.bytes) source.at = 0;
  total_read = nsa_probe_read(source.data + source.at / 8, source.piece, source.threads);
  source.at += source.piece;
  return 0;
}
Shape ReaderInferShape(int* ndims, int64_t** shapes, void*) {
  return empty_shapes(1, ndims, shapes)[0];
}
int ReaderInferType(std::vector<int> types, void*) { return types[0]; }

#define TIMED(op)                                                                              \
  int op(int count, void** params, int* ndims, int64_t** shapes, const char** dtypes,          \
         void* stream, void* extra) {                                                          \
    static Kernel* const kernel = find<Kernel>(#op);                                           \
    const auto begin = std::chrono::steady_clock::now();                                       \
    const int status = kernel(count, params, ndims, shapes, dtypes, stream, extra);            \
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); \
    return status;                                                                             \
  }

#define TIMED_INFER(op, shape, type)                                        \
  shape op##InferShape(int* ndims, int64_t** shapes, void* extra) {         \
    return find<InferShape<shape>>(#op "InferShape")(ndims, shapes, extra); \
  }                                                                         \
  type op##InferType(std::vector<int> types, void* extra) {                 \
    return find<InferType<type>>(#op "InferType")(types, extra);            \
  }

#define TIMED_MORE_OUTPUTS(op) \
  TIMED(op)                    \
  TIMED_INFER(op, std::vector<Shape>, std::vector<int>)

TIMED(NsaCompress)
TIMED_INFER(NsaCompress, Shape, int)
TIMED_MORE_OUTPUTS(NsaCompressGrad)
TIMED_MORE_OUTPUTS(NsaCompressAttention)
TIMED_MORE_OUTPUTS(NsaSelectedAttention)
TIMED_MORE_OUTPUTS(NsaSelectedAttentionGrad)
TIMED_MORE_OUTPUTS(FlashAttentionScore)
TIMED_MORE_OUTPUTS(FlashAttentionScoreGrad)
TIMED(NsaCompressWithCache)
TIMED_INFER(NsaCompressWithCache, Shape, int)
TIMED_MORE_OUTPUTS(NsaCompressAttentionInfer)
TIMED(NsaSelectedAttentionInfer)
TIMED_INFER(NsaSelectedAttentionInfer, Shape, int)
TIMED(NsaDecode)
TIMED_INFER(NsaDecode, Shape, int)
TIMED(BlockIndexer)
TIMED_INFER(BlockIndexer, Shape, int)
TIMED_MORE_OUTPUTS(LightningIndexer)
TIMED_MORE_OUTPUTS(LightningIndexerGrad)
TIMED_MORE_OUTPUTS(SparseFlashAttention)
TIMED_MORE_OUTPUTS(SparseFlashAttentionGrad)
TIMED_MORE_OUTPUTS(SparseLightningIndexerGradKLLoss)
TIMED_MORE_OUTPUTS(DenseLightningIndexerGradKLLoss)
TIMED_MORE_OUTPUTS(DenseLightningIndexerSoftmaxLse)

// The first output is like the first input, the others have one element.
#define EMPTY_KERNEL(name) \
  int name(int, void**, int*, int64_t**, const char**, void*, void*) { return 0; }

#define EMPTY_MORE_OUTPUTS(name, outputs)                                    \
  EMPTY_KERNEL(name)                                                         \
  std::vector<Shape> name##InferShape(int* ndims, int64_t** shapes, void*) { \
    return empty_shapes(outputs, ndims, shapes);                             \
  }                                                                          \
  std::vector<int> name##InferType(std::vector<int> types, void*) {          \
    std::vector<int> result(outputs, kFloat32);                              \
    result[0] = types[0];                                                    \
    return result;                                                           \
  }

EMPTY_KERNEL(Empty1)
Shape Empty1InferShape(int* ndims, int64_t** shapes, void*) {
  return empty_shapes(1, ndims, shapes)[0];
}
int Empty1InferType(std::vector<int> types, void*) { return types[0]; }
EMPTY_MORE_OUTPUTS(Empty2, 2)
EMPTY_MORE_OUTPUTS(Empty3, 3)
EMPTY_MORE_OUTPUTS(Empty4, 4)
EMPTY_MORE_OUTPUTS(Empty5, 5)
EMPTY_MORE_OUTPUTS(Empty6, 6)

}  // extern "C"
