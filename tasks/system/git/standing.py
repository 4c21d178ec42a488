"""Where submodules stand after a git of ours was cut off: where it left them, or where a person
brought them since.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.core.errors import CommandFailedError
from tasks.system.git.note import UnderWay, last_sign
from tasks.system.git.state import ask, is_checkout, place_of, submodule_lines


def stored(tree: Path) -> dict[str, Path]:
    """Path → where git keeps the repository of each submodule."""
    if not (tree / ".gitmodules").exists():
        return {}
    listed = ask(tree, "config", "-z", "--file", ".gitmodules", "--get-regexp", r"\.path$")
    pairs = (entry.partition("\n") for entry in listed.split("\0") if entry)
    modules = place_of(tree) / "modules"
    return {
        path: modules / key.removeprefix("submodule.").removesuffix(".path")
        for key, _, path in pairs
    }


def is_whole(inner: Path) -> bool:
    """Whether it has a commit, and an index, which git writes after all of its files."""
    try:
        ask(inner, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return (place_of(inner) / "index").is_file()
    except (CommandFailedError, OSError):
        return False


def stands(inner: Path) -> str:
    """Its branch, if it is on one, and its commit."""
    try:
        head = (place_of(inner) / "HEAD").read_text(encoding="utf-8").strip()
        return f"{head} {ask(inner, 'rev-parse', 'HEAD').strip()}"
    except (CommandFailedError, OSError):
        return ""


def touched(inner: Path, until: float) -> bool:
    """Whether a git was at work there after ours: it moved HEAD, or staged something."""
    place = place_of(inner)
    own = (place / name for name in ("HEAD", "index", "logs/HEAD"))
    return any(path.exists() and path.stat().st_mtime > until for path in own)


def moved(tree: Path, last: UnderWay) -> frozenset[str]:
    """The submodules, and what they hold, that a person moved since: neither on the commit that is
    recorded nor where our git found or left them. By their paths from the top.
    """
    return frozenset(_moved(tree, tree, last, ""))


def _moved(top: Path, tree: Path, last: UnderWay, above: str) -> Iterator[str]:
    for flag, path, _ in submodule_lines(tree):
        inner, full = tree / path, f"{above}{path}"
        if flag == "-" or not is_checkout(inner) or not is_whole(inner):
            continue
        if flag == "+" and not _is_ours(top, inner, full, last):
            yield full
        yield from _moved(top, inner, last, f"{full}/")


def _is_ours(top: Path, inner: Path, path: str, last: UnderWay) -> bool:
    """Off the recorded commit: where it was before, or where a clone of ours got to."""
    if path in last.heads:
        return last.heads[path] == stands(inner)
    is_cloned = any(path == one or path.startswith(f"{one}/") for one in last.fresh)
    return is_cloned and not touched(inner, last_sign(top, last))
