"""Where packages are asked for: a URL, a folder of wheels, or the mirror that stands in its place.

A mirror changes what is asked and nothing else: what is written down names the index that is meant.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tasks.system.network import offline, ownindex
from tasks.system.network.mirrors import DEFAULT_INDEX, apply_index_mirror

_MIRRORS_VARIABLE = "_TORCHYARD_MIRRORS"


def set_index_mirrors(mirrors: Mapping[str, str]) -> None:
    """From now on uv and pip ask these mirrors; a default index of a person's own stays."""
    os.environ[_MIRRORS_VARIABLE] = json.dumps(dict(mirrors))
    place = apply_index_mirror(DEFAULT_INDEX, mirrors)
    if place == DEFAULT_INDEX:
        return
    if not ownindex.find_uv_index():
        os.environ["UV_DEFAULT_INDEX"] = place
    if not ownindex.find_pip_index():
        os.environ["PIP_INDEX_URL"] = place


def build_extra_index_options(index: str) -> tuple[str, ...]:
    """Options that add an index URL or a folder of wheels to the default index."""
    if not index or offline.is_offline():
        return ()
    place = _resolve_index_place(index)
    return ("--find-links", place) if Path(place).is_dir() else ("--extra-index-url", place)


def build_only_index_options(index: str) -> tuple[str, ...]:
    """Options that look into that index and no other; "" is the default one."""
    if not index or offline.is_offline():
        return ()
    place = _resolve_index_place(index)
    if Path(place).is_dir():
        return ("--no-index", "--find-links", place)
    return ("--index-url", place)


def _resolve_index_place(index: str) -> str:
    return apply_index_mirror(index, json.loads(os.environ.get(_MIRRORS_VARIABLE, "{}")))
