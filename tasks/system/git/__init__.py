"""Run git for a build: checkouts, their state, patches and remote hosts."""

from tasks.system.git.checkout_state import (
    GitState,
    is_checkout,
    is_clean,
    list_unignored_files,
    read_commit_time,
    read_git_state,
)
from tasks.system.git.clones import (
    clone_at_ref,
    copy_reference_clone,
    is_at_ref,
    is_reachable,
    list_changed_submodules,
    list_stale_submodules,
    report_newer_commit,
    resolve_remote_commit,
    update_submodules,
)
from tasks.system.git.local_changes import (
    apply_patch,
    can_apply_patch,
    find_conflicts,
    is_as_committed,
    list_local_changes,
    require_merged,
    restore_patched_files,
)

__all__ = [
    "GitState", "apply_patch", "can_apply_patch", "clone_at_ref", "copy_reference_clone",
    "find_conflicts", "is_as_committed", "is_at_ref", "is_checkout", "is_clean", "is_reachable",
    "list_changed_submodules", "list_local_changes", "list_stale_submodules",
    "list_unignored_files", "read_commit_time", "read_git_state", "report_newer_commit",
    "require_merged", "resolve_remote_commit", "restore_patched_files", "update_submodules",
]  # fmt: skip
