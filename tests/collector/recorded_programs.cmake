# Programs that tests record, each alone in its file, for the folder that includes this. They are compiled as other people's are:
# without the collector's options, and without NDEBUG. Tests compile those themselves that need a library which not every machine
# has (Level Zero, MPI, LLVM's OpenMP).
set(CMAKE_CXX_FLAGS_RELEASE "")
set(CMAKE_C_FLAGS_RELEASE "")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/collector/programs)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-std=c++17> -O1 -Wno-deprecated-declarations -pthread)
add_link_options(-pthread)
include_directories(${CMAKE_SOURCE_DIR}/tests/collector/support)
