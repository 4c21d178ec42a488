"""doit's database: what it knows to be up to date. Without it doit asks everything once more, so
that a damaged one is put aside, where it would end every command with a traceback.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

_WAITS = 0.2  # seconds: another doit that writes at that moment has a sound one


def see_that_it_can_be_read(path: Path) -> None:
    """Rename a database that is damaged to NAME.damaged, and say so."""
    if not path.is_file() or _is_sound(path):
        return
    path.replace(path.with_name(f"{path.name}.damaged"))
    print(  # noqa: T201 - nobody listens yet
        f"warning: {path} was damaged and is put aside; what is up to date is found out again",
        file=sys.stderr,
    )


def _is_sound(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path, timeout=_WAITS)) as opened:
            return bool(opened.execute("pragma quick_check(1)").fetchone() == ("ok",))
    except sqlite3.OperationalError as error:
        return "locked" in str(error)
    except sqlite3.DatabaseError:
        return False
