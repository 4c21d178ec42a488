"""compile: build PyTorch with CMake and Ninja in a persistent build folder.

Inputs: the tree, the tools and the environment from the stages source, deps and env.

Output: compile.json (backend, folders, and one digest of the compiled libraries).

Reruns when: an input, a GPU target, or one of the settings build.type, build.flags, build.env,
build.target and build.backend changed.
"""
