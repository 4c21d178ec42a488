"""deps: prepare the build environment.

Inputs: the interpreter, the tools and the toolkit selection.

Outputs: deps.json with the interpreter to install into, a CUDA_HOME with exact pins, and the
compilers; cache.json with the compiler cache.

Reruns when: an input, a compiler or the locked packages changed, or the environment is gone.
"""
