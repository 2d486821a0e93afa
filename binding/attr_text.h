// Attributes of an operator as one line of text: "causal=i1;scale_value=f0.125;importance=scann".
//
// MindSpore narrows float attributes to float32 and costs a lookup and a string per attribute and
// call; one string attribute keeps doubles exact and is parsed once.
#pragma once

#include <string_view>

#include "infer/op.h"

namespace nsa {

// Throws std::invalid_argument where the text is malformed.
Attrs parse_attrs(std::string_view text);

}  // namespace nsa
