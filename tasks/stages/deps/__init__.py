"""deps: prepare the build environment.

Inputs: the interpreter, the tools and the toolkit selection.

Outputs: deps.json (the interpreter to install into, CUDA_HOME, the exact versions of the
toolkit's packages, and the compilers) and cache.json (the compiler cache).

Reruns when: an input, a compiler or the locked packages changed, or the environment is gone.
"""
