// Stores that pass by the caches, for outputs too large to be found there again.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nsa::cpu {
namespace {

#if defined(__x86_64__)
// One line, dst aligned to it: with the widest vectors, since a core stores one per cycle at most.
inline void stream_line(char* dst, const char* src) {
#ifdef __AVX512F__
  _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), _mm512_loadu_si512(src));
#else
  for (int64_t at = 0; at < 64; at += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(dst + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + at)));
#endif
}

// dst[0..bytes) = src[0..bytes). A normal store first reads the line that it changes, which is a
// third of a copy's traffic; these do not, where they cover whole lines, so the ends are copied.
inline void stream_copy(char* dst, const char* src, int64_t bytes) {
  constexpr int64_t kLine = 64;
  const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(dst) % kLine);
  int64_t i = past == 0 ? 0 : kLine - past;
  if (i > bytes) i = bytes;
  __builtin_memcpy(dst, src, static_cast<size_t>(i));
  for (; i + kLine <= bytes; i += kLine) stream_line(dst + i, src + i);
  __builtin_memcpy(dst + i, src + i, static_cast<size_t>(bytes - i));
}

// Orders the streamed stores of this thread before whatever tells others that they are done.
inline void stream_fence() { _mm_sfence(); }
#else
inline void stream_copy(char* dst, const char* src, int64_t bytes) {
  __builtin_memcpy(dst, src, static_cast<size_t>(bytes));
}
inline void stream_fence() {}
#endif

}  // namespace
}  // namespace nsa::cpu
