// Small operators that layers and operators call beside the kernels, as MindSpore's ops.Custom
// finds them: marks, copies and checks of Tensors whose values a graph knows only when it runs.
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "binding/custom_call.h"
#include "infer/op.h"

namespace nsa {

namespace {

// Bytes of what one index of the first axis stands for.
int64_t row_bytes(const TensorDesc& tensor) {
  int64_t bytes = dtype_size(tensor.dtype);
  for (size_t axis = 1; axis < tensor.shape.size(); ++axis) bytes *= tensor.shape[axis];
  return bytes;
}

}  // namespace

}  // namespace nsa

#pragma GCC visibility push(default)

// The output has the shape and dtype of the first input.
#define NSA_LIKE_FIRST(op)                                                              \
  extern "C" std::vector<int64_t> op##InferShape(int* ndims, int64_t** shapes, void*) { \
    return {shapes[0], shapes[0] + ndims[0]};                                           \
  }                                                                                     \
  extern "C" int op##InferType(std::vector<int> type_ids, void*) { return type_ids[0]; }

// Marks Tensors that the next operator writes; see mindspore_nsa/ops/_in_place.py. Nobody reads its
// output.
extern "C" int NsaMarkWritten(int, void**, int*, int64_t**, const char**, void*, void*) {
  return 0;
}
extern "C" std::vector<int64_t> NsaMarkWrittenInferShape(int*, int64_t**, void*) { return {1}; }
extern "C" int NsaMarkWrittenInferType(std::vector<int> type_ids, void*) { return type_ids[0]; }

// Rows of a tensor [B, ...] are copied within it: pairs [n, 2] are (to, from). MindSpore writes no
// rows of bfloat16 in place on a CPU.
extern "C" int NsaCopyRows(int, void** params, int* ndims, int64_t** shapes, const char** dtypes,
                           void*, void*) {
  nsa::TensorDesc tensor;
  nsa::set_tensor(tensor, 0, params, ndims, shapes, dtypes);
  const int64_t bytes = nsa::row_bytes(tensor);
  const auto* pairs = static_cast<const int64_t*>(params[1]);
  char* const data = static_cast<char*>(tensor.data);
  for (int64_t i = 0; i < shapes[1][0]; ++i)
    std::memmove(data + pairs[2 * i] * bytes, data + pairs[2 * i + 1] * bytes, bytes);
  return 0;
}
extern "C" std::vector<int64_t> NsaCopyRowsInferShape(int*, int64_t**, void*) { return {1}; }
extern "C" int NsaCopyRowsInferType(std::vector<int> type_ids, void*) { return type_ids[1]; }

// The prefix sums [B] of a layer's documents, int64, checked against [tokens] of anything. The text
// is the most tokens of a document, the layer's name and, for sums that were made of a mask, on a
// line of its own the sentence in place of those here.
extern "C" int NsaCheckEnds(int, void** params, int*, int64_t** shapes, const char**, void*,
                            void* extra) {
  std::string text(nsa::attr_text(extra));
  size_t digits = 0;
  const int64_t most = std::stoll(text, &digits);
  text.erase(0, digits + 1);
  const size_t line = std::min(text.find('\n'), text.size());
  const auto fail = [&](const std::string& sentence) {
    const bool own = line < text.size();
    throw std::runtime_error(text.substr(0, line) + ": " +
                             (own ? text.substr(line + 1) : sentence) + nsa::kGraphNote);
  };
  const auto* ends = static_cast<const int64_t*>(params[0]);
  const int64_t count = shapes[0][0], tokens = shapes[1][0];
  int64_t before = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (ends[i] < before) {
      fail("actual_seq_len must be non-negative and not decrease (prefix sums), got " +
           std::to_string(ends[i]) + " after " + std::to_string(before) + " at index " +
           std::to_string(i));
    }
    // Not in the mask's words: it is not what the mask says.
    if (ends[i] - before > most) {
      throw std::runtime_error(text.substr(0, line) + ": x must hold documents of at most " +
                               std::to_string(most) + " tokens, for which there are rotary " +
                               "angles, got one of " + std::to_string(ends[i] - before) +
                               nsa::kGraphNote);
    }
    before = ends[i];
  }
  if (count == 0) fail("actual_seq_len must not be empty");
  if (before != tokens) {
    fail("the last value of the prefix sums actual_seq_len must be the " + std::to_string(tokens) +
         " tokens of x, got " + std::to_string(before));
  }
  std::copy_n(ends, count, static_cast<int64_t*>(params[2]));
  return 0;
}
NSA_LIKE_FIRST(NsaCheckEnds)

