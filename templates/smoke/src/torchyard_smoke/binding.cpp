// torch/library.h instead of torch/extension.h: a quarter of the time and a third of the memory, and no pybind11.
#include <Python.h>

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernel.h"

namespace {

constexpr int64_t kBlocks = 64;

// y = a * x + y in place. Returns the sums that the blocks found, float64 [kBlocks].
at::Tensor axpy(double a, const at::Tensor& x, at::Tensor& y) {
  TORCH_CHECK(x.is_cuda() && x.device() == y.device(), "x and y must be on one CUDA device");
  TORCH_CHECK(x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat, "x and y must be float32");
  TORCH_CHECK(x.is_contiguous() && y.is_contiguous(), "x and y must be contiguous");
  TORCH_CHECK(x.numel() == y.numel(), "x and y must have the same size");
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor sums = at::empty({kBlocks}, x.options().dtype(at::kDouble));
  const char* error = launch_axpy(
      x.numel(), static_cast<float>(a), x.data_ptr<float>(), y.data_ptr<float>(), sums.data_ptr<double>(),
      static_cast<int>(kBlocks), c10::cuda::getCurrentCUDAStream().stream());
  TORCH_CHECK(error == nullptr, "axpy: ", error == nullptr ? "" : error);
  return sums;
}

}  // namespace

TORCH_LIBRARY(torchyard_smoke, library) {
  library.def("axpy(float a, Tensor x, Tensor(a!) y) -> Tensor");
}

TORCH_LIBRARY_IMPL(torchyard_smoke, CUDA, library) {
  library.impl("axpy", &axpy);
}

// The module itself is empty: importing it loads this library, and that registers the operator.
PyMODINIT_FUNC PyInit__C(void) {
  static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
  return PyModule_Create(&module);
}
