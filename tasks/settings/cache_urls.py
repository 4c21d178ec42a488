"""Convert the URL of a remote compiler cache to the variables of ccache and sccache.

Sources: ccache's doc/manual.adoc, "Remote storage backends" (4.7); sccache's docs/Redis.md,
Webdav.md and S3.md (0.15).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

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
    """The user name and password for a server; each is "" if it is not needed."""

    user: str
    password: str


def is_configured_by_user(kind: str, environment: Mapping[str, str]) -> bool:
    """Return True if the user's environment variables name a remote cache."""
    return any(name in environment for name in _USER_VARIABLES[kind])


def build_cache_variables(kind: str, version: str, url: str) -> dict[str, str]:
    """Return the variables that make a cache of this kind and version use `url`."""
    if kind == "ccache":
        old = parse_major_minor(version) < _REMOTE_STORAGE_SINCE
        return {_USER_VARIABLES["ccache"][1 if old else 0]: _format_ccache_url(url)}
    parts, account = urlsplit(url), parse_cache_account(url)
    path = parts.path.strip("/")
    match parts.scheme:
        case "s3":
            variables = {"SCCACHE_BUCKET": parts.netloc, "SCCACHE_S3_KEY_PREFIX": path}
        case "http" | "https":
            variables = {
                "SCCACHE_WEBDAV_ENDPOINT": f"{parts.scheme}://{_strip_credentials(parts)}",
                "SCCACHE_WEBDAV_KEY_PREFIX": path,
                "SCCACHE_WEBDAV_USERNAME": account.user,
                "SCCACHE_WEBDAV_PASSWORD": account.password,
            }
        case _:
            variables = {
                "SCCACHE_REDIS_ENDPOINT": f"{parts.scheme}://{_strip_credentials(parts)}",
                "SCCACHE_REDIS_DB": path,
                "SCCACHE_REDIS_USERNAME": account.user,
                "SCCACHE_REDIS_PASSWORD": account.password,
            }
    return {name: value for name, value in variables.items() if value}


def _format_ccache_url(url: str) -> str:
    """Return the URL for ccache, with default timeouts unless the URL sets timeouts.

    The colon in `redis://:PASSWORD` is removed: ccache would send an empty user name, which redis
    does not know.
    """
    storage_url = url.replace("redis://:", "redis://", 1)
    return storage_url if "-timeout=" in storage_url else f"{storage_url}{_CCACHE_TIMEOUTS}"


def explain_unsupported_url(kind: str, features: str, url: str) -> str:
    """Return why a cache of this kind cannot use the URL, "" if it can.

    `features` is the feature list that ccache reports. With an unsupported URL, ccache fails every
    compilation.
    """
    scheme = urlsplit(url).scheme
    if kind == "ccache" and f"{scheme}-storage" not in features.split():
        return f"this ccache knows no {scheme}: take build.cache: sccache, or another server"
    if kind == "sccache" and "|" in url:
        return "what stands behind the | is for ccache: take build.cache: ccache, or leave it out"
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
    """Return the host and port of the server, None for a bucket.

    Only the cache program knows the host of a bucket.
    """
    parts = urlsplit(url.partition("|")[0])
    if parts.scheme == "s3":
        return None
    return parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]


def parse_cache_account(url: str) -> CacheAccount:
    """Return the account in the URL. In a redis URL, a single word before the @ is a password."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if parts.scheme.startswith("redis") and parts.password is None:
        return CacheAccount("", user)
    return CacheAccount(user, password)


def _strip_credentials(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]
