"""compile: build PyTorch with CMake and Ninja in a persistent build folder.

Inputs: the tree, the tools and the environment from the stages source, deps and env.

Output: compile.json (backend, folders, and one digest of the compiled libraries).

Reruns when: one of these inputs, or build.type, flags, env, target or backend changed. If Ninja
then runs no step, the manifest keeps the same bytes.
"""
