"""What env is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tasks.model import Arch, Strategy, System


@dataclass(frozen=True)
class Environment:
    """The manifests env.json (source builds) and extension-env.json (extensions).

    `set` are variables with their exact value, `prepend` are folders put before what PATH-like
    variables hold, and `unset` are variables that would change what is compiled and must not leak
    in from a person's shell.
    """

    set: Mapping[str, str]
    prepend: Mapping[str, tuple[str, ...]]
    unset: tuple[str, ...]
    separator: str

    def over(self, base: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of a child that would otherwise have `base`; no empty elements."""
        result = {name: value for name, value in base.items() if name not in self.unset}
        result.update(self.set)
        for name, folders in self.prepend.items():
            before = [item for item in result.get(name, "").split(self.separator) if item]
            kept = [item for item in before if item not in folders]
            result[name] = self.separator.join([*folders, *kept])
        return result


@dataclass(frozen=True)
class EnvJob:
    """What the environment is resolved from.

    `flags` and `variables` are the settings build.flags and build.env, `deps` and `source` the
    manifests to read (`source` only with strategy source), `scripts` the files to render, all from
    one template folder.
    """

    profile: str
    system: System
    strategy: Strategy
    cuda: str | None
    torch: str
    targets: tuple[Arch, ...]
    ptx: bool
    build_type: str
    blas: str
    flags: Mapping[str, bool | str]
    variables: Mapping[str, str]
    venv: PurePath
    deps: PurePath
    source: PurePath | None
    scripts: tuple[PurePath, ...]
    templates: PurePath
    log: PurePath
