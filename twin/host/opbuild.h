// The generator: what CANN's op_build makes of the definitions that are linked in.
#pragma once

#include <cstdint>
#include <string>

#include "twin/device/where.h"
#include "twin/host/op_spec.h"

namespace twin {

// Declaration and documentation of the aclnn functions of an operator: aclnn_<op>.h.
std::string AclnnHeader(const OpSpec& spec);
// Their definition.
std::string AclnnSource(const OpSpec& spec);
// The kernel of one combination of dtypes, and its registration. `kernel_file`: how the file with
// the kernel's entry is included.
std::string KernelSource(const OpSpec& spec, size_t combination, const std::string& kernel_file);

// Writes, for every operator whose kernels are not linked in, include/aclnnop/aclnn_<op>.h,
// aclnn_<op>.cc and, for every combination of dtypes, <op>_kernel_<number>.cc below `folder`; a
// file that would not change stays as it is. Kernel entries are included as
// <kernel_prefix><op>/op_kernel/<op>.cpp. Throws std::exception, also where a definition has more
// than `most_combinations`: a build that lists its units beforehand would leave some out.
TWIN_API void WriteOperators(const std::string& folder, const std::string& kernel_prefix,
                             size_t most_combinations = SIZE_MAX);

}  // namespace twin
