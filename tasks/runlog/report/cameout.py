"""What came out of a run, and lies in its build folder: torch, extensions, their commits and archs,
and what validate found. From manifests. Pure; whatever is missing or of another make is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.runlog.record import Run
from tasks.runlog.report.documents import Documents
from tasks.runlog.values import mapping, mappings, text


@dataclass(frozen=True)
class Part:
    """Torch, or an extension: what it was made of, the file, and the machine code in it."""

    name: str
    version: str = ""
    made_of: str = ""
    archs: str = ""
    file: str = ""
    sha256: str = ""
    mib: float | None = None


@dataclass(frozen=True)
class Check:
    """A row of validate's table."""

    name: str
    status: str
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class CameOut:
    """`toolkit` and `python` are versions, "" where nobody knows."""

    parts: tuple[Part, ...]
    toolkit: str
    python: str
    validated: str
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]

    @property
    def stale(self) -> bool:
        """Whether validate looked at another torch than the one that lies there."""
        torch = {part.version for part in self.parts if part.name == "torch"}
        return bool(torch and self.validated) and self.validated not in torch


def came_out(found: Documents, run: Run) -> CameOut:
    """What the manifests tell, and which of it is not of this run."""
    parts = [_torch(found, run)] if found.wheel else []
    parts += [_extension(document, run) for document in found.extensions if document]
    checks = tuple(_check(row) for row in mappings(found.validation.get("checks")))
    toolkit = mapping(found.deps.get("toolkit"))
    return CameOut(
        parts=tuple(parts),
        toolkit=text(toolkit.get("version")),
        python=text(found.deps.get("python_version")),
        validated=text(found.validation.get("torch")),
        checks=checks,
        warnings=tuple(map(str, _list(found.validation.get("warnings")))),
    )


def _torch(found: Documents, run: Run) -> Part:
    wheel = found.wheel
    codes = [
        check.detail
        for check in map(_check, mappings(found.validation.get("checks")))
        if check.name in {"machine_code", "archs"} and check.status == "passed"
    ]
    same = found.validation.get("torch") == wheel.get("version")
    return _with_artifact(
        Part(
            name="torch",
            version=text(wheel.get("version")),
            made_of=_dated(_torch_of(found, run), run, "wheel"),
            archs=codes[-1] if codes and same else "",
        ),
        mapping(wheel.get("artifact")),
    )


def _torch_of(found: Documents, run: Run) -> str:
    """Sources that this run fetched are not those of a torch that an earlier one made."""
    kinds = {"existing": "was installed already", "libtorch": "C++ libraries"}
    prebuilt, fetched = run.decided.get("strategy") == "prebuilt", run.stage("source")
    kind = kinds.get(text(found.wheel.get("kind")), "official wheel" if prebuilt else "")
    if _made("wheel", run):
        return kind if prebuilt or found.wheel.get("kind") == "existing" else _built(found, kind)
    if fetched and fetched.outputs and fetched.outcome == "changed":
        return ""
    return _built(found, kind)


def _built(found: Documents, otherwise: str) -> str:
    return made_of(found.source) or otherwise


def _dated(made: str, run: Run, stage: str) -> str:
    return ", ".join(filter(None, (made, "" if _made(stage, run) else "from an earlier run")))


def _made(stage: str, run: Run) -> bool:
    did = run.stage(stage)
    return did is not None and bool(did.outputs)


def _extension(document: Mapping[str, Any], run: Run) -> Part:
    archs = {
        str(arch): None for row in mapping(document.get("archs")).values() for arch in _list(row)
    }
    status = text(document.get("status"))
    name = text(document.get("name"))
    part = Part(
        name=name,
        version="" if status == "built" else status,
        made_of=_dated(made_of(mapping(document.get("source"))), run, f"extensions:{name}"),
        archs=", ".join(archs),
    )
    return _with_artifact(part, mapping(document.get("artifact")))


def made_of(source: Mapping[str, Any]) -> str:
    """`commit 2f81284b0e8e, clean, 1 patch`, or the first digits of a digest."""
    commit, digest = (text(source.get(name)) for name in ("commit", "digest"))
    patches = source.get("patches") or ()
    count = len(patches) if isinstance(patches, list | tuple) else len(str(patches).split(","))
    words = [
        f"commit {commit[:12]}" if commit else f"files of digest {digest[:12]}" if digest else "",
        "with edits (dirty)" if source.get("edits") else "clean" if commit else "",
        f"{count} patch{'es' * (count != 1)}" if count else "",
        "a published wheel" if source.get("wheel") else "an sdist" if source.get("sdist") else "",
    ]
    return ", ".join(filter(None, words))


def _with_artifact(part: Part, artifact: Mapping[str, Any]) -> Part:
    size = artifact.get("size")
    return Part(
        part.name,
        part.version,
        part.made_of,
        part.archs,
        file=text(artifact.get("name")),
        sha256=text(artifact.get("sha256")),
        mib=size / 2**20 if isinstance(size, int) else None,
    )


def _check(row: Mapping[str, Any]) -> Check:
    name, status, detail, remedy = (
        text(row.get(key)) for key in ("name", "status", "detail", "remedy")
    )
    return Check(name, status, detail, remedy)


def _list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
