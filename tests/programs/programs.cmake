# Unmodified programs of Debian (packages-programs.txt), natively and through Sluice. One that is not installed is skipped.
if(SLUICE_SANITIZER OR SLUICE_FUZZ)   # the programs are not built for sanitizers
  return()
endif()
pkg_check_modules(SCREEN_GRAB IMPORTED_TARGET xcb)
if(SCREEN_GRAB_FOUND)
  sluice_executable(screen_grab SRCS screen_grab.cc)
  target_link_libraries(screen_grab PRIVATE PkgConfig::SCREEN_GRAB)
  set_target_properties(screen_grab PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()
set(programs ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs.py --build ${CMAKE_BINARY_DIR})
foreach(name vulkaninfo_summary vulkaninfo_json vulkaninfo_text ffmpeg_filters ffmpeg_overlay zink_glxinfo zink_glxgears zink_es2gears
    vkd3d_triangle vkd3d_gears vkbench)
  add_test(NAME programs.${name} COMMAND ${programs} ${name})
  set_tests_properties(programs.${name} PROPERTIES TIMEOUT 1800 LABELS "programs;vulkan" SKIP_RETURN_CODE 77)
endforeach()
