"""torchyard.lock as a text: one section for each profile, sorted, each looked into by its own
profile alone. Pure.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from pydantic import ValidationError

from tasks.core.errors import SettingsError
from tasks.lock import LOCK
from tasks.lock.section import Profile
from tasks.settings.explain import where_of
from tasks.settings.load import split
from tasks.settings.yamltree import tree_of

_HEAD = f"""\
# {LOCK}: what each profile was built of, commit by commit and file by file. doit lock
# writes it after a build, doit build takes exactly this again, doit lock --check tells in what the
# two differ. It belongs into the repository.
"""
_KEY = re.compile(r"""^(["']?)(?P<name>[^\s"'#][^"']*?)\1:\s*(#.*)?$""")


def sections(text: str) -> dict[str, tuple[int, str]]:
    """The lines of each profile, and how many are before them; nothing is understood yet."""
    found: dict[str, tuple[int, list[str]]] = {}
    current: list[str] | None = None
    for number, line in enumerate(text.splitlines(keepends=True)):
        if begins := _KEY.match(line):
            if begins["name"] in found:
                raise _not_ours(f"{LOCK}:{number + 1}", f'"{begins["name"]}" is there twice')
            current = []
            found[begins["name"]] = (number, current)
        elif line[0] not in " #\r\n":
            raise _not_ours(f"{LOCK}:{number + 1}", "this is no section of a profile")
        if current is not None:
            current.append(line)
    return {name: (number, "".join(lines)) for name, (number, lines) in found.items()}


def read(text: str, profile: str) -> Profile | None:
    """The section of `profile`, None where there is none. `SettingsError` with the line of what is
    not understood.
    """
    if (found := sections(text).get(profile)) is None:
        return None
    number, own = found
    tree = tree_of("\n" * number + own, LOCK)
    values, _ = split(tree)
    try:
        return Profile.model_validate(values[profile])
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        path = (profile, *(part for part in problem["loc"] if part != "[key]"))
        dotted = ".".join(map(str, path))
        raise _not_ours(where_of(path, tree), f"{dotted}: {problem['msg'].lower()}") from error


def written(text: str, profile: str, section: Profile | None) -> str:
    """The whole file with that section, without it for None; the others stay as they are."""
    others = {name: own.rstrip() for name, (_, own) in sections(text).items() if name != profile}
    if section:
        others[profile] = _rendered(profile, section)
    return "\n\n".join([_HEAD.rstrip(), *(others[name] for name in sorted(others))]) + "\n"


def _rendered(profile: str, section: Profile) -> str:
    told = _bare(section.model_dump(mode="json"))
    dumped: str = yaml.dump(
        {profile: told}, Dumper=_Dumper, sort_keys=True, width=10_000, allow_unicode=True
    )
    return dumped.rstrip()


class _Dumper(yaml.SafeDumper):
    """A package and its digests are one line."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        """As it is called by YAML."""
        return super().represent_sequence(tag, sequence, flow_style=True)


def _bare(value: Any) -> Any:
    """Without what says nothing."""
    if not isinstance(value, dict):
        return value
    below = {key: _bare(item) for key, item in value.items()}
    return {key: item for key, item in below.items() if item not in ("", {}, [])}


def _not_ours(where: str, what: str) -> SettingsError:
    return SettingsError(
        what,
        where=where,
        todo=f"take {LOCK} from the repository again, or remove the section and let doit lock "
        "write it; lock: false builds without",
    )
