# mindspore_nsa._native: Python module and MindSpore Custom (aot) library in one file.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)

file(GLOB module_sources CONFIGURE_DEPENDS binding/*.cc)
list(FILTER module_sources EXCLUDE REGEX "/binding/(op_call|bind_[^/]*)\\.cc$")
# MindSpore's libraries use the old std::string layout, and AotExtra takes std::string by value.
set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/binding/custom_extra.cc" PROPERTIES
  COMPILE_DEFINITIONS _GLIBCXX_USE_CXX11_ABI=0)

pybind11_add_module(_native MODULE NO_EXTRAS ${module_sources})
# Assertions name their file, pybind11's and Python's their headers. The folders are no business but the
# builder's.
target_compile_options(_native PRIVATE "-fmacro-prefix-map=${pybind11_INCLUDE_DIR}/="
  "-fmacro-prefix-map=${Python_INCLUDE_DIRS}/="
  "-fmacro-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}/=")
# Objects of the aclnn functions, and CANN's headers; the twin itself is called through dlopen, and
# nothing of it is linked.
target_link_libraries(_native PRIVATE nsa_calls $<TARGET_OBJECTS:nsa_aclnn_functions>
  ${CMAKE_DL_LIBS})
target_include_directories(_native PRIVATE
  $<TARGET_PROPERTY:ascendc_twin_headers,INTERFACE_INCLUDE_DIRECTORIES>)
add_dependencies(_native nsa_aclnn_functions)
set_target_properties(_native PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${NSA_MODULE_DIR}")
if(NSA_MODULE_FILE)
  set_target_properties(_native PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME "${NSA_MODULE_FILE}")
endif()
target_link_options(_native PRIVATE -Wl,--gc-sections
  "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/module.map")
set_property(TARGET _native PROPERTY LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cmake/module.map")
