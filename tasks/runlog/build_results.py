"""Collect the results of a build from its manifests, and mark the results of an earlier run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tasks.runlog.run_record import Run, parse_mapping, parse_mappings, parse_text

_EXTENSION_PREFIX = "extensions:"


@dataclass(frozen=True)
class ManifestDocuments:
    """The manifests as JSON objects; a missing manifest is {}."""

    source: Mapping[str, Any]
    deps: Mapping[str, Any]
    wheel: Mapping[str, Any]
    validation: Mapping[str, Any]
    extensions: tuple[Mapping[str, Any], ...] = ()


def merge_run_outputs(found: ManifestDocuments, run: Run) -> ManifestDocuments:
    """Return the manifests; those in the record of `run` replace later versions on disk."""
    outputs = {stage.name: stage.outputs for stage in run.stages if stage.outputs}
    extensions = {str(document.get("name")): document for document in found.extensions}
    extensions |= {
        name.removeprefix(_EXTENSION_PREFIX): document
        for name, document in outputs.items()
        if name.startswith(_EXTENSION_PREFIX)
    }
    return ManifestDocuments(
        source=outputs.get("source", found.source),
        deps=outputs.get("deps", found.deps),
        wheel=outputs.get("wheel", found.wheel),
        validation=outputs.get("validate", found.validation),
        extensions=tuple(extensions.values()),
    )


@dataclass(frozen=True)
class BuiltComponent:
    """Torch or an extension: its source, artifact and GPU architectures; "" means unknown."""

    name: str
    version: str = ""
    origin: str = ""
    archs: str = ""
    file: str = ""
    sha256: str = ""
    mib: float | None = None


@dataclass(frozen=True)
class ValidationCheck:
    """A check of the validate stage, as a table row."""

    name: str
    status: str
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class BuildResults:
    """The components and the validation checks of a build; an unknown version is ""."""

    parts: tuple[BuiltComponent, ...]
    toolkit: str
    python: str
    validated: str
    checks: tuple[ValidationCheck, ...]
    warnings: tuple[str, ...]

    @property
    def stale(self) -> bool:
        """Return True if the validation checked a torch version other than the built one."""
        torch = {part.version for part in self.parts if part.name == "torch"}
        return bool(torch and self.validated) and self.validated not in torch


def collect_results(found: ManifestDocuments, run: Run) -> BuildResults:
    """Return the results in the manifests. Results of earlier runs are marked as such."""
    checks = tuple(
        ValidationCheck(*(parse_text(row.get(item.name)) for item in fields(ValidationCheck)))
        for row in parse_mappings(found.validation.get("checks"))
    )
    parts = [_build_torch_component(found, checks, run)] if found.wheel else []
    parts += [_build_extension_component(one, run) for one in found.extensions if one]
    return BuildResults(
        parts=tuple(parts),
        toolkit=parse_text(parse_mapping(found.deps.get("toolkit")).get("version")),
        python=parse_text(found.deps.get("python_version")),
        validated=parse_text(found.validation.get("torch")),
        checks=checks,
        warnings=tuple(map(str, _ensure_list(found.validation.get("warnings")))),
    )


def _build_torch_component(
    found: ManifestDocuments, checks: Iterable[ValidationCheck], run: Run
) -> BuiltComponent:
    version = found.wheel.get("version")
    codes = [
        check.detail
        for check in checks
        if check.name in {"machine_code", "archs"} and check.status == "passed"
    ]
    archs = codes[-1] if codes and found.validation.get("torch") == version else ""
    origin = _note_earlier_run(_describe_torch_origin(found, run), run, "wheel")
    return _build_component("torch", parse_text(version), origin, archs, found.wheel)


def _describe_torch_origin(found: ManifestDocuments, run: Run) -> str:
    """Return a description of what torch was built or installed from, "" if unknown.

    It is unknown if this run fetched new sources, but torch comes from an earlier run.
    """
    kinds = {"existing": "already installed", "libtorch": "C++ libraries"}
    prebuilt, fetched = run.resolution.get("strategy") == "prebuilt", run.find_stage("source")
    kind = kinds.get(parse_text(found.wheel.get("kind")), "official wheel" if prebuilt else "")
    if _has_outputs("wheel", run):
        if prebuilt or found.wheel.get("kind") == "existing":
            return kind
    elif fetched and fetched.outputs and fetched.outcome == "changed":
        return ""
    return describe_source(found.source) or kind


def _note_earlier_run(origin: str, run: Run, stage: str) -> str:
    note = "" if _has_outputs(stage, run) else "from an earlier run"
    return ", ".join(filter(None, (origin, note)))


def _has_outputs(stage: str, run: Run) -> bool:
    stage_run = run.find_stage(stage)
    return stage_run is not None and bool(stage_run.outputs)


def _build_extension_component(document: Mapping[str, Any], run: Run) -> BuiltComponent:
    archs = {
        str(arch): None
        for row in parse_mapping(document.get("archs")).values()
        for arch in _ensure_list(row)
    }
    status, name = parse_text(document.get("status")), parse_text(document.get("name"))
    source = describe_source(parse_mapping(document.get("source")))
    origin = _note_earlier_run(source, run, f"{_EXTENSION_PREFIX}{name}")
    version = "" if status == "built" else status
    return _build_component(name, version, origin, ", ".join(archs), document)


def describe_source(source: Mapping[str, Any]) -> str:
    """Return a source as text: `commit 2f81284b0e8e, clean, 1 patch`, or its digest."""
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


def _build_component(
    name: str, version: str, origin: str, archs: str, manifest: Mapping[str, Any]
) -> BuiltComponent:
    artifact = parse_mapping(manifest.get("artifact"))
    file, sha256 = (parse_text(artifact.get(key)) for key in ("name", "sha256"))
    size = artifact.get("size")
    mib = size / 2**20 if isinstance(size, int) else None
    return BuiltComponent(name, version, origin, archs, file, sha256, mib)


def _ensure_list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
