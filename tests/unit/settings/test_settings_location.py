"""A setting that planning refuses is located by file and line, or by its variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.cli.session import HostReader, open_profile
from tasks.core.errors import TorchyardError
from tasks.core.project import Project
from tasks.system.hardware import host_probe
from tests.support.checkout import HOST, KNOWLEDGE, write


def refused(yard: Path, environ: dict[str, str] | None = None) -> str:
    """Return the first line of the error message."""
    # Only the Python and toolkit in the settings are searched; the other host facts are fabricated
    host: HostReader = lambda asked, pinned: (  # noqa: E731
        host_probe.read_host(asked, pinned)
        if (asked.python, asked.toolkit_path) != ("auto", None)
        else HOST
    )
    with pytest.raises(TorchyardError) as found:
        open_profile(Project.of_checkout(yard), "mine", environ or {}, KNOWLEDGE, host)
    return str(found.value).partition("\n")[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("target:\n  gpus:\n    - RTX 5090\n    - RTX 9999", "4: target.gpus: "),
        ("target:\n  gpus: ['2.0']", "2: target.gpus: "),
        ("# a card without a wheel\ntarget: {gpus: ['3.5']}", "2: target.gpus: no official wheel"),
        ("python: '3.99'", "1: python: torchyard found no Python 3.99"),
        ("python: /absent/python", "1: python: "),
        ("torch:\n  version: '1.9.9'", "2: torch.version: "),
        ("torch:\n  strategy: existing", "2: torch.strategy: /usr/bin/python3 has no torch"),
        ("toolkit:\n  version: '9.0'", "2: toolkit.version: "),
        ("toolkit:\n  provider: path", "2: toolkit.path: provider: path needs toolkit.path"),
        ("toolkit:\n  provider: path\n  path: /absent", "3: toolkit.path: no CUDA toolkit"),
        ("torch: {strategy: source}\nsource:\n  path: /absent", "3: source.path: "),
        ("torch: {strategy: source}\nsource:\n  tarball: /absent.tar", "3: source.tarball: "),
        ("torch: {strategy: source}\nsource:\n  tarball: https://h/a.tar", "3: source.sha256: "),
        ("torch: {strategy: source}\nsource:\n  patches:\n  - a.patch", "4: source.patches: "),
        ("companions:\n- torchvision\n- torchaudio", "3: companions: torchaudio 2.11.0"),
        ("extensions:\n- simple-knn\n- unheard-of", "3: extensions: "),
        ("extensions:\n- simple-knn\n- name: a\n  path: /absent", "4: extensions.1 (a).path: "),
        ("extensions:\n- name: a\n  git: https://h\n  patches:\n  - b.patch",
         "5: extensions.0 (a).patches: "),
        ("extensions:\n- simple-knn\n- name: a\n  git: https://h\n  after: [b]",
         "5: extensions (a).after: "),
        ("extensions:\n- name: a\n  git: https://h\n  smoke:\n    script: absent.py",
         "5: extensions.0 (a).smoke.script: "),
        ("mirrors:\n  - tuna\n  - tna", '3: mirrors: the mirror "tna" is not known'),
        ("offline: /absent", "1: offline: "),
        ("- target", "1: the file must hold keys and values"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("layer", ["profile", "local"])
def test_refused_setting_is_located_by_line(
    yard: Path, text: str, expected: str, layer: str
) -> None:
    if layer == "profile":
        write(yard, text)
        assert refused(yard).startswith(f"config/profiles/mine.yaml:{expected}")
    else:
        write(yard, "")
        (yard / "config" / "local.yaml").write_text(text, encoding="utf-8")
        assert refused(yard).startswith(f"config/local.yaml:{expected}")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TORCHYARD__TARGET__GPUS", "[RTX 9999]"),
        ("TORCHYARD__TORCH__VERSION", "1.9.9"),
        ("TORCHYARD__PYTHON", "3.99"),
        ("TORCHYARD__TOOLKIT__VERSION", "9.0"),
        ("TORCHYARD__OFFLINE", "/absent"),
        ("TORCHYARD__SOURCE__PATH", "/absent"),
        ("TORCHYARD__MIRRORS", "[tna]"),
        ("TORCHYARD__EXTENSIONS", "[{name: a, path: /absent}]"),
    ],
)
def test_refused_setting_is_located_by_variable(yard: Path, variable: str, value: str) -> None:
    assert refused(yard, {variable: value}).startswith(f"{variable}: ")


def test_refused_matrix_entry_is_located_by_matrix_line(yard: Path) -> None:
    write(yard, "target: {gpus: ['12.0']}\nmatrix:\n  torch: ['2.15.0', '1.9.9']")
    with pytest.raises(TorchyardError) as found:
        open_profile(Project.of_checkout(yard), "mine@torch1.9.9", {}, KNOWLEDGE, lambda *_: HOST)
    assert str(found.value).startswith(
        "config/profiles/mine.yaml:3 (matrix entry torch1.9.9): torch.version: "
    )
