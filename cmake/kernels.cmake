# nsa_infer: shape and dtype rules. nsa_cpu: kernels. nsa_calls: operator name -> checks -> kernel.
file(GLOB infer_sources CONFIGURE_DEPENDS infer/*.cc)
add_library(nsa_infer STATIC ${infer_sources})
target_link_libraries(nsa_infer PUBLIC nsa_flags)

file(GLOB_RECURSE cpu_sources CONFIGURE_DEPENDS cpu/*.cc)
list(FILTER cpu_sources EXCLUDE REGEX "/cpu/dispatch/isa_[a-z0-9]+\\.cc$")

# One unit per instruction set, with its own flags. The probe that chooses among them has none.
# The portable one is the largest at -O3 and hardly ever runs: at -O2 a wheel is 0.2 MB smaller.
# (Sanitizers have a level of their own.)
set(isa_names isa_scalar)
if(NOT NSA_SANITIZE AND NOT NSA_O1)
  set(isa_scalar_flags -O2)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(avx2 -mavx2 -mfma -mf16c)
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  list(APPEND isa_names isa_avx2)
  set(isa_avx2_flags ${avx2})
  if(NSA_AVX512)
    list(APPEND isa_names isa_avx512 isa_avx512bf16 isa_avx512amx)
    set(isa_avx512_flags ${avx512})
    set(isa_avx512bf16_flags ${avx512} -mavx512bf16)
    set(isa_avx512amx_flags ${isa_avx512bf16_flags} -mamx-tile -mamx-bf16)
  else()
    set_property(SOURCE cpu/dispatch/dispatch.cc APPEND PROPERTY COMPILE_DEFINITIONS NSA_WITHOUT_AVX512)
  endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND isa_names isa_neon)
endif()
if(NSA_ONE_ISA)
  set(isa_names "isa_${NSA_ONE_ISA}")
  set(isa_scalar_flags)
  set_property(SOURCE cpu/dispatch/dispatch.cc APPEND PROPERTY COMPILE_DEFINITIONS
    "NSA_ONE_TABLE=kernels_${NSA_ONE_ISA}")
endif()
# Without exceptions a unit needs no personality routine, its only weak symbol. GCC 12 warns about
# the undefined registers inside its own AVX-512 headers, and about paths that exist only in its copies
# of inlined functions: a factor per row where there is none, a tail of 2^62 elements. The loops of
# products are some 240 bytes long and fit four lines of the decoded instructions, not five.
set(isa_common -fno-exceptions -fno-trapping-math -falign-loops=64)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND isa_common -Wno-maybe-uninitialized -Wno-uninitialized -Wno-array-bounds
       -Wno-aggressive-loop-optimizations)
endif()
set(isa_units)
foreach(name IN LISTS isa_names)
  list(APPEND isa_units "cpu/dispatch/${name}.cc")
endforeach()
# The AMX kernels once more, on a model of the tile instructions, which spends its time in loops over
# a tile's numbers: g++ takes 19 s at -O1 and 47 s at -O3. (Sanitizers have a level of their own.)
if(NSA_REPLAY AND NSA_AMX_MODEL AND isa_avx512amx_flags)
  list(APPEND isa_units tests/native/isa_amx_model.cc)
  set(isa_amx_model_flags ${isa_avx512bf16_flags})
  if(NOT NSA_SANITIZE)
    list(APPEND isa_amx_model_flags -O1)
  endif()
  set_property(SOURCE cpu/dispatch/dispatch.cc APPEND PROPERTY COMPILE_DEFINITIONS NSA_AMX_MODEL)
endif()
# On a processor without AVX-512 its units may be compiled for AVX2, with a model of its instructions.
if(NSA_AVX512_MODEL)
  set(model ${avx2} -include "${CMAKE_CURRENT_SOURCE_DIR}/tests/native/avx512_model.h" -O1
      -Wno-psabi -Wno-unused-parameter)
  set(isa_avx512_flags ${model})
  set(isa_avx512bf16_flags ${model} -DNSA_AVX512_MODEL_BF16)
  set(isa_amx_model_flags ${isa_avx512bf16_flags})
  set_property(SOURCE cpu/dispatch/dispatch.cc APPEND PROPERTY COMPILE_DEFINITIONS NSA_AVX512_MODEL)
  list(REMOVE_ITEM isa_units cpu/dispatch/isa_avx512amx.cc)  # cannot run there
endif()
foreach(file IN LISTS isa_units)
  get_filename_component(name "${file}" NAME_WE)
  set(unit "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  list(APPEND cpu_sources "${unit}")
  set_source_files_properties("${unit}" PROPERTIES COMPILE_OPTIONS "${${name}_flags};${isa_common}")
endforeach()

add_library(nsa_cpu STATIC ${cpu_sources})
target_link_libraries(nsa_cpu PUBLIC nsa_flags nsa_infer OpenMP::OpenMP_CXX)

file(GLOB call_sources CONFIGURE_DEPENDS binding/op_call.cc binding/bind_*.cc
  binding/generated/*.cc)
add_library(nsa_calls STATIC ${call_sources})
target_link_libraries(nsa_calls PUBLIC nsa_infer nsa_cpu)
