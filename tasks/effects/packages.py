"""Installing into a Python environment: by uv, which comes with us, or by pip where uv cannot run.

Every install into the built environment takes the toolkit's pins as constraints, so that no
resolver moves them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tasks.effects import files, offline, shell
from tasks.errors import BadArtifactError, CommandFailedError, FetchError
from tasks.model import Command, Locked

_NOT_TRUSTED = (
    "the certificate of the package index is not trusted: set SSL_CERT_FILE, and PIP_CERT for pip, "
    "to your organisation's bundle"
)
_NO_ANSWER = (
    "the package index did not answer: check the network, proxy and index settings "
    "(UV_INDEX_URL, PIP_INDEX_URL), then run the same command again"
)
_NO_VERSION = "the index has no such version for this Python and platform"
_NOT_BUNDLED = (
    "the bundle that offline names does not hold it: build where there is a network, then "
    "doit lock and doit bundle again"
)

# What to do where a resolver or downloader says one of these; the first that holds counts.
_KINDS = (
    (_NOT_TRUSTED, ("invalid peer certificate", "CERTIFICATE_VERIFY_FAILED")),
    (_NO_ANSWER, ("Failed to fetch", "error sending request", "Could not connect")),
    (_NO_ANSWER, ("Max retries exceeded", "connection broken by", "NewConnectionError")),
    (_NO_ANSWER, ("Temporary failure in name resolution", "ConnectTimeoutError", "dns error")),
    (_NO_VERSION, ("No solution found", "No matching distribution", "Could not find a version")),
)

# uv: Hash mismatch for `a==1` / Expected: sha256:X / Computed: sha256:Y; pip: a==1 from URL: /
# Expected sha256 X / Got Y
_OTHER_BYTES = re.compile(
    r"(?:Hash mismatch for `(?P<uv>[^`]+)`|^\s*(?P<pip>\S+==\S+) .*?:$)"
    r"(?P<wanted>.*?)(?:Computed:|Got)\s*(?:sha256:)?(?P<found>[0-9a-f]{64})",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Download:
    """A wheel, or an sdist, to fetch into the folder `landing`, for the interpreter `python`.

    `index` (a URL, or a folder of wheels) is where to look, "" the default index. `env` is the
    whole environment, None for the host's: pip runs the setup.py of an sdist to be told its name.
    """

    python: str
    requirement: str
    index: str
    landing: PurePath
    log: PurePath
    sdist: bool = False
    env: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Extra:
    """What goes with an install: constraints ("name==1.2"), an index beside the default one,
    requirement files, and options that uv and pip share.
    """

    constraints: tuple[str, ...] = ()
    index: str = ""
    files: tuple[PurePath, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Packages:
    """The packages of one interpreter. `target` is a folder to install into instead (build tools
    beside it).
    """

    python: str
    uv: str | None
    log: PurePath
    target: PurePath | None = None

    def install(self, requirements: Sequence[str], extra: Extra = Extra(), what: str = "") -> None:
        """Install requirements: names, or paths of wheels. What is there already stays."""
        if extra.constraints:
            text = "".join(f"{pin}\n" for pin in extra.constraints)
            files.write_atomic(self._constraints(), text)
        argv = self.install_argv(requirements, extra)
        self._run(argv, what or f"install {', '.join(requirements) or 'requirements'}")

    def install_locked(self, locked: Locked, index: str = "") -> None:
        """Install exactly these, each of a file with one of its digests. What is there already in
        that version stays. `BadArtifactError` where the index gives other bytes.
        """
        if not locked:
            return
        listed = self.log.with_name(f"{PurePath(self.log).stem}-locked.txt")
        files.write_atomic(listed, with_digests(locked))
        options = ("--require-hashes", "--no-deps")
        extra = Extra(index=index, files=(listed,), options=options)
        self._run(self.install_argv((), extra), "install what torchyard.lock holds")

    def install_argv(self, requirements: Sequence[str], extra: Extra = Extra()) -> tuple[str, ...]:
        """The command for it; of what is here it knows whether an index is a folder."""
        return (
            *self._tool("install"),
            *(("--target", str(self.target)) if self.target else ()),
            *(("-c", str(self._constraints())) if extra.constraints else ()),
            *index_options(extra.index),
            *extra.options,
            *(part for path in extra.files for part in ("-r", str(path))),
            *requirements,
        )

    def install_wheel(self, wheel: PurePath, extra: Extra = Extra()) -> None:
        """Install a wheel file, also over another build of the same version."""
        what = f"install {wheel.name}"
        if self.uv:
            again = ("--reinstall-package", wheel.name.partition("-")[0])
            self.install([str(wheel)], replace(extra, options=(*extra.options, *again)), what)
            return
        self.install([str(wheel)], extra, what)
        self.install([str(wheel)], Extra(options=("--force-reinstall", "--no-deps")), what)

    def _tool(self, verb: str) -> tuple[str, ...]:
        if self.uv:
            return (
                self.uv,
                "pip",
                verb,
                "--python",
                self.python,
                *(("--no-progress",) if verb == "install" else ()),
            )
        return (self.python, "-m", "pip", verb, "--disable-pip-version-check")

    def _constraints(self) -> PurePath:
        return self.log.with_name("constraints.txt")

    def _run(self, argv: Sequence[str], what: str) -> None:
        try:
            shell.run(Command(tuple(argv), shell.host_env(), what, log=self.log))
        except CommandFailedError as error:
            raise explained(error) from error


def with_digests(locked: Locked) -> str:
    """As a requirements file: a line each, with `--hash` for every digest."""
    digests = {pin: "".join(f" --hash=sha256:{one}" for one in locked[pin]) for pin in locked}
    return "".join(f"{pin}{digests[pin]}\n" for pin in sorted(locked))


def explained(
    error: CommandFailedError,
) -> CommandFailedError | FetchError | BadArtifactError:
    """A resolver's or downloader's failure by its kind: no answer, no such version, or what it
    was.
    """
    text = error.what
    log = Path(error.where.rpartition(":")[0]) if error.where else None
    if log and log.is_file():
        text += log.read_text(encoding="utf-8").rpartition("\n$ ")[2]
    if other := _OTHER_BYTES.search(text):
        return _other_bytes(other, error.where)
    for todo, signs in _KINDS:
        if any(sign in text for sign in signs):
            remedy = _NOT_BUNDLED if offline.is_offline() else todo
            return FetchError(error.what, where=error.where, todo=remedy)
    return error


def _other_bytes(told: re.Match[str], where: str) -> BadArtifactError:
    wanted = " or ".join(dict.fromkeys(re.findall(r"[0-9a-f]{64}", told["wanted"])))
    return BadArtifactError(
        f"the index gives {told['uv'] or told['pip']} with sha256 {told['found']}, and {wanted} is "
        "locked",
        where=where,
        todo="find out who changed the file. To take it all the same: "
        "TORCHYARD__LOCK=false doit build, then doit lock",
    )


def index_options(index: str) -> tuple[str, ...]:
    """Options that add an index URL or a folder of wheels to the default index."""
    if not index or offline.is_offline():
        return ()
    return ("--find-links", index) if Path(index).is_dir() else ("--extra-index-url", index)


def download(job: Download) -> Path:
    """Fetch one wheel or sdist, nothing else. pip checks the digest that the index gives.

    Raises `FetchError` where there is none.
    """
    files.remove_owned(job.landing)
    files.own(job.landing)
    argv = download_argv(job)
    try:
        env = shell.host_env() if job.env is None else job.env
        shell.run(Command(argv, env, f"fetch {job.requirement}", log=job.log))
    except CommandFailedError as error:
        raise explained(error) from error
    return next(path for path in Path(job.landing).iterdir() if path.name != files.TAG)


def download_argv(job: Download) -> tuple[str, ...]:
    """The command for it; of what is here it knows whether an index is a folder."""
    form = ("--no-binary=:all:", "--no-build-isolation") if job.sdist else ("--only-binary=:all:",)
    argv = (job.python, "-m", "pip", "download", "--no-deps", *form, "--progress-bar", "off")
    return (*argv, "-d", str(job.landing), *_only(job.index), job.requirement)


def _only(index: str) -> tuple[str, ...]:
    if not index or offline.is_offline():
        return ()
    return ("--no-index", "--find-links", index) if Path(index).is_dir() else ("--index-url", index)
