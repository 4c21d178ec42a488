"""From where on a machine is small, each with what it rests on; sizes are in MiB.

What one compiler of torch takes at the most, and a build on the disk, is a fact of costs.yaml.
Where a sentence says estimate, nobody measured it.
"""

from __future__ import annotations

# One compiler, where a number of jobs has to be said without seeing what they hold. Estimates,
# beside what is known: with CUDA, the largest process of a small extension took 810 MiB
# (docs/measurements.md), and kernels of flash-attention take 5.3 GB (pytorch.yaml, memory-flash);
# without it two of ATen's objects went well in 1.5 GiB, and eight were killed in two (costs.yaml).
CUDA_COMPILER_MIB = 4 * 1024
CXX_COMPILER_MIB = 2 * 1024

# One of flash-attention's kernels, alone with others of its kind: the 5.3 GB that pytorch#130443
# reports of nvcc 12.3 (pytorch.yaml, memory-flash).
KERNEL_COMPILER_MIB = 5 * 1024

# A machine that is told to add swap has less than this. An estimate: the link step of torch on
# Windows is said to take 16 GB (pytorch.yaml, memory-jobs, unverified), and compilers are at work
# beside it.
SWAP_ADVISED_BELOW = 32 * 1024

# Least and usual room where most of a build is there already, and of temporary files. Estimates.
STARTED_BUILD_MIB = (1024, 2048)
TEMPORARY_FILES_MIB = (512, 2048)

# Characters of a path that Windows takes, the end included, unless long paths are on: MAX_PATH in
# learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation.
MAX_PATH = 260

# Characters below the build folder that a build of torch needs, with a separator and the end:
# src/pytorch/test/dynamo_expected_failures/TestAutogradFunctionCUDA… has 175 in the tree of 2.6.0.
# Of other releases, and of third_party, it is an estimate: they can only be longer.
MAX_BUILD_SUBPATH = 177
