"""Check a wheel against RECORD, the provenance statement, the SBOM and the manifest."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tasks.core.model import Arch, Artifact, CheckStatus, ValidationResult
from tasks.core.text_formatting import format_short_list
from tasks.knowledge import Knowledge
from tasks.knowledge.machine_code_rules import can_run_code
from tasks.wheels import external_libraries
from tasks.wheels import provenance_documents as documents

if TYPE_CHECKING:
    from tasks.wheels.wheel_inspection_io import WheelInfo

_KERNEL_LIBRARY = "/libtorch_cuda."  # the library of torch that contains code for each GPU target
_MAX_LISTED = 4  # names per line
_REBUILD_HINT = "to build the wheel again, run: doit clean, then doit build"
_FETCH_HINT = "download or copy the wheel again"
_Outcome = tuple[CheckStatus, str, str]  # status, detail, remedy


@dataclass(frozen=True)
class RecordedWheel:
    """The wheel that a profile's manifest records, with the GPU architectures of each library.

    If there is no such wheel, `artifact` is `None`, and `why` is the reason.
    """

    artifact: Artifact | None = None
    archs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    why: str = ""


def check_wheel(
    wheel: WheelInfo, recorded: RecordedWheel, knowledge: Knowledge
) -> Iterator[ValidationResult]:
    """Yield the results of all checks. The contents of a damaged wheel are not checked."""
    if wheel.problem:
        yield ValidationResult("RECORD", "failed", wheel.problem, _FETCH_HINT)
    else:
        yield ValidationResult("RECORD", "passed", "the sha256 of every member matches")
    yield ValidationResult("statement", *_check_statement(wheel))
    yield ValidationResult("manifest", *_check_manifest(wheel, recorded))
    if wheel.problem:
        for name in ("SBOM", "machine code", "external libraries"):
            yield ValidationResult(name, "not run", "the wheel does not match its RECORD")
        return
    yield ValidationResult("SBOM", *_check_sbom(wheel))
    yield ValidationResult("machine code", *_check_machine_code(wheel, recorded, knowledge))
    yield ValidationResult("external libraries", *_check_external_libraries(wheel))


def _check_statement(wheel: WheelInfo) -> _Outcome:
    statement, digest = wheel.statement, f"{wheel.artifact.sha256[:12]}…"
    if statement is None:
        file = f"{wheel.artifact.name}.provenance.json"
        return "not run", f"{file} does not exist in the folder of the wheel", ""
    types = statement.get("_type"), statement.get("predicateType")
    if types != (documents.STATEMENT_TYPE, documents.PREDICATE_TYPE):
        return "failed", "the provenance file is not an in-toto statement of SLSA", _REBUILD_HINT
    subject = {"name": wheel.artifact.name, "digest": {"sha256": wheel.artifact.sha256}}
    if subject not in documents.find_list(statement, "subject"):
        detail = f"the statement is about another wheel; the sha256 of this one is {digest}"
        return "failed", detail, _REBUILD_HINT
    return "passed", f"the statement is about this wheel (sha256 {digest})", ""


def _check_manifest(wheel: WheelInfo, recorded: RecordedWheel) -> _Outcome:
    built = recorded.artifact
    if built is None:
        return "not run", recorded.why, ""
    if built != wheel.artifact:
        digest = f"{built.sha256[:12]}…, but this wheel has {wheel.artifact.sha256[:12]}…"
        return "failed", f"this profile built a wheel with sha256 {digest}", _REBUILD_HINT
    return "passed", "this profile built the wheel", ""


def _check_sbom(wheel: WheelInfo) -> _Outcome:
    if wheel.sbom is None and wheel.statement is None:
        return "not run", "the wheel contains no SBOM and has no provenance statement", ""
    if wheel.sbom is None:
        detail = "the wheel contains no SBOM, although torchyard built the wheel"
        return "failed", detail, _REBUILD_HINT
    if wheel.sbom.get("bomFormat") != "CycloneDX":
        return "failed", "the SBOM is not a CycloneDX document", _REBUILD_HINT
    differences = documents.find_differences(wheel.sbom, wheel.name, wheel.version, wheel.statement)
    if detail := "; ".join(differences):
        return "failed", detail, _REBUILD_HINT
    remark = "" if wheel.statement is not None else "; no statement exists to compare with"
    count = len(documents.find_list(wheel.sbom, "components"))
    return "passed", f"{wheel.name} {wheel.version}: {count} components{remark}", ""


def _check_machine_code(wheel: WheelInfo, recorded: RecordedWheel, known: Knowledge) -> _Outcome:
    for library, problem in wheel.unreadable.items():
        return "failed", f"{library}: {problem}", _FETCH_HINT
    now_archs = {
        library: (*map(str, images.code.cubins), *(f"{arch}+PTX" for arch in images.code.ptx))
        for library, images in wheel.images.items()
    }
    now = {name: frozenset(map(_strip_family_suffix, a)) for name, a in now_archs.items()}
    built_archs = recorded.archs or documents.read_built_archs(wheel.statement)
    before = {name: frozenset(map(_strip_family_suffix, a)) for name, a in built_archs.items()}
    if before and before != now:
        built = _format_library_archs(before)
        detail = f"the wheel contains {_format_library_archs(now)}, but the build recorded {built}"
        return "failed", detail, _REBUILD_HINT
    target_archs = documents.read_target_archs(wheel.statement)
    if missing := list(_find_missing_code(wheel, target_archs, known)):
        return "failed", "; ".join(missing), _REBUILD_HINT
    if not target_archs and not before:
        return "not run", "no GPU target is recorded for the wheel", ""
    return "passed", _format_library_archs(now), ""


def _strip_family_suffix(arch: str) -> str:
    """Remove the suffix `f` of a family-specific architecture, because cuobjdump omits it."""
    return arch.replace("f", "")


def _format_library_archs(libraries: Mapping[str, Iterable[str]]) -> str:
    parts = [f"{name.rpartition('/')[2]}: {', '.join(sorted(a))}" for name, a in libraries.items()]
    return format_short_list(sorted(parts), _MAX_LISTED, "; ") or "no device code"


def _find_missing_code(
    wheel: WheelInfo, targets: Sequence[Arch], knowledge: Knowledge
) -> Iterator[str]:
    """Yield a message for each library that lacks code for a target."""
    is_torch = wheel.name == "torch"
    checked = {n: i for n, i in wheel.images.items() if not is_torch or _KERNEL_LIBRARY in n}
    if targets and not checked and is_torch:
        yield f"no library contains kernels for {', '.join(map(str, targets))}"
    for name, images in checked.items():
        code = images.common_code if is_torch else images.code
        missing = [str(arch) for arch in targets if not can_run_code(knowledge, code, arch)]
        if missing:
            yield f"{name} has no code for {', '.join(missing)}"


def _check_external_libraries(wheel: WheelInfo) -> _Outcome:
    if not wheel.linkages and not wheel.dlls:
        return "not run", "the wheel contains no Linux or Windows libraries", ""
    # The torch version in a local version: `1.0+torch2.15.0.s1a2b3c4d.cu132.sm120`
    label = re.match(r"[^+]*\+torch(\d+\.\d+\.\d+)\b", wheel.version)
    against = documents.find_torch_version(wheel.sbom) or (label[1] if label else "")
    target = external_libraries.TargetEnvironment(
        wheel.requires, wheel.system, against, wheel.windows, wheel.name == "torch"
    )
    needs = external_libraries.find_external_libraries(wheel.linkages, target)
    needs += external_libraries.find_external_dlls(wheel.dlls, target)
    providers: dict[CheckStatus, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for need in needs:
        users = f" (needed by {format_short_list(need.users, _MAX_LISTED)})"
        name = need.name if need.status == "passed" else f"{need.name}{users}"
        providers[need.status][need.by].append(name)
    hints: dict[CheckStatus, str] = {
        "failed": "add the package to the Requires-Dist of the wheel",
        "not run": f"pip install --upgrade {'auditwheel' if wheel.linkages else 'delvewheel'}",
    }
    for status, remedy in hints.items():
        if found := providers[status]:
            detail = "; ".join(f"{', '.join(names)}: {by}" for by, names in found.items())
            return status, detail, remedy
    passed = sorted(providers["passed"].items())
    return "passed", "; ".join(f"{by}: {', '.join(names)}" for by, names in passed) or "none", ""
