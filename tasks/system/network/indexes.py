"""Where packages are asked for: a URL, a folder of wheels, or the mirror that stands in its place.

A mirror changes what is asked and nothing else: what is written down names the index that is meant.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tasks.system.network import offline, ownindex
from tasks.system.network.mirrors import DEFAULT_INDEX, mirrored_index

_MARK = "_TORCHYARD_MIRRORS"


def begin(mirrors: Mapping[str, str]) -> None:
    """From now on uv and pip ask these mirrors; a default index of a person's own stays."""
    os.environ[_MARK] = json.dumps(dict(mirrors))
    place = mirrored_index(DEFAULT_INDEX, mirrors)
    if place == DEFAULT_INDEX:
        return
    if not ownindex.of_uv():
        os.environ["UV_DEFAULT_INDEX"] = place
    if not ownindex.of_pip():
        os.environ["PIP_INDEX_URL"] = place


def beside(index: str) -> tuple[str, ...]:
    """Options that add an index URL or a folder of wheels to the default index."""
    if not index or offline.is_offline():
        return ()
    place = _place(index)
    return ("--find-links", place) if Path(place).is_dir() else ("--extra-index-url", place)


def alone(index: str) -> tuple[str, ...]:
    """Options that look into that index and no other; "" is the default one."""
    if not index or offline.is_offline():
        return ()
    place = _place(index)
    if Path(place).is_dir():
        return ("--no-index", "--find-links", place)
    return ("--index-url", place)


def _place(index: str) -> str:
    return mirrored_index(index, json.loads(os.environ.get(_MARK, "{}")))
