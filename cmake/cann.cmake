# The stand-in for CANN that MindSpore's Ascend backend runs on (twin/cann): what of it does not
# depend on the installed MindSpore. mindspore_nsa/twin/_cann.py adds the rest when it first runs.
# MindSpore's plugin is in its wheels for x86-64 only.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  return()
endif()

function(nsa_cann_library name)
  add_library(nsa_cann_${name} SHARED ${ARGN})
  target_link_libraries(nsa_cann_${name} PRIVATE nsa_twin_flags)
  target_include_directories(nsa_cann_${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_options(nsa_cann_${name} PRIVATE -O2)
  set_target_properties(nsa_cann_${name} PROPERTIES OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/cann" BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN;$ORIGIN/..")
  install(TARGETS nsa_cann_${name} LIBRARY DESTINATION cann COMPONENT twin)
endfunction()

file(GLOB opapi_sources CONFIGURE_DEPENDS twin/cann/opapi/*.cc)
nsa_cann_library(opapi ${opapi_sources} twin/cann/graph_engine.cc)
# MindSpore and CANN use the string of the older ABI in C++ interfaces.
set_source_files_properties(twin/cann/graph_engine.cc PROPERTIES
  COMPILE_DEFINITIONS _GLIBCXX_USE_CXX11_ABI=0)
target_link_libraries(nsa_cann_opapi PRIVATE nsa_twin)
nsa_cann_library(mindspore_nsa_ascendcl twin/cann/settings.cc twin/cann/channels.cc twin/cann/refuse.cc)
target_link_libraries(nsa_cann_mindspore_nsa_ascendcl PRIVATE nsa_twin)
