"""git, as far as a build needs it: checkouts, their state, patches, and whether a host answers.

git's own index decides what is edited and what has to be fetched; nothing is walked here. A
person's work is never reset and never cleaned. Which ref is meant, and when it is asked for, is the
caller's business.
"""

from __future__ import annotations

from tasks.system.git.checkout import clone_at, is_at
from tasks.system.git.conflicts import find_conflicts, require_merged
from tasks.system.git.ownwork import own_work
from tasks.system.git.patches import applies, apply, is_as_committed
from tasks.system.git.patching import restore
from tasks.system.git.reach import reachable
from tasks.system.git.remote import commit_of, tell_of_newer
from tasks.system.git.seed import seed
from tasks.system.git.state import GitState, date, is_checkout, is_clean, state, unignored
from tasks.system.git.submodules import moved_submodules, stale_submodules, update_submodules

__all__ = [
    "GitState",
    "applies",
    "apply",
    "clone_at",
    "commit_of",
    "date",
    "find_conflicts",
    "is_as_committed",
    "is_at",
    "is_checkout",
    "is_clean",
    "moved_submodules",
    "own_work",
    "reachable",
    "require_merged",
    "restore",
    "seed",
    "stale_submodules",
    "state",
    "tell_of_newer",
    "unignored",
    "update_submodules",
]
