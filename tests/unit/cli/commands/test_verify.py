"""`doit verify` on small wheels: how each changed byte or record is reported."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tasks.cli.commands import verify
from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import TorchyardError, ValidationFailedError
from tasks.core.model import ValidationResult
from tasks.stages.extensions.model import BuiltExtension
from tasks.system import files, manifests
from tasks.wheels import wheelhouse_io
from tasks.wheels.build_inputs import BuildInputs, Invocation, SourceInfo
from tasks.wheels.machine_code_io import MachineCodeReader
from tasks.wheels.provenance_documents import SBOM_PATH, build_sbom, build_statement
from tasks.wheels.wheel_checks import RecordedWheel, check_wheel
from tasks.wheels.wheel_inspection_io import inspect_wheel
from tasks.wheels.wheel_rewrite_io import add_dist_info_files
from tests.support.checkout import KNOWLEDGE, Heard, broken, opened
from tests.support.fatbins import elf, fatbin
from tests.support.sharedlibrary import linux, make_library
from tests.support.smallwheels import wheel as small_wheel
from tests.support.systems import posix_only

TREE = SourceInfo(commit="1a" * 20, submodules={"third_party/fmt": "2b" * 20}, patches=("cc" * 32,))
MADE = BuildInputs("toy", "1.0", TREE, 1_795_321_330, (), torch="2.6.0", surface="3af753f7")
CODE = elf({".text": b"\xc3", ".nv_fatbin": fatbin("12.0", "9.0+PTX")})


@dataclass(frozen=True)
class Documented:
    """A wheel with SBOM and statement."""

    wheel: Path

    @property
    def statement(self) -> Path:
        return wheelhouse_io.resolve_statement_path(self.wheel)

    def told(self, recorded: RecordedWheel | None = None) -> dict[str, ValidationResult]:
        found = inspect_wheel(self.wheel, MachineCodeReader())
        return {
            one.name: one
            for one in check_wheel(found, recorded or RecordedWheel(why="no"), KNOWLEDGE)
        }

    def states(self, recorded: RecordedWheel | None = None) -> dict[str, str]:
        return {name: check.status for name, check in self.told(recorded).items()}

    def rewrite(self, **changes: Any) -> None:
        """Replace a text in the statement."""
        told = json.loads(self.statement.read_text(encoding="utf-8"))
        self.statement.write_text(json.dumps({**told, **changes}), encoding="utf-8")


def make(
    folder: Path,
    content: dict[str, bytes | str] | None = None,
    *,
    requires: Sequence[str] = (),
    inside: BuildInputs | None = MADE,
    beside: BuildInputs | None = MADE,
    archs: Sequence[str] = ("12.0",),
) -> Documented:
    """`inside` is the content of its SBOM, `beside` of the statement; None omits the document."""
    made = small_wheel(folder, "toy", "1.0", content or {"toy/_C.so": CODE}, requires)
    if inside:
        add_dist_info_files(made, {SBOM_PATH: build_sbom(inside).encode()})
    if beside:
        held = {"toy/_C.so": ["12.0", "9.0+PTX"]} if content is None else {}
        how = Invocation("extension", {}, {"archs": list(archs), "held": held}, {}, "", "")
        result = build_statement(beside, files.read_artifact(made), how)
        files.write_atomic(
            wheelhouse_io.resolve_statement_path(made), format_canonical_json(result)
        )
    return Documented(made)


def test_unmodified_wheel_passes(tmp_path: Path) -> None:
    one = make(tmp_path)
    recorded = RecordedWheel(files.read_artifact(one.wheel), {"toy/_C.so": ("12.0", "9.0+PTX")})
    assert one.states(recorded) == {
        "RECORD": "passed",
        "statement": "passed",
        "manifest": "passed",
        "SBOM": "passed",
        "machine code": "passed",
        "external libraries": "passed",
    }
    assert one.states()["manifest"] == "not run"


def test_changed_byte_fails_record_statement_and_manifest_checks(tmp_path: Path) -> None:
    one = make(tmp_path)
    recorded = RecordedWheel(files.read_artifact(one.wheel))
    with zipfile.ZipFile(one.wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(one.wheel, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data[:-1] + b"X" if name.endswith(".so") else data)
    result = one.told(recorded)
    assert "its member toy/_C.so does not match RECORD" in result["RECORD"].detail
    states = {name: check.status for name, check in result.items()}
    assert [states[name] for name in ("RECORD", "statement", "manifest")] == ["failed"] * 3
    assert states["SBOM"] == states["machine code"] == "not run"


def test_missing_member_listed_in_record_is_reported(tmp_path: Path) -> None:
    one = make(tmp_path)
    with zipfile.ZipFile(one.wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(one.wheel, "w") as archive:
        for name, data in members.items():
            if not name.endswith(".so"):
                archive.writestr(name, data)
    assert one.told()["RECORD"].detail == "the wheel lacks toy/_C.so, which RECORD lists"


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (
            replace(MADE, version="1.1"),
            "the SBOM is about version 1.1, but METADATA names version 1.0",
        ),
        (replace(MADE, name="other"), "the SBOM is about other, but METADATA names toy"),
        (replace(MADE, tree=replace(TREE, commit="9" * 40)), f"source is {'9' * 40}"),
        (
            replace(MADE, tree=replace(TREE, submodules={})),
            "submodule:third_party/fmt is missing in the SBOM",
        ),
        (replace(MADE, tree=replace(TREE, patches=("dd" * 32,))), "patch:1 is dddd"),
        (replace(MADE, torch="2.7.0"), "torch is 2.7.0 in the SBOM, but 2.6.0 in the statement"),
    ],
)
def test_sbom_of_another_build_is_reported(
    tmp_path: Path, inside: BuildInputs, message: str
) -> None:
    check = make(tmp_path, inside=inside).told()["SBOM"]
    assert check.status == "failed"
    assert message in check.detail


def test_missing_sbom_fails_only_for_managed_wheels(tmp_path: Path) -> None:
    assert make(tmp_path / "ours", inside=None).states()["SBOM"] == "failed"
    states = make(tmp_path / "theirs", inside=None, beside=None).states()
    assert states["SBOM"] == states["statement"] == states["machine code"] == "not run"


@pytest.mark.parametrize(
    "changes",
    [
        {"_type": "https://example.org/"},
        {"subject": []},
        {"subject": "nonsense"},
        {"subject": [{"name": "toy", "digest": {"sha256": "ab" * 32}}]},
    ],
)
def test_statement_of_unknown_form_or_other_wheel_fails(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    one = make(tmp_path)
    one.rewrite(**changes)
    assert one.states()["statement"] == "failed"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"predicate": [1], "subject": {}}'])
def test_invalid_statement_causes_no_traceback(tmp_path: Path, text: str) -> None:
    one = make(tmp_path)
    one.statement.write_text(text, encoding="utf-8")
    states = one.states()
    assert states["statement"] == states["SBOM"] == "failed"
    assert states["machine code"] == "not run"


def test_machine_code_is_compared_with_built_and_requested_archs(tmp_path: Path) -> None:
    assert make(tmp_path / "a").told()["machine code"].detail == "_C.so: 12.0, 9.0+PTX"
    lacking = make(tmp_path / "b", archs=("12.0", "8.0")).told()["machine code"]
    assert (lacking.status, lacking.detail) == ("failed", "toy/_C.so has no code for 8.0")
    other = RecordedWheel(None, {"toy/_C.so": ("9.0",)})
    assert (
        "the build recorded _C.so: 9.0" in make(tmp_path / "c").told(other)["machine code"].detail
    )


@linux
def test_undeclared_dependencies_are_listed_with_their_users(tmp_path: Path) -> None:
    cudart = make_library(tmp_path / "elsewhere" / "libcudart.so.13")
    rpath = "$ORIGIN/../nvidia/cu13/lib"
    library = make_library(tmp_path / "_C.so", cudart, rpath=rpath).read_bytes()
    content: dict[str, bytes | str] = {"toy/_C.so": library}
    alone = replace(MADE, torch="", surface="")
    bare = make(tmp_path / "a", content, inside=alone, beside=alone, archs=())
    check = bare.told()["external libraries"]
    assert check.status == "failed"
    assert check.detail.startswith("libcudart.so.13 (needed by _C.so): nvidia-cuda-runtime has it")
    requires = ["nvidia-cuda-runtime==13.0.96"]
    declared = make(
        tmp_path / "b", content, requires=requires, inside=alone, beside=alone, archs=()
    )
    assert "nvidia-cuda-runtime: libcudart.so.13" in declared.told()["external libraries"].detail


@linux
def test_same_finding_for_several_libraries_is_reported_once(tmp_path: Path) -> None:
    needed = [make_library(tmp_path / "elsewhere" / f"lib{name}.so.1") for name in ("one", "two")]
    library = make_library(tmp_path / "_C.so", *needed).read_bytes()
    check = make(tmp_path / "a", {"toy/_C.so": library}, archs=()).told()["external libraries"]
    both = "libone.so.1 (needed by _C.so), libtwo.so.1 (needed by _C.so): "
    assert check.detail.startswith(both)


@posix_only
def test_torch_version_comes_from_wheel_version_if_sbom_is_missing(
    tmp_path: Path,
) -> None:
    cudart = make_library(tmp_path / "elsewhere" / "libcudart.so.13")
    library = make_library(tmp_path / "_C.so", cudart, rpath="$ORIGIN").read_bytes()
    version = "1.0+torch2.15.0.s1a2b3c4d.cu132.sm120"
    plain = Documented(small_wheel(tmp_path, "toy", version, {"toy/_C.so": library}))
    check = plain.told()["external libraries"]
    assert check.status == "passed"
    assert "torch 2.15.0 (used for the build, but not in Requires-Dist)" in check.detail


def test_verify_shows_a_table_and_fails_if_a_check_fails(yard: Path, heard: Heard) -> None:
    one = make(yard / "wheelhouse")
    verify.run(opened(yard), wheels=[str(one.wheel)])
    rows = heard[heard.index(one.wheel.name) + 1 :]
    assert [row.split("  ")[0].strip() for row in rows].count("passed") >= 5
    one.rewrite(subject=[])
    with pytest.raises(ValidationFailedError) as error:
        verify.run(opened(yard), wheel=str(one.wheel))
    assert error.value.message == "1 of 6 checks failed: statement"


def test_wheel_of_profile_is_compared_with_its_manifest(yard: Path, heard: Heard) -> None:
    config = "target: {gpus: []}\nextensions: [{name: toy, path: ., imports: [toy]}]\n"
    (yard / "config" / "profiles" / "mine.yaml").write_text(config, encoding="utf-8")
    (yard / "setup.py").touch()
    one = make(yard / "wheelhouse")
    known = files.read_artifact(one.wheel)
    manifest = yard / "build" / "mine" / "extensions" / "toy.json"
    manifests.write_manifest(manifest, BuiltExtension("toy", "built", {}, known))
    verify.run(opened(yard), wheel=str(one.wheel))
    assert "this profile built the wheel" in heard.text
    manifests.write_manifest(
        manifest, BuiltExtension("toy", "built", {}, replace(known, sha256="0" * 64))
    )
    with pytest.raises(ValidationFailedError):
        verify.run(opened(yard), wheel=str(one.wheel))
    assert "this profile built a wheel with sha256 000000000000…" in " ".join(heard.text.split())


def test_wheel_is_verified_even_if_profile_is_broken(yard: Path, heard: Heard) -> None:
    one = make(yard / "wheelhouse")
    verify.run(broken(yard, "torhc: {}\n"), wheel=str(one.wheel))
    assert "cannot be loaded" in heard.text


def test_verify_without_wheel_shows_how_to_name_one(yard: Path, heard: Heard) -> None:
    for named, result in (
        ([], "no wheel is named"),
        (["gone.whl"], "this wheel does not exist"),
    ):
        with pytest.raises(TorchyardError, match=result):
            verify.run(opened(yard), wheels=named)
