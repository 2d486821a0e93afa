# libmindspore_nsa_twin.so: the CPU twin of Ascend C, and the Ascend operators on it with their aclnn
# functions. nsa_opbuild writes those, and the units of the kernels, from the operators' definitions.
set(twin_root "${CMAKE_CURRENT_SOURCE_DIR}/twin")
set(twin_generated "${CMAKE_CURRENT_BINARY_DIR}/twin")

add_library(nsa_twin_flags INTERFACE)
target_link_libraries(nsa_twin_flags INTERFACE nsa_flags)
target_include_directories(nsa_twin_flags INTERFACE "${twin_root}/include")
# Errors name files as the repository does, wherever it was built; gdb still finds the sources.
target_compile_options(nsa_twin_flags INTERFACE
  -g1 "-fmacro-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}/=")

foreach(part clock device vector adv cube host)
  file(GLOB found CONFIGURE_DEPENDS twin/${part}/*.cc)
  list(APPEND twin_sources ${found})
endforeach()
list(FILTER twin_sources EXCLUDE REGEX "/opbuild_main\\.cc$")
add_library(nsa_twin_runtime STATIC ${twin_sources})
target_link_libraries(nsa_twin_runtime PUBLIC nsa_twin_flags)
target_compile_options(nsa_twin_runtime PRIVATE -O2)

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
target_link_libraries(nsa_op_host PUBLIC nsa_twin_flags nsa_infer)
target_compile_options(nsa_op_host PRIVATE -O2)

add_executable(nsa_opbuild twin/host/opbuild_main.cc)
target_link_libraries(nsa_opbuild PRIVATE nsa_op_host nsa_twin_runtime nsa_infer)

# A kernel is a unit for each combination of dtypes. How many an operator has is in its definition,
# which is compiled later than this is read, so every operator has as many units as the largest; the
# generator leaves the rest empty.
set(twin_units 12)
math(EXPR twin_last_unit "${twin_units} - 1")
foreach(op IN LISTS operators)
  list(APPEND aclnn_sources "${twin_generated}/aclnn_${op}.cc")
  foreach(unit RANGE ${twin_last_unit})
    list(APPEND kernel_sources "${twin_generated}/${op}_kernel_${unit}.cc")
  endforeach()
endforeach()
set(aclnn_functions "${twin_generated}/aclnn_functions.cc")
add_custom_command(
  OUTPUT ${aclnn_sources} ${kernel_sources} ${aclnn_functions}
  COMMAND nsa_opbuild "${twin_generated}" ascendc/ ${twin_units}
  DEPENDS nsa_opbuild
  COMMENT "Generating the aclnn functions" VERBATIM)
add_custom_target(nsa_twin_generated DEPENDS ${aclnn_sources} ${kernel_sources} ${aclnn_functions})

# aclnn functions under CANN's own names, which the package for CANN does not have.
file(GLOB built_in_sources CONFIGURE_DEPENDS twin/built_in/*.cc)
add_library(nsa_twin SHARED ${aclnn_sources} ${kernel_sources} ${built_in_sources} ${aclnn_functions}
  $<TARGET_OBJECTS:nsa_op_host>)
target_include_directories(nsa_twin PRIVATE "${twin_generated}/include")
add_dependencies(nsa_twin nsa_twin_generated)
target_link_libraries(nsa_twin PRIVATE nsa_twin_flags nsa_infer
  -Wl,--whole-archive nsa_twin_runtime -Wl,--no-whole-archive)
# What the generator puts before a kernel.
target_precompile_headers(nsa_twin PRIVATE <algorithm> <array> <cmath> <cstddef> <cstdint> <cstring>
  <initializer_list> <limits> <tuple> <type_traits> <utility>
  "${twin_root}/include/kernel_operator.h" "${twin_root}/host/kernel_registration.h")
set_source_files_properties(${aclnn_sources} ${built_in_sources} ${aclnn_functions} PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON)
# A check and a count of every access take the time, not the arithmetic.
set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_OPTIONS "-O1")
set_source_files_properties(${aclnn_sources} PROPERTIES COMPILE_OPTIONS "-O1")
set_target_properties(nsa_twin PROPERTIES OUTPUT_NAME mindspore_nsa_twin)
target_link_options(nsa_twin PRIVATE -Wl,--gc-sections
  "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/twin.map")
set_property(TARGET nsa_twin PROPERTY LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cmake/twin.map")

include(cmake/spellings.cmake)
set(CMAKE_INSTALL_MESSAGE NEVER)
# What a program that uses the twin needs: `cmake --install . --component twin --prefix FOLDER`.
install(TARGETS nsa_twin LIBRARY DESTINATION . COMPONENT twin)
install(DIRECTORY "${twin_generated}/include/" DESTINATION include COMPONENT twin)
install(DIRECTORY "${twin_root}" DESTINATION include COMPONENT twin
  FILES_MATCHING PATTERN "*.h")
