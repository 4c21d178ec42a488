"""The long one: the tree's own build backend drives CMake and Ninja in a folder that is kept.

Given: the tree, the tools and the environment of source, deps and env. Leaves: compile.json
(backend, folders, and one digest of the libraries that came out). Reruns when any of those, or
build.type, flags, env, target or backend changed; what there is to do then is Ninja's decision, and
where that is nothing the manifest has the same bytes.
"""
