"""The exact commands of uv and pip, and the meaning of their failures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.core.errors import CommandFailedError, FetchError, MissingToolError
from tasks.core.model import Command
from tasks.diagnosis.log_io import parse_log
from tasks.system import environments, files, shell
from tasks.system.network import index_client, package_indexes
from tasks.system.network.index_client import explain_client_failure, find_retry_reason
from tasks.system.package_installer import (
    DownloadRequest,
    InstallOptions,
    PackageInstaller,
    download_distribution,
)
from tests.support.checkout import OnSystem
from tests.support.systems import posix_only

PYTHON = "/venv/bin/python"
UV = ("/uv", "pip", "install", "--python", PYTHON, "--no-progress")
PIP = (PYTHON, "-m", "pip", "install", "--disable-pip-version-check")


class Runs(list[Command]):
    """The commands that were run; `then` is called for each of them."""

    then: Callable[[Command], None] = staticmethod(lambda _: None)

    def run(self, command: Command, on_line: object = None) -> None:
        self.append(command)
        self.then(command)

    @property
    def argv(self) -> list[tuple[str, ...]]:
        return [command.argv for command in self]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    found = Runs()
    monkeypatch.setattr(shell, "run_command", found.run)
    return found


def create_installer(
    folder: Path, uv: str | None = "/uv", target: Path | None = None
) -> PackageInstaller:
    return PackageInstaller(PYTHON, uv, folder / "wheel.log", target)


def test_uv_and_pip_get_same_requirements(runs: Runs, tmp_path: Path) -> None:
    create_installer(tmp_path).install_requirements(["ninja>=1.13.1", "numpy"])
    create_installer(tmp_path, uv=None).install_requirements(["ninja>=1.13.1", "numpy"])
    assert runs.argv == [(*UV, "ninja>=1.13.1", "numpy"), (*PIP, "ninja>=1.13.1", "numpy")]
    assert runs[0].step_name == "install ninja>=1.13.1, numpy"
    assert runs[0].log == tmp_path / "wheel.log"
    env = shell.build_installer_env()
    assert runs[0].env == index_client.add_client_defaults(
        env, index_client.find_pip_file_defaults()
    )


def test_constraints_are_written_to_file(runs: Runs, tmp_path: Path) -> None:
    pins = ("nvidia-cuda-nvcc==13.2.86", "nvidia-cuda-cccl==13.2.75")
    create_installer(tmp_path).install_requirements(["torch"], InstallOptions(pins))
    file = tmp_path / "constraints.txt"
    assert runs.argv == [(*UV, "-c", str(file), "torch")]
    assert file.read_text(encoding="utf-8") == "".join(f"{pin}\n" for pin in pins)


def test_all_install_options_are_passed(runs: Runs, tmp_path: Path) -> None:
    extra = InstallOptions(("a==1",), "https://index/cu132", (tmp_path / "r.txt",), ("--no-deps",))
    create_installer(tmp_path, target=tmp_path / "overlay").install_requirements(
        ["b"], extra, "install tools"
    )
    assert runs.argv == [
        (
            *UV, "--target", str(tmp_path / "overlay"), "-c", str(tmp_path / "constraints.txt"),
            "--extra-index-url", "https://index/cu132", "--no-deps", "-r", str(tmp_path / "r.txt"),
            "b",
        )
    ]  # fmt: skip
    assert runs[0].step_name == "install tools"


def test_wheel_replaces_other_build_of_same_version(runs: Runs, tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.15.0-cp312-cp312-linux_x86_64.whl"
    create_installer(tmp_path).install_wheel(wheel, InstallOptions(("a==1",)))
    constraints = ("-c", str(tmp_path / "constraints.txt"))
    assert runs.argv == [(*UV, *constraints, "--reinstall-package", "torch", str(wheel))]
    runs.clear()
    create_installer(tmp_path, uv=None).install_wheel(wheel, InstallOptions(("a==1",)))
    assert runs.argv == [
        (*PIP, *constraints, str(wheel)),
        (*PIP, "--force-reinstall", "--no-deps", str(wheel)),
    ]


def test_index_is_url_or_folder_of_wheels(tmp_path: Path) -> None:
    assert package_indexes.build_extra_index_options("") == ()
    assert package_indexes.build_extra_index_options("https://index/cpu") == (
        "--extra-index-url",
        "https://index/cpu",
    )
    assert package_indexes.build_extra_index_options(str(tmp_path)) == (
        "--find-links",
        str(tmp_path),
    )


@pytest.mark.parametrize(
    ("kind", "options"),
    [("default", ()), ("url", ("--index-url", "https://i")), ("folder", ("--no-index",))],
)
def test_download_uses_only_one_source(
    runs: Runs, tmp_path: Path, kind: str, options: tuple[str, ...]
) -> None:
    index = {"default": "", "url": "https://i", "folder": str(tmp_path)}[kind]
    options = (*options, "--find-links", index) if kind == "folder" else options
    landing = tmp_path / "landing"
    runs.then = lambda _: (landing / "a-1-py3-none-any.whl").touch()
    job = DownloadRequest(PYTHON, "a==1", index, landing, tmp_path / "x.log")
    assert download_distribution(job) == landing / "a-1-py3-none-any.whl"
    assert runs.argv == [
        (
            PYTHON, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--progress-bar",
            "off", "-d", str(landing), *options, "a==1",
        )
    ]  # fmt: skip
    assert runs[0].step_name == "fetch a==1"


def test_sdist_is_downloaded_without_wheels(runs: Runs, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    runs.then = lambda _: (landing / "a-1.tar.gz").touch()
    job = DownloadRequest(PYTHON, "a==1", "", landing, tmp_path / "x.log", sdist=True)
    assert download_distribution(job).name == "a-1.tar.gz"
    assert "--no-binary=:all:" in runs.argv[0]
    assert "--only-binary=:all:" not in runs.argv[0]


def test_files_of_earlier_download_are_removed(runs: Runs, tmp_path: Path) -> None:
    landing = files.create_owned_folder(tmp_path / "landing")
    (landing / "0-old.whl").touch()
    runs.then = lambda _: (landing / "a-1.whl").touch()
    job = DownloadRequest(PYTHON, "a==1", "", landing, tmp_path / "x.log")
    assert download_distribution(job).name == "a-1.whl"


NO_ANSWER = (
    "the package index did not answer: check the network, proxy and index settings "
    "(UV_INDEX_URL, PIP_INDEX_URL, torch.index), then run the same command again; without a "
    "network: run doit bundle on a machine with a network, then set offline: PATH (docs/offline.md)"
)
OF_I = NO_ANSWER.replace("did not answer", "did not answer (i)")
NOT_TRUSTED = (
    "the certificate of the package index is not trusted: set SSL_CERT_FILE, and PIP_CERT for pip, "
    "to the certificate bundle of your organisation"
)
NO_VERSION = "the index has no such version for this Python and platform"


@pytest.mark.parametrize(
    ("said", "todo"),
    [
        ("error: Failed to fetch: `https://me:secret@i/torch/`\n  dns error", OF_I),
        ("Retrying HTTPSConnectionPool(host='i', port=443): Max retries exceeded", OF_I),
        ("WARNING: Retrying ... NewConnectionError('...: refused')", NO_ANSWER),
        ("Temporary failure in name resolution", NO_ANSWER),
        ("Failed to fetch: `https://i`\n invalid peer certificate: UnknownIssuer", NOT_TRUSTED),
        ("  x No solution found when resolving dependencies:", NO_VERSION),
        ("ERROR: No matching distribution found for torch==9", NO_VERSION),
        ("ERROR: Could not find a version that satisfies the requirement torch==9", NO_VERSION),
    ],
)
def test_install_failure_gets_hint_by_cause(
    runs: Runs, tmp_path: Path, said: str, todo: str
) -> None:
    log = tmp_path / "wheel.log"
    log.write_text(f"$ uv pip install torch\nlooking\n{said}\n", encoding="utf-8")

    def fail(_: Command) -> None:
        error = CommandFailedError("install torch failed (exit 2): …", code=2, location=f"{log}:3")
        error.parsed_log = parse_log(log)
        raise error

    runs.then = fail
    with pytest.raises(FetchError) as caught:
        create_installer(tmp_path).install_requirements(["torch"])
    assert str(caught.value) == f"{log}:3: install torch failed (exit 2): …\n  → {todo}"
    with pytest.raises(FetchError):
        download_distribution(DownloadRequest(PYTHON, "torch", "", tmp_path / "landing", log))


RESET = (
    "DEBUG Transient request failure for `https://i/foo/`, retrying: error sending request\n"
    "  Caused by: connection error\n"
    "  Caused by: Connection reset by peer (os error 104)\n"
)
NO_SOLUTION = "error: No solution found when resolving dependencies\n  cause: no foo==2.0"


@posix_only
def test_retried_request_is_not_failure_cause(tmp_path: Path) -> None:
    log = tmp_path / "deps.log"
    (tmp_path / "said").write_text(f"{RESET}{NO_SOLUTION}\n", encoding="utf-8")
    with pytest.raises(CommandFailedError) as failed:
        shell.run_command(failing(tmp_path, log))
    explained = explain_client_failure(failed.value)
    assert isinstance(explained, FetchError)
    assert explained.hint == NO_VERSION
    assert explained.message == f"install foo failed (exit 1): {NO_SOLUTION.splitlines()[0]}"
    assert explained.location == f"{log}:5", "where the error is told"
    assert find_retry_reason(failed.value) == "", "no time mends it"


@posix_only
def test_conflicting_requirements_are_both_named(tmp_path: Path) -> None:
    conflict = (
        "error: No solution found when resolving dependencies\n"
        "  cause: Because foo==1 depends on bar==13.4.92 and you require foo==1, we can conclude "
        "that you require bar==13.4.92.\n"
        "         And because you require bar==13.2.86, we can conclude that your requirements are "
        "unsatisfiable.\n"
    )
    (tmp_path / "said").write_text(conflict, encoding="utf-8")
    with pytest.raises(CommandFailedError) as failed:
        shell.run_command(failing(tmp_path, tmp_path / "deps.log"))
    found = explain_client_failure(failed.value)
    both = "foo==1 depends on bar==13.4.92, and you require bar==13.2.86"
    assert found.message == f"install foo failed (exit 1): {both}"
    assert found.hint.startswith("change one of the two requirements: set another")
    assert find_retry_reason(failed.value) == ""


@posix_only
def test_exhausted_retries_are_failure_cause(tmp_path: Path) -> None:
    log = tmp_path / "deps.log"
    gone = "error: Failed to fetch: `https://i/foo/`\n  Caused by: Connection reset by peer"
    (tmp_path / "said").write_text(f"{RESET}{gone}\n", encoding="utf-8")
    with pytest.raises(CommandFailedError) as failed:
        shell.run_command(failing(tmp_path, log))
    assert find_retry_reason(failed.value) == "the connection broke"


def failing(folder: Path, log: Path) -> Command:
    """Return a command that prints the file `said` of the folder, and fails."""
    argv = ("/bin/sh", "-c", 'cat "$0"; exit 1', str(folder / "said"))
    return Command(argv, {"PATH": "/usr/bin:/bin"}, "install foo", log=log)


@posix_only
def test_only_last_command_in_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "wheel.log"
    log.write_text("$ one\ndns error\n", encoding="utf-8")
    (tmp_path / "said").write_text("disk is odd\n", encoding="utf-8")
    with pytest.raises(CommandFailedError) as failed:
        shell.run_command(failing(tmp_path, log))
    assert failed.value.location == f"{log}:4"
    assert explain_client_failure(failed.value) is failed.value
    other = CommandFailedError("install b failed", code=1)
    assert explain_client_failure(other) is other


def test_venv_is_created_with_pip(runs: Runs, tmp_path: Path) -> None:
    environments.create_venv(tmp_path / "venv", "/usr/bin/python3", "/uv", tmp_path / "deps.log")
    environments.create_venv(tmp_path / "venv", "/usr/bin/python3", None, tmp_path / "deps.log")
    assert runs.argv == [
        (
            "/uv", "venv", "--seed", "--allow-existing", "--no-python-downloads", "--python",
            "/usr/bin/python3", str(tmp_path / "venv"),
        ),
        ("/usr/bin/python3", "-m", "venv", str(tmp_path / "venv")),
    ]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="the command is Debian's")
def test_python_without_venv_is_refused_with_install_command(
    runs: Runs, tmp_path: Path, on_system: OnSystem
) -> None:
    on_system("debian")

    def fail(_: Command) -> None:
        raise CommandFailedError(
            "create the build environment failed (exit 1)", code=1, location="l:2"
        )

    runs.then = fail
    with pytest.raises(MissingToolError) as error:
        environments.create_venv(tmp_path / "venv", "/usr/bin/python3", None, tmp_path / "deps.log")
    assert str(error.value) == (
        "l:2: create the build environment failed (exit 1)\n"
        "  → sudo apt install python3-venv python3-dev"
    )


def test_uv_is_found_as_module_or_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert environments.find_uv()
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environments.find_uv() is None
