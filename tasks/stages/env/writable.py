"""Variables of the settings that no script could hold, refused before anything runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.model import System
from tasks.core.quoting import cmd, posix, powershell
from tasks.settings.schema import Settings


def require_writable_variables(settings: Settings, system: System) -> None:
    """Raises `SettingsError`, which names the key, for the first that a shell of `system` has no
    way to write.
    """
    for section, variables in _list_user_variables(settings):
        _require_distinct_names(section, variables, system)
        _require_unreserved_names(section, variables)
        for name, value in variables.items():
            try:
                _check_assignable(system, name, value)
            except TorchyardError as error:
                where = f"{section}.{name}"
                raise SettingsError(error.message, location=where, hint=error.hint) from error


def _list_user_variables(settings: Settings) -> Iterator[tuple[str, Mapping[str, str]]]:
    flags = settings.build.flags.items()
    yield "build.flags", {name: value for name, value in flags if isinstance(value, str)}
    yield "build.env", settings.build.env
    yield "runtime.env", settings.runtime.env


def _require_unreserved_names(section: str, variables: Mapping[str, str]) -> None:
    """The scripts keep what they take back in variables of their own."""
    for name in variables:
        if name.lower().startswith("_torchyard"):
            raise SettingsError(
                f"{name} is a name that the environment scripts use for themselves",
                location=f"{section}.{name}",
                hint="choose one that does not begin with _torchyard",
            )


def _check_assignable(system: System, name: str, value: str) -> None:
    if system == "windows":
        cmd.format_cmd_assignment(name, value)
        cmd.format_cmd_assignment(name, value, delayed=True)
    else:
        posix.format_posix_assignment(name, value)
    powershell.format_powershell_assignment(name, value)


def _require_distinct_names(section: str, variables: Mapping[str, str], system: System) -> None:
    """Windows knows one variable where two names differ by case alone."""
    seen: dict[str, str] = {}
    for name in variables if system == "windows" else ():
        if other := seen.get(name.upper()):
            raise SettingsError(
                f"{other} and {name} are one variable on Windows",
                location=f"{section}.{name}",
                hint="take one of them out",
            )
        seen[name.upper()] = name
