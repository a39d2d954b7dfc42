# LibTorch out of the Python package `torch`, without the CUDA toolkit that find_package(Torch) demands.
# Input: TORCHWHEEL_ROOT, the folder that holds include/ and lib/. Output: torchwheel::cpu, torchwheel::fmt.
find_path(TorchWheel_INCLUDE_DIR ATen/ATen.h PATHS "${TORCHWHEEL_ROOT}/include" NO_DEFAULT_PATH)
find_library(TorchWheel_CPU_LIB torch_cpu PATHS "${TORCHWHEEL_ROOT}/lib" NO_DEFAULT_PATH)
find_library(TorchWheel_C10_LIB c10 PATHS "${TORCHWHEEL_ROOT}/lib" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TorchWheel REQUIRED_VARS TorchWheel_INCLUDE_DIR TorchWheel_CPU_LIB TorchWheel_C10_LIB)

if(TorchWheel_FOUND AND NOT TARGET torchwheel::cpu)
  add_library(torchwheel::c10 SHARED IMPORTED)
  set_target_properties(torchwheel::c10 PROPERTIES IMPORTED_LOCATION "${TorchWheel_C10_LIB}")
  add_library(torchwheel::cpu SHARED IMPORTED)
  set_target_properties(torchwheel::cpu PROPERTIES
    IMPORTED_LOCATION "${TorchWheel_CPU_LIB}"
    INTERFACE_INCLUDE_DIRECTORIES "${TorchWheel_INCLUDE_DIR};${TorchWheel_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
    INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_LINK_LIBRARIES torchwheel::c10)

  # The rooms above the torch line use torch's header-only fmt and can see nothing else of torch.
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/fmt_only")
  file(CREATE_LINK "${TorchWheel_INCLUDE_DIR}/fmt" "${CMAKE_BINARY_DIR}/fmt_only/fmt" SYMBOLIC)
  add_library(torchwheel::fmt INTERFACE IMPORTED)
  target_include_directories(torchwheel::fmt INTERFACE "${CMAKE_BINARY_DIR}/fmt_only")
  target_compile_definitions(torchwheel::fmt INTERFACE FMT_HEADER_ONLY=1)
endif()
