# Compiler settings and packages: the one place where flags are chosen.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

set(SLUICE_SANITIZER "" CACHE STRING "'' | address (ASan+UBSan) | thread (TSan)")
option(SLUICE_FUZZ "Build *_fuzz targets with libFuzzer (clang)" OFF)
option(SLUICE_WERROR "Treat warnings as errors" ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-g1")
set(CMAKE_C_FLAGS_DEBUG "-g1")

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()

# Every host target links this; freestanding guests (firmware/) do not.
add_library(sluice_flags INTERFACE)
target_include_directories(sluice_flags INTERFACE ${CMAKE_SOURCE_DIR})
# Generated headers are not ours to lint.
target_include_directories(sluice_flags SYSTEM INTERFACE ${CMAKE_BINARY_DIR})
target_compile_options(sluice_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(SLUICE_WERROR)
  target_compile_options(sluice_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(sluice_flags INTERFACE -Wthread-safety -Wno-unused-command-line-argument)
endif()
find_program(SLUICE_LLD ld.lld)
if(SLUICE_LLD)
  target_link_options(sluice_flags INTERFACE -fuse-ld=lld)
endif()
if(SLUICE_SANITIZER STREQUAL "address")
  target_compile_options(sluice_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1)
  target_link_options(sluice_flags INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(sluice_flags INTERFACE SLUICE_ASAN=1)
elseif(SLUICE_SANITIZER STREQUAL "thread")
  # TSan has no model of stand-alone fences: Asio does without (its queues have locks), and gcc's warning is known.
  target_compile_options(sluice_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(sluice_flags INTERFACE -Wno-tsan)
  endif()
  target_compile_definitions(sluice_flags INTERFACE ASIO_DISABLE_FENCED_BLOCK)
  target_link_options(sluice_flags INTERFACE -fsanitize=thread)
  target_compile_definitions(sluice_flags INTERFACE SLUICE_TSAN=1)
elseif(SLUICE_SANITIZER)
  message(FATAL_ERROR "SLUICE_SANITIZER=${SLUICE_SANITIZER}: use '', address or thread")
endif()
if(SLUICE_SANITIZER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12's flow-based warnings misfire on instrumented code (in FlatBuffers' and Abseil's headers); release keeps them.
  target_compile_options(sluice_flags INTERFACE -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds
    -Wno-maybe-uninitialized)
endif()
if(SLUICE_FUZZ)
  target_compile_options(sluice_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_package(absl REQUIRED)
find_package(spdlog REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
find_program(FLATC flatc REQUIRED)
find_program(GLSLANG glslangValidator REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_library(FLATBUFFERS_STATIC libflatbuffers.a REQUIRED)
add_library(sluice_flatbuffers_lib INTERFACE)   # only for what needs FlatBuffers' own JSON parser
target_link_libraries(sluice_flatbuffers_lib INTERFACE ${FLATBUFFERS_STATIC})

# Asio, compiled once (ASIO_SEPARATE_COMPILATION).
add_library(sluice_asio STATIC ${CMAKE_SOURCE_DIR}/cmake/asio.cc)
# ASIO_DISABLE_STD_ALIGNED_ALLOC: else the choice between aligned_alloc and operator new depends on whether a standard header came
# before Asio's in each file, and memory allocated one way is freed the other.
target_compile_definitions(sluice_asio PUBLIC ASIO_STANDALONE ASIO_SEPARATE_COMPILATION ASIO_NO_DEPRECATED
  ASIO_DISABLE_STD_ALIGNED_ALLOC)
target_link_libraries(sluice_asio PUBLIC sluice_flags Threads::Threads)

# For programs that open the Vulkan driver in their own process; see driver_sanitizers.cc. Nothing in other builds.
add_library(sluice_driver_sanitizers INTERFACE)
if(SLUICE_SANITIZER)
  target_sources(sluice_driver_sanitizers INTERFACE ${CMAKE_SOURCE_DIR}/cmake/driver_sanitizers.cc)
  target_link_libraries(sluice_driver_sanitizers INTERFACE ${CMAKE_DL_LIBS})
endif()
