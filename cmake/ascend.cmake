# libmindspore_nsa_twin.so: the Ascend operators compiled against the twin, with their aclnn functions.
# nsa_opbuild writes those, and the units of the kernels, from the operators' definitions.
add_subdirectory(twin)
set(generated "${CMAKE_CURRENT_BINARY_DIR}/ascendc")

add_library(nsa_ascendc_flags INTERFACE)
target_link_libraries(nsa_ascendc_flags INTERFACE nsa_flags ascendc_twin)
target_include_directories(nsa_ascendc_flags INTERFACE ascendc/op_api/include "${generated}"
  "${generated}/include")
# Errors name files as the repository does, wherever it was built; gdb still finds the sources.
target_compile_options(nsa_ascendc_flags INTERFACE
  -g1 "-fmacro-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}/=")

# An operator is a folder with op_kernel, whose kernel's file, like that of its host side, is named
# after the folder.
# The other folders hold what operators share.
file(GLOB kernel_folders CONFIGURE_DEPENDS ascendc/*/op_kernel)
foreach(folder IN LISTS kernel_folders)
  cmake_path(GET folder PARENT_PATH folder)
  cmake_path(GET folder FILENAME op)
  list(APPEND operators "${op}")
endforeach()
file(GLOB op_host_sources CONFIGURE_DEPENDS ascendc/*/op_host/*.cpp)
add_library(nsa_op_host OBJECT ${op_host_sources})
target_link_libraries(nsa_op_host PUBLIC nsa_ascendc_flags nsa_infer)
target_compile_options(nsa_op_host PRIVATE -O2)
target_precompile_headers(nsa_op_host PRIVATE <algorithm> <cstring> <functional> <map> <memory>
  <string> <vector>)

add_executable(nsa_opbuild "${ascendc_twin_opbuild}")
target_link_libraries(nsa_opbuild PRIVATE nsa_op_host nsa_infer ascendc_twin)

# A kernel is a unit for each combination of dtypes. How many an operator has is in its definition,
# which is compiled later than this is read, so every operator has as many units as the largest; the
# generator leaves the rest empty.
set(units 12)
math(EXPR last_unit "${units} - 1")
foreach(op IN LISTS operators)
  list(APPEND aclnn_sources "${generated}/aclnn_${op}.cc")
  foreach(unit RANGE ${last_unit})
    list(APPEND kernel_sources "${generated}/${op}_kernel_${unit}.cc")
  endforeach()
endforeach()
set(generated_files ${aclnn_sources} ${kernel_sources} "${generated}/aclnn_functions.inc")
add_custom_command(
  OUTPUT ${generated_files}
  COMMAND nsa_opbuild "${generated}" ascendc/ ${units}
  DEPENDS nsa_opbuild
  COMMENT "Generating the aclnn functions" VERBATIM)
add_custom_target(nsa_ascendc_generated DEPENDS ${generated_files})

# Descriptions of the functions' arguments. Python's module links them too, so they carry no line
# tables: those name the folder of the build.
add_library(nsa_aclnn_functions OBJECT ascendc/op_api/aclnn_function.cc)
set_source_files_properties(ascendc/op_api/aclnn_function.cc PROPERTIES COMPILE_OPTIONS "-g0")
target_link_libraries(nsa_aclnn_functions PUBLIC nsa_ascendc_flags)
add_dependencies(nsa_aclnn_functions nsa_ascendc_generated)

# With aclnn functions under CANN's own names, which the package for CANN does not have.
add_library(nsa_ascend_operators SHARED ${aclnn_sources} ${kernel_sources}
  ascendc/op_api/forward.cc ascendc/op_api/functions.cc)
target_link_libraries(nsa_ascend_operators PRIVATE nsa_op_host nsa_aclnn_functions nsa_ascendc_flags
  nsa_infer)
add_dependencies(nsa_ascend_operators nsa_ascendc_generated)
# Headers that the generator puts before a kernel.
target_precompile_headers(nsa_ascend_operators PRIVATE <algorithm> <array> <cmath> <cstddef> <cstdint>
  <cstring> <initializer_list> <limits> <tuple> <type_traits> <utility> ${ascendc_twin_kernel_headers})
set_source_files_properties(${aclnn_sources} ascendc/op_api/forward.cc ascendc/op_api/functions.cc
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
# A check and a count of every access take the time, not the arithmetic.
set_source_files_properties(${kernel_sources} ${aclnn_sources} PROPERTIES COMPILE_OPTIONS "-O1")
# The twin's library is loaded before; a program in C++ finds it beside this package, where it was
# installed, or in the sources.
set_target_properties(nsa_ascend_operators PROPERTIES OUTPUT_NAME mindspore_nsa_twin
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../../ascendc_twin;$ORIGIN/../../twin/ascendc_twin")
target_link_options(nsa_ascend_operators PRIVATE -Wl,--gc-sections -Wl,-z,defs
  "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/ascend.map")
set_property(TARGET nsa_ascend_operators PROPERTY LINK_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/cmake/ascend.map")

# The operators as CANN installs a package of them, for MindSpore's device Ascend on the twin: a
# library that needs theirs.
file(CONFIGURE OUTPUT "${generated}/cust_opapi.cc" CONTENT "" @ONLY)
add_library(nsa_cust_opapi SHARED "${generated}/cust_opapi.cc")
target_link_libraries(nsa_cust_opapi PRIVATE nsa_flags -Wl,--no-as-needed nsa_ascend_operators)
set_target_properties(nsa_cust_opapi PROPERTIES OUTPUT_NAME cust_opapi
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/cann"
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../../..")

set(CMAKE_INSTALL_MESSAGE NEVER)
# `cmake --install . --component operators --prefix FOLDER`: the library, and the functions' headers.
install(TARGETS nsa_ascend_operators LIBRARY DESTINATION . COMPONENT operators)
install(DIRECTORY "${generated}/include/" ascendc/op_api/include/ DESTINATION include
  COMPONENT operators)
install(TARGETS nsa_cust_opapi LIBRARY DESTINATION cann/op_api/lib COMPONENT operators)
install(DIRECTORY "${generated}/include/aclnnop/" DESTINATION cann/op_api/include
  COMPONENT operators)
