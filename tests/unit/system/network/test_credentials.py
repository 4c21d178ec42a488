"""How passwords are passed to uv and pip."""

from __future__ import annotations

import netrc
from pathlib import Path

import pytest

from tasks.system import shell
from tasks.system.network import index_client, package_indexes
from tests.support.systems import posix_only

PIP = ("python", "-m", "pip", "install")
SECRET = "https://me:hunter2@index.example:8443/simple"


@pytest.fixture(autouse=True)
def _nobodys_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for files in ("list_pip_files", "list_uv_files"):
        monkeypatch.setattr(package_indexes, files, lambda: iter(()))


def logins(env: dict[str, str]) -> dict[str, tuple[str, str, str]]:
    return netrc.netrc(env["NETRC"]).hosts


def test_command_without_password_is_unchanged() -> None:
    env = {"PIP_INDEX_URL": "https://index.example/simple", "PIP_PROXY": "http://me:p@proxy:1"}
    with index_client.hide_passwords(
        (*PIP, "--extra-index-url", "https://i/cu132", "a"), env
    ) as found:
        assert found == ((*PIP, "--extra-index-url", "https://i/cu132", "a"), env)


@posix_only
def test_password_file_exists_only_while_command_runs(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine other login a password b", encoding="utf-8")
    options = ("--extra-index-url", SECRET, "a @ https://me:hunter2@index.example/a.whl")
    with index_client.hide_passwords((*PIP, *options), {"UV_INDEX": f"x={SECRET}"}) as (words, env):
        bare = "https://index.example:8443/simple"
        assert words == (*PIP, "--extra-index-url", bare, "a @ https://index.example/a.whl")
        assert env["UV_INDEX"] == "x=https://me@index.example:8443/simple"
        assert logins(env)["index.example"] == ("me", "", "hunter2")
        assert logins(env)["other"] == ("a", "", "b"), "of the user's own file"
        assert Path(env["NETRC"]).stat().st_mode & 0o777 == 0o600
    assert not Path(env["NETRC"]).exists()


@pytest.mark.parametrize(
    "url",
    [
        "https://t0ken@index.example/simple",
        "https://index.example/simple?token=t0ken",
        "https://me:t0ken%20with%20spaces@index.example/simple",
        "https://me:t0ken%5C@index.example/simple",
    ],
)
def test_url_that_netrc_cannot_hold_is_passed_as_variable(url: str) -> None:
    env = {"PIP_EXTRA_INDEX_URL": "https://mine"}
    with index_client.hide_passwords((*PIP, "--extra-index-url", url, "a"), env) as (words, given):
        assert words == (*PIP, "a")
        assert given["PIP_EXTRA_INDEX_URL"] == f"https://mine {url}"
        assert given["UV_EXTRA_INDEX_URL"] == url
        assert "NETRC" not in given


def test_second_login_for_same_host_is_passed_as_variable() -> None:
    other = "https://you:swordfish@index.example/other"
    argv = ("/uv", "pip", "install", "--index-url", SECRET, "--extra-index-url", other)
    with index_client.hide_passwords(argv, {}) as (words, env):
        kept = "https://me@index.example:8443/simple"
        assert words == ("/uv", "pip", "install", "--index-url", kept)
        assert env["UV_EXTRA_INDEX_URL"] == other
        assert logins(env)["index.example"][2] == "hunter2"


@pytest.mark.parametrize("by", ["variable", "file"])
def test_password_of_named_index_is_matched_by_url(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"UV_INDEX_MY_OWN_USERNAME": "me", "UV_INDEX_MY_OWN_PASSWORD": "hunter2"}
    url = "https://index.example/simple"
    if by == "file":
        file = tmp_path / "uv.toml"
        file.write_text(f'[[index]]\nname = "my-own"\nurl = "{url}"\n', encoding="utf-8")
        monkeypatch.setattr(package_indexes, "list_uv_files", lambda: iter([file]))
    else:
        env["UV_INDEX"] = f"my-own={url}"
    with index_client.hide_passwords(("uv", "pip", "install", "a"), env) as (_, given):
        assert "hunter2" not in str(given)
        assert given["UV_INDEX_MY_OWN_USERNAME"] == "me"
        assert logins(given)["index.example"] == ("me", "", "hunter2")


OF_CLIENTS = {
    "PIP_EXTRA_INDEX_URL": SECRET,
    "UV_INDEX_MINE_PASSWORD": "hunter2",
    "UV_PUBLISH_TOKEN": "pypi-hunter2",
    "PIP_FIND_LINKS": SECRET,
    "CCACHE_REMOTE_STORAGE": "redis://:hunter2@cache",
    "SCCACHE_REDIS_PASSWORD": "hunter2",
    "SCCACHE_WEBDAV_TOKEN": "hunter2",
    "SCCACHE_AZURE_CONNECTION_STRING": "AccountKey=hunter2",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
}


def test_build_environment_has_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OF_CLIENTS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("CCACHE_DIR", "/cache")
    env = shell.build_host_env()
    assert "hunter2" not in str(env)
    assert (env["PIP_NO_INDEX"], env["CCACHE_DIR"]) == ("1", "/cache")
    assert set(shell.build_installer_env()) >= {"PIP_EXTRA_INDEX_URL", "UV_INDEX_MINE_PASSWORD"}
    assert "UV_PUBLISH_TOKEN" not in shell.build_installer_env()
