# The unwinder and the reader of Python frames without the rest of the collector.
get_target_property(flags aiflame_objects COMPILE_OPTIONS)
get_target_property(includes aiflame_objects INCLUDE_DIRECTORIES)

# The reader of Python frames alone, to be loaded into any interpreter: none of the collector's hooks come with it.
file(GLOB reader_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/native/base/*.cpp ${CMAKE_SOURCE_DIR}/native/spool/*.cpp
     ${CMAKE_SOURCE_DIR}/native/unwind/python_*.cpp)
add_library(python_reader SHARED unwind/python_reader_library.cpp ${reader_sources})
add_dependencies(python_reader aiflame_objects)
target_compile_features(python_reader PRIVATE cxx_std_20)
target_compile_options(python_reader PRIVATE ${flags})
target_include_directories(python_reader PRIVATE ${includes})
target_link_libraries(python_reader PRIVATE pthread ${CMAKE_DL_LIBS})

# The native unwinder without the collector's hooks: in libraries for LD_PRELOAD, and in programs with code of every kind.
file(GLOB unwinder_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/native/base/*.cpp ${CMAKE_SOURCE_DIR}/native/spool/*.cpp
     ${CMAKE_SOURCE_DIR}/native/unwind/*.cpp)
list(FILTER unwinder_sources EXCLUDE REGEX "/(python_[a-z_]*|stack_trie)\\.cpp$")
add_library(unwinder_objects OBJECT ${unwinder_sources})
add_dependencies(unwinder_objects aiflame_objects)
target_compile_features(unwinder_objects PUBLIC cxx_std_20)
target_compile_options(unwinder_objects PUBLIC ${flags})
target_include_directories(unwinder_objects PUBLIC ${includes})
file(GLOB preloads CONFIGURE_DEPENDS unwind/preload/*.cpp)
foreach(source ${preloads})
  get_filename_component(name ${source} NAME_WE)
  add_library(${name} SHARED ${source} $<TARGET_OBJECTS:unwinder_objects>)
  target_link_libraries(${name} PRIVATE unwinder_objects pthread ${CMAKE_DL_LIBS})
endforeach()
file(GLOB unwinds CONFIGURE_DEPENDS unwind/unwind_*.cpp)
foreach(source ${unwinds})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source} $<TARGET_OBJECTS:unwinder_objects>)
  target_link_libraries(${name} PRIVATE unwinder_objects pthread ${CMAKE_DL_LIBS})
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-fexceptions;-O1;-fno-optimize-sibling-calls")
  target_link_options(${name} PRIVATE -Wl,-z,lazy -rdynamic)
endforeach()
# At a fixed address, where addresses are the file's own.
add_executable(unwind_modules_fixed unwind/unwind_modules.cpp $<TARGET_OBJECTS:unwinder_objects>)
target_link_libraries(unwind_modules_fixed PRIVATE unwinder_objects pthread ${CMAKE_DL_LIBS})
target_link_options(unwind_modules_fixed PRIVATE -no-pie -rdynamic)
# Libraries that call back: one as usual, and one as some linkers leave it, with no search table beside the unwind entries.
add_library(call_back SHARED unwind/programs/call_back.cpp)
add_library(no_search_table SHARED unwind/programs/call_back.cpp)
target_link_options(no_search_table PRIVATE -Wl,--no-eh-frame-hdr)
