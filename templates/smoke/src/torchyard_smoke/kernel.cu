// No torch header is included here: nvcc then takes a second, and only binding.cpp knows tensors.
#include "kernel.h"

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;  // a power of two: the reduction halves it

// y = a * x + y in one rounding, and the sum of what each block wrote, in float64.
__global__ void axpy(long long n, float a, const float* x, float* y, double* sums) {
  __shared__ double partial[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const long long stride = static_cast<long long>(gridDim.x) * kThreads;
  double sum = 0.0;
  for (long long i = static_cast<long long>(blockIdx.x) * kThreads + thread; i < n; i += stride) {
    y[i] = fmaf(a, x[i], y[i]);
    sum += y[i];
  }
  partial[thread] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) {
      partial[thread] += partial[thread + half];
    }
    __syncthreads();
  }
  if (thread == 0) {
    sums[blockIdx.x] = partial[0];
  }
}

}  // namespace

const char* launch_axpy(
    long long n, float a, const float* x, float* y, double* sums, int blocks, void* stream) {
  axpy<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(n, a, x, y, sums);
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}
