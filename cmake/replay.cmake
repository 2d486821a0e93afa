# nsa_replay: runs case files without Python, under sanitizers and on other processors.
add_executable(nsa_replay tests/native/replay.cc tests/native/poisoned_scratch.cc)
target_link_libraries(nsa_replay PRIVATE nsa_calls)
