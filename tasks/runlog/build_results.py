"""Collect the results of a build from its manifests, and mark the results of an earlier run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tasks.core.model import CheckStatus, ValidationResult
from tasks.runlog.run_record import Run, parse_items, parse_mapping, parse_text

ManifestDocuments = Mapping[str, Mapping[str, Any]]  # by stage name; a missing manifest is {}


@dataclass(frozen=True)
class BuiltComponent:
    """A built torch or extension: `origin` is its source, `file` its wheel; "" means unknown."""

    name: str
    version: str
    origin: str
    archs: str
    file: str
    sha256: str
    mib: float | None


@dataclass(frozen=True)
class BuildResults:
    """The results of a build. `validated` is the torch version that was checked, "" if unknown."""

    parts: tuple[BuiltComponent, ...]
    toolkit: str
    python: str
    validated: str
    checks: tuple[ValidationResult, ...]
    warnings: tuple[str, ...]

    @property
    def stale(self) -> bool:
        """Return True if the validation checked a torch version other than the built one."""
        torch = {part.version for part in self.parts if part.name == "torch"}
        return bool(torch and self.validated) and self.validated not in torch


def collect_results(found: ManifestDocuments, run: Run) -> BuildResults:
    """Return the results. A manifest in `run` replaces that of the same stage in `found`."""
    recorded = {stage.name: stage.outputs for stage in run.stages if stage.outputs}
    manifests = {"deps": {}, "wheel": {}, "validate": {}, **found, **recorded}
    deps, validation = manifests["deps"], manifests["validate"]
    checks = tuple(
        ValidationResult(
            parse_text(row.get("name")),
            cast(CheckStatus, parse_text(row.get("status"))),
            *(parse_text(row.get(key)) for key in ("detail", "remedy")),
        )
        for row in parse_items(validation.get("checks"), dict)
    )
    parts = [_build_torch_component(manifests, checks, run)] if manifests["wheel"] else []
    for stage, document in manifests.items():
        if stage.startswith("extensions:") and document:
            parts.append(_build_extension_component(document, run))
    return BuildResults(
        parts=tuple(parts),
        toolkit=parse_text(parse_mapping(deps.get("toolkit")).get("version")),
        python=parse_text(deps.get("python_version")),
        validated=parse_text(validation.get("torch")),
        checks=checks,
        warnings=tuple(map(str, _ensure_list(validation.get("warnings")))),
    )


def _build_torch_component(
    found: ManifestDocuments, checks: Iterable[ValidationResult], run: Run
) -> BuiltComponent:
    wheel = found["wheel"]
    version, code_checks = wheel.get("version"), {"machine_code", "archs"}
    codes = [one.detail for one in checks if one.name in code_checks and one.status == "passed"]
    archs = codes[-1] if codes and found["validate"].get("torch") == version else ""
    origin = _describe_torch_origin(wheel, found.get("source", {}), run)
    origin = _note_earlier_run(origin, run, "wheel")
    return BuiltComponent("torch", parse_text(version), origin, archs, *_parse_artifact(wheel))


def _describe_torch_origin(wheel: Mapping[str, Any], source: Mapping[str, Any], run: Run) -> str:
    kinds = {"existing": "already installed", "libtorch": "C++ libraries"}
    prebuilt, fetched = run.resolution.get("strategy") == "prebuilt", run.find_stage("source")
    kind = kinds.get(parse_text(wheel.get("kind")), "official wheel" if prebuilt else "")
    if _has_outputs("wheel", run):
        if prebuilt or wheel.get("kind") == "existing":
            return kind
    elif fetched and fetched.outputs and fetched.outcome == "changed":
        return ""  # this run fetched new sources, but torch comes from an earlier run
    return describe_source(source) or kind


def _has_outputs(stage: str, run: Run) -> bool:
    stage_run = run.find_stage(stage)
    return stage_run is not None and bool(stage_run.outputs)


def _build_extension_component(document: Mapping[str, Any], run: Run) -> BuiltComponent:
    rows = parse_mapping(document.get("archs")).values()
    archs = ", ".join(dict.fromkeys(str(arch) for row in rows for arch in _ensure_list(row)))
    status, name = parse_text(document.get("status")), parse_text(document.get("name"))
    source = describe_source(parse_mapping(document.get("source")))
    origin = _note_earlier_run(source, run, f"extensions:{name}")
    version = "" if status == "built" else status
    return BuiltComponent(name, version, origin, archs, *_parse_artifact(document))


def describe_source(source: Mapping[str, Any]) -> str:
    """Return a text such as `commit 2f81284b0e8e, clean, 1 patch` for the source in a manifest."""
    commit, digest = (parse_text(source.get(name)) for name in ("commit", "digest"))
    patches = source.get("patches") or ()
    count = len(patches) if isinstance(patches, list | tuple) else len(str(patches).split(","))
    words = [
        f"commit {commit[:12]}" if commit else f"files of digest {digest[:12]}" if digest else "",
        "with edits (dirty)" if source.get("edits") else "clean" if commit else "",
        f"{count} patch{'es' * (count != 1)}" if count else "",
        "a published wheel" if source.get("wheel") else "an sdist" if source.get("sdist") else "",
    ]
    return ", ".join(filter(None, words))


def _note_earlier_run(origin: str, run: Run, stage: str) -> str:
    note = "" if _has_outputs(stage, run) else "from an earlier run"
    return ", ".join(filter(None, (origin, note)))


def _parse_artifact(manifest: Mapping[str, Any]) -> tuple[str, str, float | None]:
    """Return the file name, the sha256 digest and the size in MiB of a stage's artifact."""
    artifact = parse_mapping(manifest.get("artifact"))
    size = artifact.get("size")
    mib = size / 2**20 if isinstance(size, int) else None
    return parse_text(artifact.get("name")), parse_text(artifact.get("sha256")), mib


def _ensure_list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
