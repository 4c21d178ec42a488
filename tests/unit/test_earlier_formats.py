"""Files that an earlier release wrote are still read, and cause no rebuild.

`earlier_formats/` holds the files of a complete source build by torchyard 0.1.0 of November 2026.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.core.canonical_json import format_canonical_json
from tasks.core.deps_model import CompilerCache, DepsManifest, ToolchainStamps
from tasks.core.project import Project
from tasks.lock.lock_file import parse_section, replace_section
from tasks.runlog.run_record import parse_run
from tasks.settings.layers_io import load_settings
from tasks.stages.compile.model import CompileResult
from tasks.stages.env.model import CacheEnvironment, Environment
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.install.install_journal_io import InstallRecord
from tasks.stages.install.model import Installation
from tasks.stages.source.model import SourceTree
from tasks.stages.wheel.model import AbiFingerprint, Wheel
from tasks.system import manifests
from tasks.system.hardware.host_probe import HostPin

FILES = Path(__file__).parent / "earlier_formats"
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cache", CompilerCache),
        ("cache-env", CacheEnvironment),
        ("compile", CompileResult),
        ("deps", DepsManifest),
        ("extension", BuiltExtension),
        ("extension-env", Environment),
        ("host", HostPin),
        ("install", Installation),
        ("replaced", InstallRecord),
        ("source", SourceTree),
        ("surface", AbiFingerprint),
        ("toolchain", ToolchainStamps),
        ("wheel", Wheel),
    ],
)
def test_manifest_of_earlier_release_is_read_and_written_unchanged(
    name: str, kind: type[Any]
) -> None:
    path = FILES / f"{name}.json"
    read = manifests.read_manifest(path, kind)
    assert format_canonical_json(read) == path.read_text(encoding="utf-8")


def test_lock_of_earlier_release_is_read_and_written_unchanged() -> None:
    text = (FILES / "torchyard.lock").read_text(encoding="utf-8")
    section = parse_section(text, "trial")
    assert section is not None
    assert section.release == "2.6.0"
    _, _, sections = text.partition("\n\n")  # after the comment at its top
    assert replace_section(text, "trial", section).partition("\n\n")[2] == sections


def test_run_record_of_earlier_release_is_read() -> None:
    run = parse_run((FILES / "run.jsonl").read_text(encoding="utf-8").splitlines())
    assert (run.profile, run.outcome) == ("trial", "done")
    assert [stage.name for stage in run.stages][:2] == ["deps", "source"]
    assert run.settings["torch.version"] == "2.6.0"
    assert run.resolution["strategy"] == "source"


@pytest.mark.parametrize(
    ("local", "environ"),
    [
        ("build:\n  heal: true\n", {}),
        ("", {"TORCHYARD__BUILD__HEAL": "true"}),
    ],
)
def test_renamed_key_is_read_with_a_warning_that_names_the_new_one(
    local: str, environ: dict[str, str]
) -> None:
    loaded = load_settings(Project.of_checkout(ROOT), "quickstart", environ, local=local)
    assert loaded.settings.build.auto_fix
    (warning,) = loaded.warnings
    place = "config/local.yaml:2" if local else "TORCHYARD__BUILD__HEAL"
    assert warning.startswith(f"{place}: rename build.heal to build.auto_fix")
    assert "build.auto_fix" in loaded.origin


def test_new_key_overrides_old_key_in_the_same_file() -> None:
    text = "build:\n  auto_fix: false\n  heal: true\n"
    loaded = load_settings(Project.of_checkout(ROOT), "quickstart", {}, local=text)
    assert not loaded.settings.build.auto_fix
