# Flags of every native unit. Contraction is off so that a product and a sum are fused only where the
# source says so, and results do not depend on the compiler; there is no -ffast-math for the same
# reason. -march=native would make a wheel that runs only on machines like the one that built it:
# instruction sets are given per file, in kernels.cmake.
set(CMAKE_CXX_FLAGS_RELEASE "-O3")
add_library(nsa_flags INTERFACE)
target_include_directories(nsa_flags INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}")
target_compile_options(nsa_flags INTERFACE -Wall -Wextra -ffp-contract=off -fno-math-errno)

if(NSA_ONE_ISA OR NSA_O1)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")
endif()
if(NSA_SANITIZE)
  # -Og: compiles in half the time of -O1, whose functions are too large for the checks. -g1: reports
  # name lines; what debuggers need beside takes a quarter of the time to compile.
  set(CMAKE_CXX_FLAGS_RELEASE "-Og -g1")
  target_compile_definitions(nsa_flags INTERFACE NSA_CHECK_PRECONDITIONS)
  target_compile_options(nsa_flags INTERFACE
    -fsanitize=${NSA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(nsa_flags INTERFACE -fsanitize=${NSA_SANITIZE})
endif()
