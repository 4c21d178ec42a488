"""Read the hardware and tools of this machine: GPUs, memory, CUDA toolkits, compilers."""
