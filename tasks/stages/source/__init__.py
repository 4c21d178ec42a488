"""PyTorch's own tree: cloned, unpacked, or a person's own, and what exactly it holds.

Given: a git URL with a ref, a folder or an archive, and patches. Leaves: source.json (commit,
submodules, digest of local edits). It always asks the tree, because a person may have pulled or
edited it; when nothing moved, its manifest has the same bytes and nothing after it runs.
"""
