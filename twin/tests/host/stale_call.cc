// The first phase of ScaleAdd, as it was generated before `way` became an int.
#include "twin/host/op_call.h"

extern "C" int stale_call() {
  const aclTensor* tensor = nullptr;
  const aclIntArray* ints = nullptr;
  const aclFloatArray* floats = nullptr;
  const aclBoolArray* bools = nullptr;
  const char* text = nullptr;
  twin::OpCall call("aclnnScaleAddGetWorkspaceSize", "ScaleAdd");
  call.Input("x", tensor).Input("zValueOptional", tensor).Input("stepListOptional", ints);
  call.Attr("a", 1.5).Attr("b", 1.0).Attr("negate", false);
  call.Attr("offsetsOptional", floats).Attr("weightsOptional", ints).Attr("usedOptional", bools);
  call.Attr("way", 1.0).Attr("modeOptional", text);
  call.Output("yOut", tensor).Output("blockCountOut", tensor);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  return call.Prepare(&size, &executor);
}
