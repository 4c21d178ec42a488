"""Convert the URL of a remote compiler cache to the variables of ccache 4.7 and sccache 0.15."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from tasks.knowledge.versions import parse_major_minor

_DEFAULT_PORTS = {"redis": 6379, "rediss": 6379, "http": 80, "https": 443}
_REMOTE_STORAGE_SINCE = (4, 7)  # of ccache; older releases use CCACHE_SECONDARY_STORAGE
# In milliseconds. ccache's default of 100 to connect is too short for a distant server. Its default
# of 10,000 for an answer would delay each compilation that long if the server stops answering
_CCACHE_TIMEOUTS = "|connect-timeout=500|operation-timeout=2000"
# Variables with which a user configures a remote cache
_USER_VARIABLES = {
    "ccache": ("CCACHE_REMOTE_STORAGE", "CCACHE_SECONDARY_STORAGE"),
    "sccache": (
        *("SCCACHE_REDIS_ENDPOINT", "SCCACHE_REDIS", "SCCACHE_REDIS_CLUSTER_ENDPOINTS"),
        *("SCCACHE_WEBDAV_ENDPOINT", "SCCACHE_BUCKET", "SCCACHE_GCS_BUCKET"),
        *("SCCACHE_MEMCACHED_ENDPOINT", "SCCACHE_AZURE_CONNECTION_STRING"),
    ),
}


@dataclass(frozen=True)
class CacheAccount:
    """The user name and password for a server, "" if the URL has none."""

    user: str
    password: str


def is_configured_by_user(kind: str, environment: Mapping[str, str]) -> bool:
    """Return True if the user's environment variables name a remote cache."""
    return any(name in environment for name in _USER_VARIABLES[kind])


def build_cache_variables(kind: str, version: str, url: str) -> dict[str, str]:
    """Return the variables that make a cache of this kind and version use `url`."""
    if kind == "ccache":
        old = parse_major_minor(version) < _REMOTE_STORAGE_SINCE
        # ccache would send the empty user name in `redis://:PASSWORD`, which redis does not know
        url = url.replace("redis://:", "redis://", 1)
        timeouts = "" if "-timeout=" in url else _CCACHE_TIMEOUTS
        return {_USER_VARIABLES["ccache"][old]: f"{url}{timeouts}"}
    parts, account = urlsplit(url), parse_cache_account(url)
    path = parts.path.strip("/")
    match parts.scheme:
        case "s3":
            variables = {"SCCACHE_BUCKET": parts.netloc, "SCCACHE_S3_KEY_PREFIX": path}
        case scheme:
            backend, key = ("REDIS", "DB") if "redis" in scheme else ("WEBDAV", "KEY_PREFIX")
            variables = {
                f"SCCACHE_{backend}_ENDPOINT": f"{scheme}://{parts.netloc.rpartition('@')[2]}",
                f"SCCACHE_{backend}_{key}": path,
                f"SCCACHE_{backend}_USERNAME": account.user,
                f"SCCACHE_{backend}_PASSWORD": account.password,
            }
    return {name: value for name, value in variables.items() if value}


def explain_unsupported_url(kind: str, features: str, url: str) -> str:
    """Return why the cache cannot use the URL, "" if it can. `features` is what ccache supports."""
    scheme = urlsplit(url).scheme
    if kind == "ccache" and f"{scheme}-storage" not in features.split():
        return f"this ccache does not support {scheme}: set build.cache: sccache, or another URL"
    if kind == "sccache" and "|" in url:
        return "only ccache reads options after a |: remove them, or set build.cache: ccache"
    return ""


def find_url_mistake(url: str) -> str:
    """Return why the URL is invalid, "" if it is valid."""
    try:
        port = urlsplit(url.partition("|")[0]).port
    except ValueError as error:
        if not str(error).startswith("Port"):
            return str(error)
        port = 0
    return "a port is a number from 1 to 65535" if port == 0 else ""


def parse_cache_address(url: str) -> tuple[str, int] | None:
    """Return the host and port of the server, `None` for a bucket (s3), whose URL has neither."""
    parts = urlsplit(url.partition("|")[0])
    if parts.scheme == "s3":
        return None
    return parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]


def parse_cache_account(url: str) -> CacheAccount:
    """Return the account in the URL. In a redis URL, a single word before the @ is the password."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if parts.scheme.startswith("redis") and parts.password is None:
        return CacheAccount("", user)
    return CacheAccount(user, password)
