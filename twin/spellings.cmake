# Headers by the other names that CANN's versions give them. What they declare is in kernel_operator.h
# here, or in lib/matmul_intf.h; each is written as one line that includes it.

# nsa_spellings(HEADER PREFIXES ... NAMES ...): every name behind every prefix. "-" is no prefix.
function(nsa_spellings header)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PREFIXES;NAMES")
  foreach(prefix IN LISTS arg_PREFIXES)
    string(REGEX REPLACE "^-$" "" prefix "${prefix}")
    foreach(name IN LISTS arg_NAMES)
      file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/include/${prefix}${name}.h"
        CONTENT "#include \"${header}\"\n" @ONLY)
    endforeach()
  endforeach()
endfunction()

set(basic - basic_api/ basic_api/interface/)
nsa_spellings(kernel_operator.h PREFIXES ${basic} NAMES
  kernel_basic_intf kernel_cube_intf kernel_vec_intf kernel_operator_intf kernel_common kernel_event
  kernel_log kernel_macros kernel_tpipe kernel_type kernel_utils
  kernel_struct_binary kernel_struct_brcb kernel_struct_data_copy kernel_struct_fixpipe
  kernel_struct_gather kernel_struct_mm kernel_struct_proposal kernel_struct_transpose
  kernel_struct_unary
  kernel_operator_block_sync_intf kernel_operator_common_intf kernel_operator_data_copy_intf
  kernel_operator_determine_compute_sync_intf kernel_operator_dump_tensor_intf
  kernel_operator_fixpipe_intf kernel_operator_mm_intf kernel_operator_proposal_intf
  kernel_operator_scalar_intf kernel_operator_set_atomic_intf kernel_operator_sys_var_intf
  kernel_operator_utils_intf
  kernel_operator_vec_binary_intf kernel_operator_vec_binary_scalar_intf
  kernel_operator_vec_brcb_intf kernel_operator_vec_cmpsel_intf
  kernel_operator_vec_createvecindex_intf kernel_operator_vec_duplicate_intf
  kernel_operator_vec_gather_intf kernel_operator_vec_gather_mask_intf
  kernel_operator_vec_mulcast_intf kernel_operator_vec_reduce_intf
  kernel_operator_vec_ternary_scalar_intf kernel_operator_vec_transpose_intf
  kernel_operator_vec_unary_intf kernel_operator_vec_vconv_intf)
nsa_spellings(kernel_operator.h PREFIXES basic_api/ basic_api/interface/ NAMES
  kernel_operator_list_tensor_intf kernel_tensor)
# By its path: beside one of the same name a quoted include would find itself.
nsa_spellings(twin/include/kernel_operator.h PREFIXES ascendc/basic_api/ basic_api/ NAMES kernel_operator)
nsa_spellings(kernel_operator.h PREFIXES impl/dav_c220/ NAMES kernel_operator_reg_others_impl)
# Kernels include these where __CCE_KT_TEST__ is defined.
nsa_spellings(kernel_operator.h PREFIXES - NAMES stub_def stub_fun)
nsa_spellings(kernel_operator.h PREFIXES lib/ adv_api/ NAMES
  kernel_api
  activation/softmax activation/softmaxflashv2 activation/softmaxgrad activation/simplesoftmax
  activation/kernel_operator_softmax_intf activation/kernel_operator_softmax_flashv2_intf
  activation/kernel_operator_softmax_grad_intf activation/kernel_operator_simple_softmax_intf
  activation/sigmoid activation/kernel_operator_sigmoid_intf
  activation/silu activation/kernel_operator_silu_intf
  filter/dropout filter/kernel_operator_dropout_intf
  index/arithprogression index/kernel_operator_arithprogression_intf
  math/cumsum math/kernel_operator_cumsum_intf
  math/log math/kernel_operator_log_intf
  pad/broadcast
  reduce/reduce reduce/sum reduce/kernel_operator_sum_intf
  select/selectwithbytesmask select/kernel_operator_selectwithbytesmask_intf
  sort/topk sort/kernel_operator_topk_intf
  transpose/confusion_transpose transpose/kernel_operator_confusion_transpose_intf
  utils/init_global_memory)
nsa_spellings(kernel_operator.h PREFIXES lib/std/ utils/std/ NAMES
  algorithm tuple type_traits utility)
nsa_spellings(lib/matmul_intf.h PREFIXES lib/matmul/ lib/matrix/matmul/ adv_api/matmul/ NAMES
  constant_tiling matmul matmul_config matmul_intf tiling)
