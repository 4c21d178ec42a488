"""Deps: the build environment.

Given the interpreter, the tools and the toolkit choice; leaves deps.json with the interpreter to
install into, a CUDA_HOME with its exact pins, and the compilers, and cache.json with the compiler
cache. Reruns when one of those choices changes or the environment is gone.
"""
