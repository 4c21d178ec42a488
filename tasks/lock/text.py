"""torchyard.lock as a text: one section for each profile, sorted, each looked into by its own
profile alone. Pure.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from pydantic import ValidationError

from tasks.core.errors import SettingsError
from tasks.lock import LOCK_NAME
from tasks.lock.section import LockSection
from tasks.settings.explain import find_key_location
from tasks.settings.load import split_tree
from tasks.settings.yamltree import parse_yaml_tree

_FILE_HEADER = f"""\
# {LOCK_NAME}: what each profile was built of, commit by commit and file by file. doit lock
# writes it after a build, doit build takes exactly this again, doit lock --check tells in what the
# two differ. It belongs into the repository.
"""
_SECTION_KEY = re.compile(r"""^(["']?)(?P<name>[^\s"'#][^"']*?)\1:\s*(#.*)?$""")


def split_sections(text: str) -> dict[str, tuple[int, str]]:
    """The lines of each profile, and how many are before them; nothing is understood yet."""
    found: dict[str, tuple[int, list[str]]] = {}
    current: list[str] | None = None
    for number, line in enumerate(text.splitlines(keepends=True)):
        if begins := _SECTION_KEY.match(line):
            if begins["name"] in found:
                raise _build_lock_error(
                    f"{LOCK_NAME}:{number + 1}", f'"{begins["name"]}" is there twice'
                )
            current = []
            found[begins["name"]] = (number, current)
        elif line[0] not in " #\r\n":
            raise _build_lock_error(f"{LOCK_NAME}:{number + 1}", "this is no section of a profile")
        if current is not None:
            current.append(line)
    return {name: (number, "".join(lines)) for name, (number, lines) in found.items()}


def parse_section(text: str, profile: str) -> LockSection | None:
    """The section of `profile`, None where there is none. `SettingsError` with the line of what is
    not understood.
    """
    if (found := split_sections(text).get(profile)) is None:
        return None
    number, own = found
    tree = parse_yaml_tree("\n" * number + own, LOCK_NAME)
    values, _ = split_tree(tree)
    try:
        return LockSection.model_validate(values[profile])
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        path = (profile, *(part for part in problem["loc"] if part != "[key]"))
        dotted = ".".join(map(str, path))
        raise _build_lock_error(
            find_key_location(path, tree), f"{dotted}: {problem['msg'].lower()}"
        ) from error


def replace_section(text: str, profile: str, section: LockSection | None) -> str:
    """The whole file with that section, without it for None; the others stay as they are."""
    others = {
        name: own.rstrip() for name, (_, own) in split_sections(text).items() if name != profile
    }
    if section:
        others[profile] = _render_section(profile, section)
    return "\n\n".join([_FILE_HEADER.rstrip(), *(others[name] for name in sorted(others))]) + "\n"


def _render_section(profile: str, section: LockSection) -> str:
    told = _strip_empty(section.model_dump(mode="json"))
    dumped: str = yaml.dump(
        {profile: told}, Dumper=_LockDumper, sort_keys=True, width=10_000, allow_unicode=True
    )
    return dumped.rstrip()


class _LockDumper(yaml.SafeDumper):
    """A package and its digests are one line."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        """As it is called by YAML."""
        return super().represent_sequence(tag, sequence, flow_style=True)


def _strip_empty(value: Any) -> Any:
    """Without what says nothing."""
    if not isinstance(value, dict):
        return value
    below = {key: _strip_empty(item) for key, item in value.items()}
    return {key: item for key, item in below.items() if item not in ("", {}, [])}


def _build_lock_error(where: str, what: str) -> SettingsError:
    return SettingsError(
        what,
        location=where,
        hint=f"take {LOCK_NAME} from the repository again, or remove the section and let doit lock "
        "write it; lock: false builds without",
    )
