# The stand-in for CANN that MindSpore's Ascend backend runs on: what of it does not depend on the
# installed MindSpore. ascendc_twin/_cann.py adds the rest when it first runs. MindSpore's plugin is in
# its wheels for x86-64 only.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  return()
endif()

function(cann_library name)
  add_library(cann_${name} SHARED ${ARGN})
  target_link_libraries(cann_${name} PRIVATE ascendc_twin_flags ascendc_twin)
  target_compile_options(cann_${name} PRIVATE -O2)
  set_target_properties(cann_${name} PROPERTIES OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/cann" BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN;$ORIGIN/..")
  set(cann_libraries ${cann_libraries} cann_${name} PARENT_SCOPE)
  install(TARGETS cann_${name} LIBRARY DESTINATION cann COMPONENT ascendc_twin)
endfunction()

file(GLOB opapi_sources CONFIGURE_DEPENDS cann/opapi/*.cc)
cann_library(opapi ${opapi_sources} cann/graph_engine.cc)
# MindSpore and CANN use the string of the older ABI in C++ interfaces.
set_source_files_properties(cann/graph_engine.cc PROPERTIES
  COMPILE_DEFINITIONS _GLIBCXX_USE_CXX11_ABI=0)
cann_library(ascendc_twin_ascendcl cann/settings.cc cann/channels.cc cann/refuse.cc)
file(GLOB hccl_sources CONFIGURE_DEPENDS cann/hccl/*.cc)
cann_library(hccl ${hccl_sources} cann/refuse.cc)
find_package(Threads REQUIRED)
target_link_libraries(cann_hccl PRIVATE Threads::Threads)
