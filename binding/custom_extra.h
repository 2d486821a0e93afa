// MindSpore's AotExtra behind a plain C function: the one thing that crosses the border between
// the two layouts of std::string.
#pragma once

#include <cstddef>

// Copies the string attribute `name` into `buffer` (at most `capacity` bytes) and returns its full
// length. `extra` is the AotExtra* that MindSpore gives to every function of a Custom operator.
extern "C" std::size_t nsa_custom_string_attr(void* extra, const char* name, char* buffer,
                                              std::size_t capacity);
