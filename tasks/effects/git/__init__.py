"""git, as far as a build needs it: checkouts, their state, patches, and whether a host answers.

git's own index decides what is edited and what has to be fetched; nothing is walked here. A
person's work is never reset and never cleaned. Which ref is meant, and when it is asked for, is the
caller's business.
"""

from __future__ import annotations

from tasks.effects.git.checkout import clone_at, is_at
from tasks.effects.git.conflicts import find_conflicts, require_merged
from tasks.effects.git.ownwork import own_work
from tasks.effects.git.patches import applies, apply, is_as_committed
from tasks.effects.git.patching import restore
from tasks.effects.git.reach import reachable
from tasks.effects.git.remote import commit_of, tell_of_newer
from tasks.effects.git.seed import seed
from tasks.effects.git.state import GitState, date, is_checkout, is_clean, state, unignored
from tasks.effects.git.submodules import moved_submodules, stale_submodules, update_submodules

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
