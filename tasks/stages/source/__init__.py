"""source: provide the PyTorch tree (cloned, unpacked, or the user's) and record its exact state.

Inputs: a git URL with a ref, a folder or an archive, and patches.

Output: source.json (commit, submodules, digest of local edits).

Reruns: always, because the user may have pulled or edited the tree.
"""
