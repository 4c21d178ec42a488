"""A clone of ours, with a submodule `inner`, of two small repositories beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.system.git import clones
from tests.integration.conftest import commit
from tests.integration.conftest import git as run


def with_submodule(folder: Path, content: Mapping[str, str]) -> Path:
    """The tree of the clone; both repositories have this `content`, by name."""
    inner, outer = folder / "inner", folder / "outer"
    for repository in (inner, outer):
        repository.mkdir()
        run(repository, "init", "-q", "-b", "main")
        for name, text in content.items():
            (repository / name).write_text(text, "utf-8", newline="")
        commit(repository, "first")
    run(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner))
    commit(outer, "with it")
    tree = folder / "ours" / "tree"
    clones.clone_at_ref(str(outer), "main", tree)
    return tree
