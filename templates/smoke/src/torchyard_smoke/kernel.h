#pragma once

// Starts the kernel on `stream` (a cudaStream_t); `sums` has one double for each block.
// Returns nullptr, or CUDA's own words for what went wrong.
const char* launch_axpy(
    long long n, float a, const float* x, float* y, double* sums, int blocks, void* stream);
