"""Use the remote compiler cache. Each run checks once whether the cache is usable."""

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from tasks.compiler_cache.cache_program_io import (
    CacheCounts,
    query_server,
    read_ccache_settings,
    start_server,
)
from tasks.core.deps_model import CompilerCache
from tasks.core.errors import CommandFailedError, MissingToolError, redact_secrets
from tasks.core.model import Command
from tasks.settings import cache_urls
from tasks.system import files, shell
from tasks.system.output import print_warning

_CONNECT_TIMEOUT = 2.0  # seconds, with the DNS lookup
_CHECK_LOCK = threading.Lock()  # extensions build in parallel
_usable_by_url: dict[tuple[str, str], bool] = {}  # by program and URL
_USER_CACHE = "in your environment variables"


@contextlib.contextmanager
def open_remote_environment(
    cache: CompilerCache, url: str, env: Mapping[str, str], folder: PurePath
) -> Iterator[dict[str, str]]:
    """Yield the environment for compilers. It enables the remote cache if that can be used.

    A remote cache in the user's variables overrides `url`. The environment has no credentials:
    sccache's server gets them at its start, and ccache reads them from a private file in `folder`.
    """
    plain_env, store = _split_remote_variables(cache, url, env)
    if cache.kind == "sccache" or not store:
        if store:
            start_server(cache, {**plain_env, **store})
        yield plain_env
    elif all(redact_secrets(value) == value for value in store.values()):
        yield {**plain_env, **store}
    else:
        # With CCACHE_CONFIGPATH, ccache does not read the user's files. ccache expands $NAME
        remote = {name.removeprefix("CCACHE_").lower(): value for name, value in store.items()}
        config = read_ccache_settings(cache.path, plain_env)
        config |= {key: value.replace("$", "%24") for key, value in remote.items()}
        file = Path(folder, "ccache.conf")
        text = "".join(f"{key} = {value}\n" for key, value in config.items())
        files.write_atomic(file, text, mode=0o600)
        try:
            yield {**plain_env, "CCACHE_CONFIGPATH": str(file)}
        finally:
            file.unlink(missing_ok=True)


def _split_remote_variables(
    cache: CompilerCache, url: str, env: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return `env` without a remote cache, and the variables that add one ({} if unusable)."""
    if not cache.kind:
        return dict(env), {}
    variables = {**shell.read_remote_cache_variables(), **env}.items()
    remote_variables = {n: v for n, v in variables if n.startswith(shell.REMOTE_CACHE_VARIABLES)}
    plain_env = {name: value for name, value in env.items() if name not in remote_variables}
    store = {n: v for n, v in remote_variables.items() if n.startswith(f"{cache.kind.upper()}_")}
    if cache_urls.is_configured_by_user(cache.kind, remote_variables):
        url = _USER_CACHE
    elif url:  # the user's variables add what a URL cannot express, such as a region
        store |= cache_urls.build_cache_variables(cache.kind, cache.version, url)
    else:
        return plain_env, {}
    if "SCCACHE_BUCKET" in store:  # add the bucket's credentials and region
        store |= {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    return plain_env, store if _is_usable(cache, url, {**plain_env, **store}) else {}


def disable_failing_cache(cache: CompilerCache, url: str, counts: CacheCounts) -> None:
    """Warn and disable the remote cache for the rest of the run if it failed in a build.

    `url` is the URL of the remote cache in the settings. `counts` show whether the cache failed.
    """
    with _CHECK_LOCK:
        used = (name for name in (_USER_CACHE, url) if _usable_by_url.get((cache.path, name)))
        url = next(used, "")
        if not counts.unreached or not url:
            return
        _usable_by_url[cache.path, url] = False
    failed = f"{counts.unreached} of {counts.hits + counts.misses} compilations"
    effect = f"{failed} were cached on this machine only. The build is not affected"
    print_warning(f"the remote compiler cache {url} failed: {effect}")


def _is_usable(cache: CompilerCache, url: str, env: Mapping[str, str]) -> bool:
    with _CHECK_LOCK:
        if (cache.path, url) not in _usable_by_url:
            if obstacle := _find_obstacle(cache, url, env):
                consequence = "is not used, so compilations are cached on this machine only"
                print_warning(f"the remote compiler cache {url} {consequence}: {obstacle}")
            _usable_by_url[cache.path, url] = not obstacle
        return _usable_by_url[cache.path, url]


def _find_obstacle(cache: CompilerCache, url: str, env: Mapping[str, str]) -> str:
    features = _read_ccache_features(cache) if cache.kind == "ccache" else ""
    if url != _USER_CACHE and (
        reason := cache_urls.explain_unsupported_url(cache.kind, features, url)
        or _probe_server(url)
    ):
        return reason
    return _check_sccache_server(cache, env) if cache.kind == "sccache" else ""


def _read_ccache_features(cache: CompilerCache) -> str:
    """Return the features of this ccache, such as "file-storage http-storage"; "" if unknown."""
    output = ""
    command = Command((cache.path, "--version"), shell.build_host_env(), "query ccache")
    with contextlib.suppress(CommandFailedError, MissingToolError):
        output = shell.capture_output(command)
    features = re.search("^Features:(.*)", output, re.MULTILINE)
    return features[1] if features else ""


def _probe_server(url: str) -> str:
    """Return why the server in `url` cannot be used, or "" if it answers."""
    address = cache_urls.parse_cache_address(url)
    if address is None:
        return ""
    results: list[str] = []

    def connect() -> None:
        try:
            with socket.create_connection(address, _CONNECT_TIMEOUT) as line:
                account = cache_urls.parse_cache_account(url)
                results.append(_ping_redis(line, account) if url.startswith("redis:") else "")
        except TimeoutError:
            return
        except OSError as error:
            results.append(str(error.strerror or error).lower())

    # in a thread, because a DNS lookup has no time limit
    probe_thread = threading.Thread(target=connect, daemon=True)
    probe_thread.start()
    probe_thread.join(_CONNECT_TIMEOUT)
    return results[0] if results else f"no answer within {_CONNECT_TIMEOUT:.0f} s"


def _ping_redis(line: socket.socket, account: cache_urls.CacheAccount) -> str:
    """Log in to a redis server and send PING. Return its error, or ""."""
    credentials = [word for word in (account.user, account.password) if word]
    for words in (["AUTH", *credentials] if credentials else [], ["PING"]):
        if words:
            # with their lengths, so that a password can contain any character
            parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
            line.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
            answer = line.recv(512).decode(errors="replace")
            if not answer.startswith("+"):
                return answer.strip("-\r\n") or "the server is not redis"
    return ""


def _check_sccache_server(cache: CompilerCache, env: Mapping[str, str]) -> str:
    """Start sccache's server. Return why it cannot use the remote cache ("" if it can)."""
    start_command = Command((cache.path, "--start-server"), env, "sccache's server", serves=True)
    try:
        shell.capture_output(start_command)
    except (CommandFailedError, MissingToolError) as error:
        if "Address in use" not in error.message:
            return error.message
    else:
        return ""
    try:  # another server is already running
        cache_location = str(query_server(cache, env)["cache_location"])
    except (CommandFailedError, MissingToolError, ValueError, KeyError):
        return "sccache's server does not report its cache"
    message = f"sccache's server runs without this cache; run: {cache.path} --stop-server"
    return message if cache_location.startswith("Local disk") else ""
