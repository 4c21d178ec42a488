"""git operations on real repositories in a temporary folder."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tasks.core.errors import CommandFailedError, FetchError, LostEditsError, NotOwnedError
from tasks.system.git import checkout_state, clones, local_changes
from tasks.system.network import network_access
from tests.support.systems import needs_git

pytestmark = needs_git


def run(where: Path, *args: str) -> str:
    person = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    argv = ["git", *person, *args]
    return subprocess.run(
        argv, cwd=where, check=True, capture_output=True, text=True
    ).stdout.strip()


def repository(where: Path, **contents: str) -> Path:
    where.mkdir(parents=True)
    run(where, "init", "--quiet", "--initial-branch=main")
    commit(where, **(contents or {"a": "one\n"}))
    return where


def commit(where: Path, **contents: str) -> str:
    for name, text in contents.items():
        (where / name).write_text(text, encoding="utf-8")
    run(where, "add", "--all")
    run(where, "commit", "--quiet", "--message", "step")
    return run(where, "rev-parse", "HEAD")


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    there = repository(tmp_path / "upstream")
    run(there, "tag", "v1")
    commit(there, a="two\n")
    return there


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "src" / "pytorch"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_access, "RETRY_PAUSES", (0.0, 0.0))


def test_clone_contains_tag_without_history(upstream: Path, dest: Path) -> None:
    commit(upstream, b="three\n")
    run(upstream, "tag", "v2")
    clones.clone_at_ref(str(upstream), "v2", dest, submodules=False)
    assert (dest / "b").exists()
    assert run(dest, "rev-list", "--count", "HEAD") == "1"


def test_branch_commit_short_commit_and_head_are_refs(upstream: Path, dest: Path) -> None:
    first, last = run(upstream, "rev-parse", "v1"), run(upstream, "rev-parse", "main")
    for ref, expected in (("main", last), (first, first), (last[:9], last), ("HEAD", last)):
        clones.clone_at_ref(str(upstream), ref, dest, submodules=False)
        assert checkout_state.read_git_state(dest).commit == expected


def test_missing_ref_error_names_ref_url_and_command(upstream: Path, dest: Path) -> None:
    with pytest.raises(FetchError, match=r'upstream has no ref "v9"') as caught:
        clones.clone_at_ref(str(upstream), "v9", dest)
    assert "git ls-remote" in caught.value.hint


def test_missing_commit_is_reported_as_missing_ref(upstream: Path, dest: Path) -> None:
    with pytest.raises(FetchError, match="has no ref"):
        clones.clone_at_ref(str(upstream), "0123456789abcdef0123456789abcdef01234567", dest)


def test_missing_repository_is_refused_without_retry(tmp_path: Path, dest: Path) -> None:
    with pytest.raises(FetchError, match="git cannot fetch"):
        clones.clone_at_ref(str(tmp_path / "nowhere"), "main", dest)


def test_option_is_refused_as_ref(upstream: Path, dest: Path) -> None:
    with pytest.raises(FetchError, match="not a ref"):
        clones.clone_at_ref(str(upstream), "--upload-pack=touch pwned", dest)


def test_interrupted_clone_is_resumed(upstream: Path, dest: Path) -> None:
    with pytest.raises(FetchError):
        clones.clone_at_ref(str(upstream), "v9", dest)
    (dest / "a").write_text("half of it", encoding="utf-8")  # written, but not yet in the index
    (dest / ".git" / "index.lock").touch()
    clones.clone_at_ref(str(upstream), "v1", dest)
    assert (dest / "a").read_text(encoding="utf-8") == "one\n"
    assert clones.is_at_ref(dest, str(upstream), "v1")


def test_interrupted_checkout_is_resumed_and_edits_are_saved(upstream: Path, dest: Path) -> None:
    clones.clone_at_ref(str(upstream), "v1", dest)
    run(dest, "config", "torchyard.checkout", "")
    run(dest, "config", "torchyard.pending", run(upstream, "rev-parse", "main"))
    (dest / "a").write_text("my edit\n", encoding="utf-8")
    clones.clone_at_ref(str(upstream), "main", dest)
    assert checkout_state.read_git_state(dest).edits == ""
    assert run(dest, "show", "refs/torchyard/interrupted:a") == "my edit"


def test_second_clone_contacts_no_remote(upstream: Path, dest: Path) -> None:
    clones.clone_at_ref(str(upstream), "v1", dest)
    upstream.rename(upstream.with_name("gone"))
    clones.clone_at_ref(str(upstream), "v1", dest)


def test_checkout_with_user_commit_is_left_alone(upstream: Path, dest: Path) -> None:
    clones.clone_at_ref(str(upstream), "v1", dest)
    mine = commit(dest, a="mine\n")
    clones.clone_at_ref(str(upstream), "v1", dest)
    assert checkout_state.read_git_state(dest).commit == mine


def test_other_ref_is_refused_if_edits_would_be_lost(upstream: Path, dest: Path) -> None:
    clones.clone_at_ref(str(upstream), "v1", dest)
    (dest / "a").write_text("edited\n", encoding="utf-8")
    before = checkout_state.read_git_state(dest)
    with pytest.raises(LostEditsError, match="main would overwrite"):
        clones.clone_at_ref(str(upstream), "main", dest)
    assert checkout_state.read_git_state(dest) == before


def test_other_ref_is_refused_if_untracked_file_would_be_lost(upstream: Path, dest: Path) -> None:
    commit(upstream, b="theirs\n")
    clones.clone_at_ref(str(upstream), "v1", dest)
    (dest / "b").write_text("mine\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(LostEditsError, match=r"overwrite your changes in: b\n") as caught:
            clones.clone_at_ref(str(upstream), "main", dest)
        assert f"git -C {dest} stash -u" in caught.value.hint
    assert (dest / "b").read_text(encoding="utf-8") == "mine\n"


def test_user_commit_stays_reachable(upstream: Path, dest: Path) -> None:
    clones.clone_at_ref(str(upstream), "v1", dest)
    mine = commit(dest, a="mine\n")
    clones.clone_at_ref(str(upstream), "main", dest)
    assert mine in run(dest, "for-each-ref", "refs/torchyard/left")


def test_clone_into_unmanaged_folder_is_refused(upstream: Path, dest: Path) -> None:
    clones.clone_at_ref(str(upstream), "v1", dest)
    other = dest.with_name("other")
    other.mkdir()
    (other / "work").touch()
    with pytest.raises(NotOwnedError):
        clones.clone_at_ref(str(upstream), "v1", other)


def test_mirror_is_fetched_instead_of_remote(upstream: Path, dest: Path) -> None:
    mirrors = {"https://git.example/": f"{upstream.parent}/"}
    clones.clone_at_ref("https://git.example/upstream", "v1", dest, mirrors=mirrors)
    assert run(dest, "config", "remote.origin.url") == "https://git.example/upstream"
    assert (dest / "a").exists()


def test_state_is_stable_and_changes_with_every_edit(upstream: Path) -> None:
    clean = checkout_state.read_git_state(upstream)
    assert clean.edits == ""
    (upstream / "a").touch()
    assert checkout_state.read_git_state(upstream) == clean
    seen = set()
    for name, text in (("a", "x"), ("a", "y"), ("new file", "z"), ("new file", "zz")):
        (upstream / name).write_text(text, encoding="utf-8")
        seen.add(checkout_state.read_git_state(upstream).edits)
    assert len(seen) == 4
    run(upstream, "checkout", "--", "a")
    (upstream / "new file").unlink()
    assert checkout_state.read_git_state(upstream) == clean


def test_ignored_file_is_no_edit_and_removed_file_is(upstream: Path) -> None:
    commit(upstream, **{".gitignore": "build/\n"})
    (upstream / "build").mkdir()
    (upstream / "build" / "a.o").touch()
    assert checkout_state.read_git_state(upstream).edits == ""
    (upstream / "a").unlink()
    assert checkout_state.read_git_state(upstream).edits


def test_state_is_not_read_from_parent_repository(upstream: Path) -> None:
    (upstream / "inner").mkdir()
    with pytest.raises(CommandFailedError, match="not a git repository"):
        checkout_state.read_git_state(upstream / "inner")


@pytest.fixture
def with_submodule(upstream: Path, tmp_path: Path) -> Path:
    repository(tmp_path / "part", code="1\n")
    run(upstream, "submodule", "--quiet", "add", str(tmp_path / "part"), "third_party/part")
    commit(upstream)
    return upstream


def test_submodules_are_cloned_and_part_of_state(with_submodule: Path, dest: Path) -> None:
    clones.clone_at_ref(str(with_submodule), "main", dest)
    part = run(with_submodule / "third_party/part", "rev-parse", "HEAD")
    assert checkout_state.read_git_state(dest).submodules == {"third_party/part": part}
    assert (dest / "third_party/part/code").exists()


def test_submodule_edit_counts_and_build_output_does_not(
    with_submodule: Path,
) -> None:
    part = with_submodule / "third_party/part"
    (part / "made-by-a-build").touch()
    assert checkout_state.read_git_state(with_submodule).edits == ""
    (part / "code").write_text("2\n", encoding="utf-8")
    first = checkout_state.read_git_state(with_submodule).edits
    (part / "code").write_text("3\n", encoding="utf-8")
    assert checkout_state.read_git_state(with_submodule).edits not in ("", first)


def test_submodule_is_stale_after_pull_but_not_after_manual_checkout(
    with_submodule: Path, dest: Path, tmp_path: Path
) -> None:
    clones.clone_at_ref(str(with_submodule), "main", dest)
    seen = checkout_state.read_git_state(dest).commit
    assert clones.list_stale_submodules(dest, seen) == ()
    part = with_submodule / "third_party/part"
    new = commit(tmp_path / "part", code="2\n")
    run(part, "fetch", "--quiet", str(tmp_path / "part"), "main")
    run(part, "checkout", "--quiet", new)
    commit(with_submodule)
    run(dest, "pull", "--quiet", str(with_submodule), "main")
    assert clones.list_stale_submodules(dest, seen) == ("third_party/part",)
    clones.update_submodules(dest, ("third_party/part",))
    assert checkout_state.read_git_state(dest).submodules == {"third_party/part": new}
    commit(dest / "third_party/part", code="mine\n")
    assert clones.list_stale_submodules(dest, checkout_state.read_git_state(dest).commit) == ()


def test_edit_that_blocks_submodule_update_is_named_with_repository(
    with_submodule: Path, dest: Path, tmp_path: Path
) -> None:
    clones.clone_at_ref(str(with_submodule), "main", dest)
    part = with_submodule / "third_party/part"
    new = commit(tmp_path / "part", code="2\n")
    run(part, "fetch", "--quiet", str(tmp_path / "part"), "main")
    run(part, "checkout", "--quiet", new)
    commit(with_submodule)
    run(dest, "pull", "--quiet", str(with_submodule), "main")
    edited = dest / "third_party/part/code"
    edited.write_text("mine\n", encoding="utf-8")
    with pytest.raises(LostEditsError, match=r"overwrite your changes in: code\n") as caught:
        clones.update_submodules(dest, ("third_party/part",))
    assert f"git -C {edited.parent} stash;" in caught.value.hint
    assert edited.read_text(encoding="utf-8") == "mine\n"


def test_patch_applies_once_and_can_be_reversed(tmp_path: Path, upstream: Path) -> None:
    (upstream / "a").write_text("patched\n", encoding="utf-8")
    patch = tmp_path / "fix.patch"
    patch.write_text(run(upstream, "diff") + "\n", encoding="utf-8")
    run(upstream, "checkout", "--", "a")
    assert local_changes.can_apply_patch(upstream, patch)
    local_changes.apply_patch(upstream, patch)
    assert not local_changes.can_apply_patch(upstream, patch)
    assert local_changes.can_apply_patch(upstream, patch, reverse=True)
    local_changes.apply_patch(upstream, patch, reverse=True)
    assert checkout_state.read_git_state(upstream).edits == ""


def test_patch_applies_to_plain_folder_inside_repository(tmp_path: Path, upstream: Path) -> None:
    (upstream / "a").write_text("patched\n", encoding="utf-8")
    patch = tmp_path / "fix.patch"
    patch.write_text(run(upstream, "diff") + "\n", encoding="utf-8")
    inner = upstream / "build" / "tree"
    inner.mkdir(parents=True)
    (inner / "a").write_text("two\n", encoding="utf-8")
    local_changes.apply_patch(inner, patch)
    assert (inner / "a").read_text(encoding="utf-8") == "patched\n"


def test_unignored_files_of_plain_tree_follow_its_gitignore(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "torch").mkdir(parents=True)
    for name in (".gitignore", "torch/a.py", "torch/b.so"):
        (tree / name).write_text("*.so\n", encoding="utf-8")
    assert checkout_state.list_unignored_files(tree, tmp_path / "scratch") == (
        ".gitignore",
        "torch/a.py",
    )
    assert checkout_state.list_unignored_files(tree, tmp_path / "scratch") == (
        ".gitignore",
        "torch/a.py",
    )


def test_listening_host_is_reachable_and_probed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    clones._can_connect.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert clones.is_reachable(f"https://127.0.0.1:{port}/a.git")
    assert clones.is_reachable(f"https://127.0.0.1:{port}/b.git")
    clones._can_connect.cache_clear()
    assert not clones.is_reachable(f"https://127.0.0.1:{port}/a.git")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.invalid/a/b.git", ("example.invalid", 443)),
        ("http://example.invalid:8080/a", ("example.invalid", 8080)),
        ("ssh://git@example.invalid/a", ("example.invalid", 22)),
        ("git@example.invalid:a/b.git", ("example.invalid", 22)),
        ("git://example.invalid/a", ("example.invalid", 9418)),
    ],
)
def test_host_and_port_follow_url_scheme(
    url: str, expected: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("urllib.request.getproxies", dict)
    assert clones.resolve_host_port(url) == expected


def test_address_is_that_of_configured_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    proxies = {"https": "http://proxy.invalid:3128"}
    monkeypatch.setattr("urllib.request.getproxies", lambda: proxies)
    monkeypatch.setattr("urllib.request.proxy_bypass", lambda _host: False)
    assert clones.resolve_host_port("https://example.invalid/a") == ("proxy.invalid", 3128)


def test_local_path_is_reachable_if_it_exists(tmp_path: Path) -> None:
    assert clones.is_reachable(str(tmp_path))
    assert clones.is_reachable(tmp_path.as_uri())
    assert not clones.is_reachable(str(tmp_path / "nothing"))
