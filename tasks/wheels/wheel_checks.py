"""Check an inspected wheel against what is recorded about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tasks.core.model import Arch, Artifact, ValidationResult
from tasks.core.text_formatting import format_short_list
from tasks.knowledge import Knowledge
from tasks.knowledge.machine_code_rules import can_run_code
from tasks.wheels import external_libraries, provenance_documents
from tasks.wheels.external_libraries import (
    ExternalLibrary,
    TargetEnvironment,
    find_external_libraries,
)

if TYPE_CHECKING:
    from tasks.wheels.wheel_inspection_io import WheelInfo

_KERNEL_LIBRARY = "/libtorch_cuda."  # the library of torch that has code for each target
_MAX_LISTED = 4  # names per line
_REBUILD_HINT = "doit clean, then doit build: what is not as it was recorded is made anew"


@dataclass(frozen=True)
class RecordedWheel:
    """What the manifests of a profile record about a wheel of this name.

    `artifact` is None if the wheel is not from this profile, `why` is then the reason. `archs` are
    the architectures of each library at build time.
    """

    artifact: Artifact | None = None
    archs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    why: str = ""


def check_wheel(
    found: WheelInfo, recorded: RecordedWheel, knowledge: Knowledge
) -> Iterator[ValidationResult]:
    """Yield the checks in the order of the table.

    The contents of a damaged wheel are not checked.
    """
    yield _check_record(found)
    yield _check_statement(found)
    yield _check_manifest(found, recorded)
    if found.problem:
        for name in ("SBOM", "machine code", "needs from outside"):
            yield ValidationResult(name, "not run", "the wheel is not what its RECORD says")
        return
    yield _check_sbom(found)
    yield _check_machine_code(found, recorded, knowledge)
    yield _check_external_needs(found)


def _check_record(found: WheelInfo) -> ValidationResult:
    if found.problem:
        return ValidationResult(
            "RECORD", "failed", found.problem, "take the wheel from where it was made"
        )
    return ValidationResult("RECORD", "passed", "every member has its sha256")


def _check_statement(found: WheelInfo) -> ValidationResult:
    name, statement, digest = "statement", found.statement, f"{found.artifact.sha256[:12]}…"
    if statement is None:
        file = f"{found.artifact.name}.provenance.json"
        return ValidationResult(name, "not run", f"there is no {file} beside it")
    if (statement.get("_type"), statement.get("predicateType")) != (
        provenance_documents.STATEMENT_TYPE,
        provenance_documents.PREDICATE_TYPE,
    ):
        return ValidationResult(
            name, "failed", "the file beside it is no SLSA provenance of in-toto", _REBUILD_HINT
        )
    if not provenance_documents.is_about_artifact(statement, found.artifact):
        return ValidationResult(
            name, "failed", f"it is about another wheel than this, of {digest}", _REBUILD_HINT
        )
    return ValidationResult(name, "passed", f"it is about these bytes, {digest}")


def _check_manifest(found: WheelInfo, recorded: RecordedWheel) -> ValidationResult:
    name = "manifest"
    if recorded.artifact is None:
        return ValidationResult(name, "not run", recorded.why)
    if recorded.artifact != found.artifact:
        digests = f"{recorded.artifact.sha256[:12]}…, and this is {found.artifact.sha256[:12]}…"
        return ValidationResult(
            name, "failed", f"this profile built one with the sha256 {digests}", _REBUILD_HINT
        )
    return ValidationResult(name, "passed", "it is the one that this profile built")


def _check_sbom(found: WheelInfo) -> ValidationResult:
    name = "SBOM"
    if found.sbom is None and found.statement is None:
        return ValidationResult(
            name, "not run", "none is in it, and no statement that it was made here"
        )
    if found.sbom is None:
        return ValidationResult(
            name, "failed", "none is in it, and it was made here", _REBUILD_HINT
        )
    if found.sbom.get("bomFormat") != "CycloneDX":
        return ValidationResult(name, "failed", "it is no CycloneDX document", _REBUILD_HINT)
    differences = list(
        provenance_documents.find_differences(
            found.sbom, found.name, found.version, found.statement
        )
    )
    if differences:
        return ValidationResult(name, "failed", "; ".join(differences), _REBUILD_HINT)
    remark = "" if found.statement is not None else "; there is no statement to compare it with"
    count = len(provenance_documents.find_list(found.sbom, "components"))
    return ValidationResult(
        name, "passed", f"{found.name} {found.version} of {count} components{remark}"
    )


def _check_machine_code(
    found: WheelInfo, recorded: RecordedWheel, knowledge: Knowledge
) -> ValidationResult:
    name = "machine code"
    if found.unreadable:
        library, problem = next(iter(found.unreadable.items()))
        return ValidationResult(
            name, "failed", f"{library}: {problem}", "take the wheel from where it was made"
        )
    now = {library: _list_image_archs(found, library) for library in found.images}
    built_archs = recorded.archs or provenance_documents.read_built_archs(found.statement)
    before = {
        library: frozenset(map(_strip_family_suffix, archs))
        for library, archs in built_archs.items()
    }
    if before and before != now:
        detail = (
            f"it holds {_format_library_archs(now)}, and what was built held "
            f"{_format_library_archs(before)}"
        )
        return ValidationResult(name, "failed", detail, _REBUILD_HINT)
    target_archs = provenance_documents.read_target_archs(found.statement)
    if missing := list(_find_missing_code(found, target_archs, knowledge)):
        return ValidationResult(name, "failed", "; ".join(missing), _REBUILD_HINT)
    if not target_archs and not before:
        return ValidationResult(name, "not run", "no GPU target is recorded of it")
    return ValidationResult(name, "passed", _format_library_archs(now))


def _list_image_archs(found: WheelInfo, library: str) -> frozenset[str]:
    code = found.images[library].code
    ptx = (f"{arch}+PTX" for arch in code.ptx)
    return frozenset(map(_strip_family_suffix, (*map(str, code.cubins), *ptx)))


def _strip_family_suffix(arch: str) -> str:
    """Remove the suffix f of a family, which cuobjdump does not print."""
    return arch.replace("f", "")


def _format_library_archs(libraries: Mapping[str, Iterable[str]]) -> str:
    parts = [f"{name.rpartition('/')[2]}: {', '.join(sorted(a))}" for name, a in libraries.items()]
    return format_short_list(sorted(parts), _MAX_LISTED, "; ") or "no device code"


def _find_missing_code(
    found: WheelInfo, wanted: Sequence[Arch], knowledge: Knowledge
) -> Iterator[str]:
    """Yield a sentence for each library without code for a target.

    Of torch only the library with its kernels is checked, of an extension each one with device
    code.
    """
    is_torch = found.name == "torch"
    images = {
        n: library_images
        for n, library_images in found.images.items()
        if not is_torch or _KERNEL_LIBRARY in n
    }
    if wanted and not images and is_torch:
        yield f"no library has the kernels for {', '.join(map(str, wanted))}"
    for name, library_images in images.items():
        code = library_images.common_code if is_torch else library_images.code
        missing_archs = [str(arch) for arch in wanted if not can_run_code(knowledge, code, arch)]
        if missing_archs:
            yield f"{name} has no code for {', '.join(missing_archs)}"


def _check_external_needs(found: WheelInfo) -> ValidationResult:
    name = "needs from outside"
    if not found.linkages and not found.dlls:
        return ValidationResult(name, "not run", "it holds no library of Linux or Windows")
    against = provenance_documents.find_torch_version(found.sbom) or _parse_torch_label(
        found.version
    )
    is_torch = found.name == "torch"
    environment = TargetEnvironment(found.requires, found.system, against, found.windows, is_torch)
    needs = [
        *find_external_libraries(found.linkages, environment),
        *external_libraries.find_external_dlls(found.dlls, environment),
    ]
    helper = "auditwheel" if found.linkages else "delvewheel"
    if failures := [one for one in needs if one.status == "failed"]:
        return ValidationResult(
            name, "failed", _format_external_libraries(failures), "let Requires-Dist bring it"
        )
    if unknown_needs := [one for one in needs if one.status == "not run"]:
        return ValidationResult(
            name,
            "not run",
            _format_external_libraries(unknown_needs),
            f"pip install --upgrade {helper}",
        )
    names_by_provider: dict[str, list[str]] = {}
    for one in needs:
        names_by_provider.setdefault(one.by, []).append(one.name)
    providers = (
        f"{provider}: {', '.join(names)}" for provider, names in sorted(names_by_provider.items())
    )
    return ValidationResult(name, "passed", "; ".join(providers) or "nothing")


def _parse_torch_label(version: str) -> str:
    """Return the torch in a local version: `1.0+torch2.15.0.s1a2b3c4d.cu132.sm120`."""
    label = re.match(r"[^+]*\+torch(\d+\.\d+\.\d+)\b", version)
    return label[1] if label else ""


def _format_external_libraries(needs: Iterable[ExternalLibrary]) -> str:
    """Return the libraries grouped by provider, so that each provider is named once."""
    users: dict[str, list[str]] = {}
    for one in needs:
        users.setdefault(one.by, []).append(
            f"{one.name} (needed by {format_short_list(one.users, _MAX_LISTED)})"
        )
    return "; ".join(f"{', '.join(names)}: {provider}" for provider, names in users.items())