// Rows of a tensor [R, ...] are written in place with values [n, ...] of its dtype; rows int64 [n],
// a negative one for values that go nowhere. MindSpore scatters into Parameters alone in a graph.
extern "C" int NsaWriteRows(int, void** params, int* ndims, int64_t** shapes, const char** dtypes,
                            void*, void*) {
  nsa::TensorDesc tensor;
  nsa::set_tensor(tensor, 0, params, ndims, shapes, dtypes);
  const int64_t bytes = nsa::row_bytes(tensor);
  const int64_t count = shapes[1][0], most = shapes[0][0];
  const auto* const rows = static_cast<const int64_t*>(params[1]);
  const auto* const values = static_cast<const char*>(params[2]);
  char* const data = static_cast<char*>(tensor.data);
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i] >= most) {
      throw std::runtime_error("rows must be below " + std::to_string(most) + ", got " +
                               std::to_string(rows[i]) + " at index " + std::to_string(i));
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i] >= 0) std::memcpy(data + rows[i] * bytes, values + i * bytes, bytes);
  }
  return 0;
}
extern "C" std::vector<int64_t> NsaWriteRowsInferShape(int*, int64_t**, void*) { return {1}; }
extern "C" int NsaWriteRowsInferType(std::vector<int> type_ids, void*) { return type_ids[1]; }

// A copy of the lengths int64 [B] of a cache's rows, if there is room for documents that end at
// int64 [B]. The text is the capacity and the layer's name.
extern "C" int NsaCheckRoom(int, void** params, int*, int64_t** shapes, const char**, void*,
                            void* extra) {
  std::string text(nsa::attr_text(extra));
  size_t digits = 0;
  const int64_t capacity = std::stoll(text, &digits);
  text.erase(0, digits + 1);
  const auto* const lengths = static_cast<const int64_t*>(params[0]);
  const auto* const ends = static_cast<const int64_t*>(params[1]);
  const int64_t rows = shapes[0][0], documents = shapes[1][0];
  if (documents != rows) {
    throw std::runtime_error(text + ": x must have " + std::to_string(rows) +
                             " rows or documents, one for every row of the cache, got " +
                             std::to_string(documents) + nsa::kGraphNote);
  }
  for (int64_t i = 0; i < rows; ++i) {
    if (lengths[i] < 0) {
      throw std::runtime_error(text + ": cache must have lengths >= 0, got " +
                               std::to_string(lengths[i]) + " in row " + std::to_string(i) +
                               nsa::kGraphNote);
    }
    // A cache's length may be any number: the sum could overflow int64.
    const int64_t count = ends[i] - (i > 0 ? ends[i - 1] : 0);
    const int64_t after = lengths[i] + std::min(count, INT64_MAX - lengths[i]);
    if (after > capacity || lengths[i] > capacity) {
      throw std::runtime_error(text + ": cache must have room for the tokens of x, its capacity " +
                               "is " + std::to_string(capacity) + ", got " + std::to_string(after) +
                               " tokens in row " + std::to_string(i) + nsa::kGraphNote);
    }
  }
  std::copy_n(lengths, rows, static_cast<int64_t*>(params[2]));
  return 0;
}
NSA_LIKE_FIRST(NsaCheckRoom)

// A list int64 [n] of a packed tensor [T, ...], or of the rows of one [B, S, ...]. The text is
// "sums" or "lengths", the sentence up to the number T or S, and the rest of it, a line each.
extern "C" int NsaCheckList(int, void** params, int*, int64_t** shapes, const char**, void*,
                            void* extra) {
  const std::string text(nsa::attr_text(extra));
  const size_t first = text.find('\n'), second = text.find('\n', first + 1);
  const bool sums = text.substr(0, first) == "sums";
  const int64_t count = shapes[0][0], most = shapes[1][sums ? 0 : 1];
  const auto* const list = static_cast<const int64_t*>(params[0]);
  bool right = !sums || (count > 0 && list[0] == 0 && list[count - 1] <= most);
  std::string shown = "[";
  for (int64_t i = 0; i < count; ++i) {
    right = right && (sums ? i == 0 || list[i - 1] <= list[i] : 0 <= list[i] && list[i] <= most);
    if (shown.size() < 80) shown += (i > 0 ? ", " : "") + std::to_string(list[i]);
  }
  if (!right) {
    throw std::runtime_error(text.substr(first + 1, second - first - 1) + std::to_string(most) +
                             text.substr(second + 1) + ", got " + (shown + "]").substr(0, 80) +
                             " (list)" + nsa::kGraphNote);
  }
  std::copy_n(list, count, static_cast<int64_t*>(params[2]));
  return 0;
}
NSA_LIKE_FIRST(NsaCheckList)

// Two operators of one input and an output like it, for an input that has no gradient: the
// identity, and its gradient, which is an error. In a graph the error comes only if the gradient is
// used, because an unused operator is never run.
extern "C" int NsaWithoutGradient(int, void** params, int* ndims, int64_t** shapes,
                                  const char** dtypes, void*, void*) {
  nsa::TensorDesc input;
  nsa::set_tensor(input, 0, params, ndims, shapes, dtypes);
  int64_t bytes = nsa::dtype_size(input.dtype);
  for (int64_t size : input.shape) bytes *= size;
  std::memcpy(params[1], params[0], bytes);
  return 0;
}
NSA_LIKE_FIRST(NsaWithoutGradient)
extern "C" int NsaRefuseGradient(int, void**, int*, int64_t**, const char**, void*, void* extra) {
  throw std::runtime_error(std::string(nsa::attr_text(extra)) + nsa::kGraphNote);
}
NSA_LIKE_FIRST(NsaRefuseGradient)

#pragma GCC visibility pop
