"""`doit cache info|prune`: show the user's cache, which all projects share, and shrink it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tasks.compiler_cache import cache_program_io
from tasks.core.errors import TorchyardError
from tasks.core.model import Command
from tasks.core.text_formatting import format_size
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.system import environments, shell, user_cache
from tasks.system.output import print_report, print_warning
from tasks.system.user_cache import CacheEntry

_DEFAULT_DAYS = 30
_STORE_TITLES = {
    user_cache.GIT_STORE: "git clones",
    user_cache.WHEEL_STORE: "torch wheels",
    user_cache.ARCHIVE_STORE: "source archives",
}
_MIB = 2**20


@dataclass(frozen=True)
class OtherCache:
    """The cache of another program: its name, folder, and size in bytes (None if unknown)."""

    name: str
    folder: str
    size: float | None


def run(  # noqa: PLR0913, PLR0917 - one parameter for each option
    subject: SelectedProfile,
    actions: Sequence[str] = (),
    days: str = "",
    all: bool = False,  # noqa: A002 - the name of the option
    uv: bool = False,
    yes: bool = False,
) -> None:
    """Show the cache (`info`), or remove old entries from it (`prune`), with `yes` in fact."""
    cache, action = Path(subject.project.cache), " ".join(actions) or "info"
    if action == "info":
        _print_info(cache)
    elif action == "prune":
        _prune(cache, 0.0 if all else _parse_days(days), uv=uv, yes=yes)
    else:
        hint = "run: doit cache info, or doit cache prune"
        raise TorchyardError(f'"{action}" is not an action of cache', hint=hint)


def _parse_days(text: str) -> float:
    try:
        days = float(text or _DEFAULT_DAYS)
    except ValueError:
        days = -1.0
    if not 0 <= days < float("inf"):
        hint = "write a number of days, such as: doit cache prune --days 7"
        raise TorchyardError(f'"{text}" is not a number of days', hint=hint)
    return days


def _print_info(cache: Path) -> None:
    print_report(f"cache of all projects: {cache}")
    total = 0.0
    for name, title in _STORE_TITLES.items():
        store = cache / name
        entries = user_cache.list_entries(store)
        usages = [user_cache.measure_folder(entry.folder) for entry in entries]
        size = sum(usage.size for usage in usages)
        total += size
        print_report(f"{title}: {_format_bytes(size)} in {store}")
        for entry, usage in zip(entries, usages, strict=True):
            print_report(f"  {_format_bytes(usage.size):>9}  {_describe(entry)}")
    for other in _find_other_caches():
        total += other.size or 0
        size_text = "unknown size" if other.size is None else _format_bytes(other.size)
        print_report(f"{other.name}: {size_text} in {other.folder}")
    print_report(f"total: {_format_bytes(total)}")


def _describe(entry: CacheEntry) -> str:
    days = round(entry.idle_days)
    when = {0: "today", 1: "1 day ago"}.get(days, f"{days:,} days ago")
    return f"{entry.subject}, last used {when}"


def _find_other_caches() -> Iterator[OtherCache]:
    """Yield the caches of uv, ccache and sccache, if these programs are installed."""
    if folder := _find_uv_cache():
        yield OtherCache("uv", folder, user_cache.measure_folder(Path(folder)).size)
    env = shell.build_host_env()
    if (ccache := cache_program_io.find_cache("ccache")) and (
        folder := _query(ccache.path, "--get-config", "cache_dir")
    ):
        lines = (line.split("\t") for line in _query(ccache.path, "--print-stats").splitlines())
        kib = dict(line for line in lines if len(line) == 2).get("cache_size_kibibyte", "")
        yield OtherCache("ccache", folder, int(kib) * 1024 if kib.isdecimal() else None)
    if sccache := cache_program_io.find_cache("sccache"):
        with suppress(TorchyardError, ValueError, KeyError, TypeError):
            stats = cache_program_io.query_server(sccache, env)
            yield OtherCache("sccache", str(stats["cache_location"]), stats.get("cache_size"))


def _find_uv_cache() -> str:
    uv = environments.find_uv()
    return _query(uv, "cache", "dir") if uv else ""


def _query(*argv: str) -> str:
    """Return the output of a short command without line breaks at its ends; "" if it fails."""
    command = Command(argv, shell.build_installer_env(), f"ask {Path(argv[0]).stem}")
    with suppress(TorchyardError):
        return shell.capture_output(command).strip()
    return ""


def _prune(cache: Path, days: float, *, uv: bool, yes: bool) -> None:
    """Remove the entries that were not used for `days`. Without `yes`, only list them."""
    stores = (user_cache.list_entries(cache / name) for name in _STORE_TITLES)
    old = [entry for store in stores for entry in store if entry.idle_days >= days]
    freed = sum(_prune_entry(entry, yes=yes) for entry in old)
    if uv:
        _prune_uv_cache(yes=yes)
    if not old and not uv:
        print_report(f"nothing to remove: every entry was used in the last {days:g} days")
    elif yes:
        print_report(f"freed {_format_bytes(freed)}")
    else:
        print_report("nothing was removed yet; to remove these entries, add --yes")


def _prune_entry(entry: CacheEntry, *, yes: bool) -> int:
    """Remove an entry with `yes`, print its size, and return how many bytes that frees."""
    usage = user_cache.measure_folder(entry.folder)
    size = _format_bytes(usage.size)
    if shared := usage.size - usage.freed:
        size += f", of which projects still use {_format_bytes(shared)}"
    try:
        if yes and not user_cache.remove_entry(entry):
            print_report(f"{entry.folder} is kept: a running build uses it")
            return 0
    except (OSError, TorchyardError) as error:
        print_warning(f"{entry.folder} cannot be removed: {error}")
        return 0
    print_report(f"{'removed' if yes else 'would remove'} {_describe(entry)} ({size})")
    return usage.freed


def _prune_uv_cache(*, yes: bool) -> None:
    uv, folder = environments.find_uv(), _find_uv_cache()
    if not uv or not folder:
        print_warning("uv is not installed, so its cache was not pruned")
    elif not yes:
        print_report(f"would run uv cache prune for {folder}")
    else:
        before = user_cache.measure_folder(Path(folder))
        env = shell.build_installer_env()
        shell.capture_output(Command((uv, "cache", "prune"), env, "prune uv's cache"))
        after = user_cache.measure_folder(Path(folder))
        print_report(f"uv's cache: freed {_format_bytes(before.size - after.size)} in {folder}")


def _format_bytes(size: float) -> str:
    return format_size(size / _MIB)
