"""Variables of the settings that no script could hold, refused before anything runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tasks.core.errors import BuildError, SettingsError
from tasks.core.model import System
from tasks.core.quoting import cmd, posix, powershell
from tasks.settings.schema import Settings


def require_writable(settings: Settings, system: System) -> None:
    """Raises `SettingsError`, which names the key, for the first that a shell of `system` has no
    way to write.
    """
    for section, variables in _variables(settings):
        _require_different(section, variables, system)
        _require_free(section, variables)
        for name, value in variables.items():
            try:
                _write(system, name, value)
            except BuildError as error:
                where = f"{section}.{name}"
                raise SettingsError(error.what, where=where, todo=error.todo) from error


def _variables(settings: Settings) -> Iterator[tuple[str, Mapping[str, str]]]:
    flags = settings.build.flags.items()
    yield "build.flags", {name: value for name, value in flags if isinstance(value, str)}
    yield "build.env", settings.build.env
    yield "runtime.env", settings.runtime.env


def _require_free(section: str, variables: Mapping[str, str]) -> None:
    """The scripts keep what they take back in variables of their own."""
    for name in variables:
        if name.lower().startswith("_torchyard"):
            raise SettingsError(
                f"{name} is a name that the environment scripts use for themselves",
                where=f"{section}.{name}",
                todo="choose one that does not begin with _torchyard",
            )


def _write(system: System, name: str, value: str) -> None:
    if system == "windows":
        cmd.assign(name, value)
        cmd.assign(name, value, delayed=True)
    else:
        posix.assign(name, value)
    powershell.assign(name, value)


def _require_different(section: str, variables: Mapping[str, str], system: System) -> None:
    """Windows knows one variable where two names differ by case alone."""
    seen: dict[str, str] = {}
    for name in variables if system == "windows" else ():
        if other := seen.get(name.upper()):
            raise SettingsError(
                f"{other} and {name} are one variable on Windows",
                where=f"{section}.{name}",
                todo="take one of them out",
            )
        seen[name.upper()] = name
