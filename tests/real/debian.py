"""A Debian root with the real PyTorch tree, and doit run inside it; `debian-root` makes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from filelock import FileLock

from tests.support.yard import NAME, ROOT, Yard

SCRIPT = Path(__file__).with_name("debian-root")
FOLDER = "TORCHYARD_TEST_DEBIAN"
VENV = PurePosixPath("/src/venv")
CACHE = {  # a compiler is known by its bytes: the root may be made anew
    "CCACHE_DIR": "/src/ccache",
    "CCACHE_BASEDIR": "/src",
    "CCACHE_COMPILERCHECK": "content",
    "CCACHE_MAXSIZE": "20G",
}
_SRC = PurePosixPath("/src")
_LOCALE = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}  # ccache asks for both
_LOCAL = ("-c", "protocol.file.allow=always")  # git refuses submodules from this machine
_NETWORK = ("PIP_", "UV_", "SSL_CERT_FILE", "HTTP", "http", "NO_PROXY", "no_proxy", "ALL_PROXY")
_NAMES_CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT")
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"  # debian-root copies there what they name
SYSTEM = tuple(f"/{place}" for place in ("usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"))


class Debian:
    """The root; paths in it are absolute and begin below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"

    def prepare(self) -> None:
        """Make it where it is not there, with a venv that has what torchyard needs."""
        self.script("up")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        with self._alone():
            self.must("python3", "-m", "venv", str(VENV))
            self.must(f"{VENV}/bin/pip", "install", "--quiet", *project["dependencies"])

    def script(self, verb: str) -> None:
        """`debian-root VERB`, one at a time."""
        with self._alone():
            subprocess.run([SCRIPT, verb, self.folder], check=True)

    def _alone(self) -> FileLock:
        return FileLock(f"{self.folder}.lock")

    def why_not(self) -> str:
        """Why it cannot be made here, "" where it can."""
        asked = subprocess.run(
            [SCRIPT, "can", self.folder], check=True, stderr=subprocess.PIPE, text=True
        )
        return asked.stderr.strip()

    def outside(self, path: PurePosixPath) -> Path:
        """A path inside, as it is called out here."""
        return self.root / path.relative_to("/")

    def start(
        self,
        argv: Sequence[str],
        at: PurePosixPath,
        env: Mapping[str, str] | None = None,
        by: Sequence[str] = (),
        *,
        text: bool = True,
    ) -> subprocess.Popen[Any]:
        """A process inside. The one that is started is the command itself, or what it is run `by`
        out here: signals reach it. `text` says what its output is read as.
        """
        ours = {name: value for name, value in os.environ.items() if name.startswith(_NETWORK)}
        ours |= {name: _CERTIFICATES for name in ours if name in _NAMES_CERTIFICATES}
        return subprocess.Popen(
            [*by, "chroot", self.root, "/usr/bin/env", "-C", at, *argv],
            env={**ours, "PATH": ":".join(SYSTEM), "HOME": "/root", **_LOCALE, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=text,
        )

    def must(self, *argv: str, at: PurePosixPath = _SRC) -> str:
        """The output of a command that has to succeed."""
        with self.start(argv, at) as child:
            out: str = child.communicate(timeout=900)[0]
        assert child.returncode == 0, out
        return out.strip()


class InsideYard(Yard):
    """A checkout inside the root, its own compiler cache included."""

    def __init__(self, debian: Debian, name: str, *, keep: bool = False) -> None:
        self.debian = debian
        self.inside = PurePosixPath("/src/yards") / name
        if not keep:
            shutil.rmtree(debian.outside(self.inside), ignore_errors=True)
        super().__init__(debian.outside(self.inside))

    def add(self, folder: Path) -> None:
        """Put a folder into the checkout."""
        shutil.copytree(folder, self.folder / folder.name, dirs_exist_ok=True)

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """doit, with its output to be read."""
        command = [f"{VENV}/bin/python", "-m", "doit", *argv, f"profile={NAME}"]
        return self.debian.start(command, self.inside, {**CACHE, "CI": "true", **(env or {})})


class Upstream:
    """A bare repository to pull from, somebody who pushes to it, and a person's clone."""

    def __init__(self, debian: Debian, name: str, *, keep: bool = False) -> None:
        self.debian = debian
        self.folder = PurePosixPath("/src/trees") / name
        self.bare, self.author = self.folder / "upstream.git", self.folder / "author"
        self.clone = self.folder / "pytorch"
        if keep and debian.outside(self.clone).exists():
            return
        shutil.rmtree(debian.outside(self.folder), ignore_errors=True)
        self._git("clone", "-q", "--bare", "/src/upstream.git", str(self.bare))
        self._git("clone", "-q", str(self.bare), str(self.author))
        self._git("clone", "-q", str(self.bare), str(self.clone))

    def write(self, name: str, text: str) -> None:
        """Write a file of the author's."""
        path = self.debian.outside(self.author / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def append(self, name: str, text: str) -> None:
        """Add a line to a file of the author's."""
        path = self.debian.outside(self.author / name)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"{text}\n")

    def append_each(self, names: Iterable[str], text: str) -> None:
        """Add a line to each of these files."""
        for name in names:
            self.append(name, text)

    def diff(self) -> str:
        """What the author has not committed, as a patch."""
        return self._git("diff", at=self.author) + "\n"

    def undo(self) -> None:
        """Take back what the author has not committed."""
        self._git("checkout", "-q", "--", ".", at=self.author)

    def add_submodule(self, path: str, files: Mapping[str, str]) -> None:
        """A repository of its own with these files, as a submodule of the author's tree."""
        home = self.folder / PurePosixPath(path).name
        self._git("init", "-q", "-b", "main", str(home))
        self._commit(home, files)
        self._git(*_LOCAL, "submodule", "add", "-q", f"file://{home}", path, at=self.author)

    def move_submodule(self, path: str, files: Mapping[str, str]) -> str:
        """A commit in that repository, and the author's tree at it; returns the commit."""
        moved = self._commit(self.folder / PurePosixPath(path).name, files)
        self._git(*_LOCAL, "submodule", "update", "-q", "--remote", path, at=self.author)
        return moved

    def _commit(self, home: PurePosixPath, files: Mapping[str, str]) -> str:
        for name, text in files.items():
            (self.debian.outside(home) / name).write_text(text, encoding="utf-8")
        self._git("add", "-A", at=home)
        self._git("commit", "-q", "-m", "next", at=home)
        return self._git("rev-parse", "HEAD", at=home)

    def push(self, message: str) -> str:
        """Commit what the author has and push it; returns the commit."""
        self._git("add", "-A", at=self.author)
        self._git("commit", "-q", "-m", message, at=self.author)
        self._git("push", "-q", "origin", "HEAD:main", at=self.author)
        return self._git("rev-parse", "HEAD", at=self.author)

    def pull(self) -> None:
        """What the person does."""
        self._git("pull", "-q", "--ff-only", at=self.clone)

    def archive(self, name: str) -> PurePosixPath:
        """The author's last commit as a release archive."""
        packed = self.folder / f"{name}.tar.gz"
        argv = ("archive", f"--prefix={name}/", "-o", str(packed), "HEAD")
        self._git(*argv, at=self.author)
        return packed

    def mine(self, name: str) -> Path:
        """A file of the person's clone, as it is called out here."""
        return self.debian.outside(self.clone / name)

    def _git(self, *argv: str, at: PurePosixPath = _SRC) -> str:
        return self.debian.must("git", *argv, at=at)


def where() -> Path:
    """The folder of the root: kept from one run of the tests to the next."""
    return Path(os.environ.get(FOLDER, "/var/lib/torchyard-debian"))


def profile(name: str, **sections: object) -> dict[str, Any]:
    """A shipped profile with a compiler cache; `sections` replace those of the profile, or, where
    both are mappings, are laid over them.
    """
    shipped = ROOT / "config" / "profiles" / f"{name}.yaml"
    settings: dict[str, Any] = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    for language in ("C", "CXX", "CUDA"):
        settings["build"]["env"][f"CMAKE_{language}_COMPILER_LAUNCHER"] = "ccache"
    for key, value in sections.items():
        under = settings.get(key)
        laid = {**under, **value} if isinstance(under, dict) and isinstance(value, dict) else value
        settings[key] = laid
    return settings
