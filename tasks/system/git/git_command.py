"""Build git commands, retry them after network failures, and explain their errors."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

from tasks.core import errors
from tasks.core.model import Command
from tasks.core.text_formatting import format_short_list
from tasks.system import shell
from tasks.system.network import network_access

_GIT_OPTIONS = (
    "protocol.ext.allow=never",  # a URL, above all a submodule's, must not run a command
    "advice.detachedHead=false",
    "core.longpaths=true",  # for git for Windows: PyTorch's tree has paths beyond its limit
    "http.lowSpeedLimit=1000",  # bytes per second: give up on a host that hangs
    "http.lowSpeedTime=60",
)
_PERMANENT_FAILURE = re.compile(
    r"remote ref|not our ref|unadvertised object|dumb http|repository '.*' not found|does not exist"
    r"|Authentication failed|could not read Username|does not appear to be a git|not allowed"
    r"|not a git repository|overwritten by checkout|cannot change to",
    re.IGNORECASE,
)

_OVERWRITTEN_FILES = re.compile(r"(?P<which>.*)overwritten by checkout:\n(?P<names>(?:\t.*\n?)+)")
_SUBMODULE_PATH = re.compile(r"in submodule path '(?P<path>[^']+)'")


def build_git_command(
    *args: str,
    what: str,
    at: PurePath | None = None,
    mirrors: Mapping[str, str] | None = None,
    log: PurePath | None = None,
    local: bool = False,
) -> Command:
    """Return a git command with the arguments `args`, to run in the folder `at`.

    `what` describes the command in messages. `mirrors` maps URL prefixes to replacements. git does
    not search parent folders for a repository and does not ask for a password. If `local` is True,
    submodules may be cloned from local paths.
    """
    options = [*_GIT_OPTIONS]
    rewrites = sorted(mirrors.items()) if mirrors else []
    if local or any(is_local_url(mirror) for _, mirror in rewrites):
        options.append("protocol.file.allow=always")
    argv = ("git", *(part for option in options for part in ("-c", option)), *args)
    env = {**shell.build_host_env(), "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    if at is not None:
        env["GIT_CEILING_DIRECTORIES"] = str(Path(at).absolute().parent)
    if rewrites:  # in variables, which git passes to the commands for submodules
        env["GIT_CONFIG_COUNT"] = str(len(rewrites))
    for number, (prefix, mirror) in enumerate(rewrites):
        env[f"GIT_CONFIG_KEY_{number}"] = f"url.{mirror}.insteadOf"
        env[f"GIT_CONFIG_VALUE_{number}"] = prefix
    return Command(argv, {**env, "LC_ALL": "C"}, what, cwd=at, log=log)


def is_local_url(url: str) -> bool:
    """Return True if a git URL is a path on this machine or begins with file:."""
    if url.startswith("file:"):
        return True
    head = url.split("/", 1)[0]
    return "://" not in url and (":" not in head or re.match(r"[A-Za-z]:[\\/]", url) is not None)


def retry_git_action(url: str, action: Callable[[], None]) -> None:
    """Run an action, up to three times if it fails for a temporary reason.

    If the last attempt fails as well, raises `FetchError`. Other errors are raised at once.
    """

    def find_retry_reason(error: Exception) -> str:
        if not isinstance(error, errors.CommandFailedError) or _PERMANENT_FAILURE.search(
            error.output
        ):
            return ""
        message = error.message.removeprefix(error.exit_description).removeprefix(": ")
        return message.removeprefix("fatal: ").removeprefix("error: ") or error.exit_description

    try:
        network_access.retry_action(f"git: {errors.redact_secrets(url)}", action, find_retry_reason)
    except errors.CommandFailedError as error:
        if _PERMANENT_FAILURE.search(error.output):
            raise
        raise build_fetch_error(url, error) from error


def build_fetch_error(url: str, error: errors.CommandFailedError) -> errors.FetchError:
    """Return the error for a failed fetch; in offline mode, it says that the bundle lacks `url`."""
    message = f"git cannot fetch {url}: {error.message}"
    hint = (
        "check the URL, the network and the proxy, or set a mirror in the settings (mirrors); "
        f"then run the same command again to continue the fetch; {errors.OFFLINE_HINT}"
    )
    if network_access.is_offline():
        message = f"the bundle does not contain {url}: {error.message}"
        hint = "create the bundle again: doit bundle; its bundle.json lists what it contains"
    return errors.FetchError(message, location=error.location, hint=hint)


def guard_local_edits(tree: PurePath, action: Callable[[], None]) -> None:
    """Run `action`; raise `LostEditsError` if git refuses to overwrite the user's files."""
    try:
        action()
    except errors.CommandFailedError as error:
        if "overwritten by checkout" not in error.output:
            raise
        # git names the submodule after the list of files
        submodule = _SUBMODULE_PATH.search(error.output)
        checkout = Path(tree) / submodule["path"] if submodule else tree
        if not (overwritten := _OVERWRITTEN_FILES.search(error.output)):
            raise build_lost_edits_error(checkout, error.message) from error
        names = format_short_list([name.strip() for name in overwritten["names"].splitlines()], 5)
        message = f"{error.exit_description}: git would overwrite your changes in: {names}"
        stash = "stash -u" if "untracked" in overwritten["which"] else "stash"
        raise build_lost_edits_error(checkout, message, stash=stash) from error


def build_lost_edits_error(
    tree: PurePath, message: str, stash: str = "stash"
) -> errors.LostEditsError:
    """Return the error for a step that would lose edits; `stash` is git's command to save them."""
    hint = f"commit your changes, or run git -C {tree} {stash}; then run the same command again"
    return errors.LostEditsError(message, location=str(tree), hint=hint)
