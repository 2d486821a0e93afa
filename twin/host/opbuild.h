// The generator: what CANN's op_build makes of the definitions that are linked in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "twin/device/where.h"
#include "twin/host/op_spec.h"

namespace twin {

// Declaration and documentation of the aclnn functions of an operator: aclnn_<op>.h.
std::string AclnnHeader(const OpSpec& spec);
// Their definition.
std::string AclnnSource(const OpSpec& spec);
// All of them as data: the elements of a list, in braces, whose types AclnnFunction,
// AclnnParameter, AclnnRole, AclnnKind and AclnnValue the program that includes it declares.
std::string AclnnFunctionList(const std::vector<const OpSpec*>& specs);
// The kernel of one combination of dtypes, and its registration. `kernel_file`: how the file with
// the kernel's entry is included.
std::string KernelSource(const OpSpec& spec, size_t combination, const std::string& kernel_file);

// Writes, for every operator whose kernels are not linked in, include/aclnnop/aclnn_<op>.h,
// aclnn_<file>.cc and, for every combination of dtypes, <file>_kernel_<number>.cc below `folder`,
// and aclnn_functions.inc for all of them; a file that would not change stays as it is, and other
// headers in that folder are removed. <op> is the type in snake_case, <file> the name of the
// kernel's file. Kernel entries are included as <kernel_prefix><file>/op_kernel/<file>.cpp. A build
// that has to know its units before the definitions are compiled names their number, `units` > 0
// for each operator: those that an operator has no combination for are empty. Throws
// std::exception, also where a definition has more combinations than that.
TWIN_API void WriteOperators(const std::string& folder, const std::string& kernel_prefix,
                             size_t units = 0);

}  // namespace twin
