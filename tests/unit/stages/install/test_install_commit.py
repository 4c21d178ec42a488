"""Tests of combining two installs into one rollback record."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.stages.install.install_commit_io import compute_commit
from tasks.stages.install.install_journal_io import (
    BackupFile,
    DistributionChange,
    InstalledFile,
    InstallRecord,
)

SITE = "lib/site"


def part(before: str, after: str) -> DistributionChange:
    """Return a change whose RECORD digest derives from the version."""
    return DistributionChange(before, f"r{before}" if before else "", after, f"r{after}", "")


def parse_file(spec: str) -> InstalledFile:
    owner, digest = spec.split(":")
    return InstalledFile(owner, digest, 1, 1)


def exchange(
    when: str,
    parts: Mapping[str, DistributionChange],
    kept: Mapping[str, str],
    placed: Mapping[str, str],
) -> InstallRecord:
    """Return an install record; files map a name to owner:content."""
    return InstallRecord(
        python="/env/bin/python",
        prefix="/env",
        sites=(SITE,),
        when=when,
        parts=parts,
        kept={f"{SITE}/{path}": BackupFile(*spec.split(":")) for path, spec in kept.items()},
        placed={f"{SITE}/{path}": parse_file(spec) for path, spec in placed.items()},
        folders={},
    )


def names(paths: Mapping[str, object] | tuple[str, ...]) -> set[str]:
    return {path.removeprefix(f"{SITE}/") for path in paths}


FIRST = exchange(
    "1",
    {"torch": part("A", "B"), "needed": part("", "2")},
    {"t.py": "torch:A", "a.py": "torch:A"},
    {"t.py": "torch:B", "b.py": "torch:B", "n.py": "needed:2"},
)


def test_first_install_keeps_all_backups() -> None:
    found = compute_commit(None, FIRST)
    assert found.result == FIRST
    assert names(found.originals) == {"t.py", "a.py"}


def test_backups_of_managed_files_are_dropped() -> None:
    second = exchange(
        "2",
        {"torch": part("B", "C")},
        {"t.py": "torch:B", "b.py": "torch:B", "__pycache__/t.cpython-312.pyc": "torch:x"},
        {"t.py": "torch:C", "c.py": "torch:C"},
    )
    found = compute_commit(FIRST, second)
    assert found.result.kept == FIRST.kept
    assert names(found.result.placed) == {"t.py", "c.py", "n.py"}
    assert (found.result.parts["torch"].before, found.result.parts["torch"].after) == ("A", "C")
    assert found.result.parts["needed"] == FIRST.parts["needed"]
    assert found.result.when == "1"
    assert (found.originals, found.edited, found.superseded) == ((), (), ())


def test_user_edits_of_managed_files_are_saved() -> None:
    kept = {"t.py": "torch:mine", "a.py": "torch:mine"}  # a.py is new, but A had one too
    second = exchange("2", {"torch": part("B", "C")}, kept, {"t.py": "torch:C", "a.py": "torch:C"})
    found = compute_commit(FIRST, second)
    assert names(found.edited) == {"t.py", "a.py"}
    assert found.result.kept == FIRST.kept


def test_user_file_replaced_by_second_install_is_restored() -> None:
    second = exchange(
        "2", {"torch": part("B", "C")}, {"own.py": "torch:own"}, {"own.py": "torch:C"}
    )
    found = compute_commit(FIRST, second)
    assert names(found.originals) == {"own.py"}
    assert names(found.result.kept) == {"t.py", "a.py", "own.py"}


def test_distribution_installed_by_user_supersedes_backups() -> None:
    pips = {"t.py": "torch:P", "p.py": "torch:P"}
    second = exchange("2", {"torch": part("P", "C")}, pips, {"t.py": "torch:C"})
    found = compute_commit(FIRST, second)
    assert names(found.superseded) == {"t.py", "a.py"}
    assert names(found.originals) == {"t.py", "p.py"}
    assert found.result.kept == second.kept
    assert found.result.parts["torch"].before == "P"


def test_rollback_restores_first_state_after_user_uninstall() -> None:
    second = exchange("2", {"torch": part("", "C")}, {}, {"t.py": "torch:C"})
    found = compute_commit(FIRST, second)
    assert found.result.parts["torch"].before == "A"
    assert found.result.kept == FIRST.kept


def test_package_replaced_later_is_added_to_backups() -> None:
    second = exchange("2", {"knn": part("1", "2")}, {"k.py": "knn:1"}, {"k.py": "knn:2"})
    found = compute_commit(FIRST, second)
    assert names(found.originals) == {"k.py"}
    assert names(found.result.kept) == {"t.py", "a.py", "k.py"}
    assert names(found.result.placed) == {"t.py", "b.py", "n.py", "k.py"}
    assert set(found.result.parts) == {"torch", "needed", "knn"}
