"""compile: build PyTorch with CMake and Ninja in a persistent build folder.

The build backend of the tree runs CMake and Ninja. Inputs: the tree, the tools and the environment
from the stages source, deps and env.

Output: compile.json (backend, folders, and one digest of the compiled libraries).

Reruns when: one of these inputs, or build.type, flags, env, target or backend changed. Ninja then
decides which steps run. If it runs none, the manifest keeps the same bytes.
"""
