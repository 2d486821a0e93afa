// Why a Custom failed, as a code: MindSpore hands on the text of an exception and nothing else.
#pragma once

#include <stdexcept>
#include <string>

namespace nsa {

enum class FailureCode {
  kNone,
  kWrittenCast,  // an input that is written is a copy of another dtype
  kOther,
};

struct Failure {
  FailureCode code = FailureCode::kNone;
  std::string text;
};

// The last one of the process; whoever asks compares the text with that of the error at hand.
Failure last_failure();

class WrittenCast : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

}  // namespace nsa
