"""What was read of a wheel → a check for each thing that is recorded of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tasks.core.formatting.few import few
from tasks.core.model import Arch, Artifact, Check
from tasks.knowledge import Knowledge
from tasks.knowledge.covers import covers
from tasks.wheels.provenance.statement import PREDICATE, TYPE
from tasks.wheels.verify import dlls
from tasks.wheels.verify.documents import differences, held, is_about, items, targets
from tasks.wheels.verify.documents import torch_of as torch_named_in
from tasks.wheels.verify.looked import Looked
from tasks.wheels.verify.outside import Outside, Surroundings, outside

_KERNELS = "/libtorch_cuda."  # of torch's libraries the one that has code for each target
_FEW = 4  # names in a line
_ANEW = "doit clean, then doit build: what is not as it was recorded is made anew"


@dataclass(frozen=True)
class Recorded:
    """What the manifests of a profile have of a wheel of this name: `artifact` is None where it is
    not of this profile, for which `why` has the reason, `archs` what was read in each library when
    it was built.
    """

    artifact: Artifact | None = None
    archs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    why: str = ""


def checks(found: Looked, recorded: Recorded, knowledge: Knowledge) -> Iterator[Check]:
    """In the order of the table. Where the wheel is damaged nothing in it is looked at."""
    yield _record(found)
    yield _statement(found)
    yield _manifest(found, recorded)
    if found.problem:
        for name in ("SBOM", "machine code", "needs from outside"):
            yield Check(name, "not run", "the wheel is not what its RECORD says")
        return
    yield _sbom(found)
    yield _machine_code(found, recorded, knowledge)
    yield _outside(found)


def _record(found: Looked) -> Check:
    if found.problem:
        return Check("RECORD", "failed", found.problem, "take the wheel from where it was made")
    return Check("RECORD", "passed", "every member has its sha256")


def _statement(found: Looked) -> Check:
    name, told, digest = "statement", found.statement, f"{found.artifact.sha256[:12]}…"
    if told is None:
        file = f"{found.artifact.name}.provenance.json"
        return Check(name, "not run", f"there is no {file} beside it")
    if (told.get("_type"), told.get("predicateType")) != (TYPE, PREDICATE):
        return Check(name, "failed", "the file beside it is no SLSA provenance of in-toto", _ANEW)
    if not is_about(told, found.artifact):
        return Check(name, "failed", f"it is about another wheel than this, of {digest}", _ANEW)
    return Check(name, "passed", f"it is about these bytes, {digest}")


def _manifest(found: Looked, recorded: Recorded) -> Check:
    name = "manifest"
    if recorded.artifact is None:
        return Check(name, "not run", recorded.why)
    if recorded.artifact != found.artifact:
        was = f"{recorded.artifact.sha256[:12]}…, and this is {found.artifact.sha256[:12]}…"
        return Check(name, "failed", f"this profile built one with the sha256 {was}", _ANEW)
    return Check(name, "passed", "it is the one that this profile built")


def _sbom(found: Looked) -> Check:
    name = "SBOM"
    if found.sbom is None and found.statement is None:
        return Check(name, "not run", "none is in it, and no statement that it was made here")
    if found.sbom is None:
        return Check(name, "failed", "none is in it, and it was made here", _ANEW)
    if found.sbom.get("bomFormat") != "CycloneDX":
        return Check(name, "failed", "it is no CycloneDX document", _ANEW)
    told = list(differences(found.sbom, found.name, found.version, found.statement))
    if told:
        return Check(name, "failed", "; ".join(told), _ANEW)
    beside = "" if found.statement is not None else "; there is no statement to compare it with"
    parts = len(items(found.sbom, "components"))
    return Check(name, "passed", f"{found.name} {found.version} of {parts} components{beside}")


def _machine_code(found: Looked, recorded: Recorded, knowledge: Knowledge) -> Check:
    name = "machine code"
    if found.unread:
        library, why = next(iter(found.unread.items()))
        return Check(name, "failed", f"{library}: {why}", "take the wheel from where it was made")
    now = {library: _archs(found, library) for library in found.images}
    read = recorded.archs or held(found.statement)
    before = {library: frozenset(map(_plain, archs)) for library, archs in read.items()}
    if before and before != now:
        what = f"it holds {_told(now)}, and what was built held {_told(before)}"
        return Check(name, "failed", what, _ANEW)
    wanted = targets(found.statement)
    if missing := list(_missing(found, wanted, knowledge)):
        return Check(name, "failed", "; ".join(missing), _ANEW)
    if not wanted and not before:
        return Check(name, "not run", "no GPU target is recorded of it")
    return Check(name, "passed", _told(now))


def _archs(found: Looked, library: str) -> frozenset[str]:
    code = found.images[library].code
    ptx = (f"{arch}+PTX" for arch in code.ptx)
    return frozenset(map(_plain, (*map(str, code.cubins), *ptx)))


def _plain(arch: str) -> str:
    """Without the f of a family, which cuobjdump leaves out."""
    return arch.replace("f", "")


def _told(libraries: Mapping[str, Iterable[str]]) -> str:
    parts = [f"{name.rpartition('/')[2]}: {', '.join(sorted(a))}" for name, a in libraries.items()]
    return few(sorted(parts), _FEW, "; ") or "no device code"


def _missing(found: Looked, wanted: Sequence[Arch], knowledge: Knowledge) -> Iterator[str]:
    """Of torch the library with its kernels, of an extension each that has device code."""
    is_torch = found.name == "torch"
    images = {n: one for n, one in found.images.items() if not is_torch or _KERNELS in n}
    if wanted and not images and is_torch:
        yield f"no library has the kernels for {', '.join(map(str, wanted))}"
    for name, one in images.items():
        code = one.common if is_torch else one.code
        lacking = [str(arch) for arch in wanted if not covers(knowledge, code, arch)]
        if lacking:
            yield f"{name} has no code for {', '.join(lacking)}"


def _outside(found: Looked) -> Check:
    name = "needs from outside"
    if not found.held and not found.dlls:
        return Check(name, "not run", _unread(found))
    against = torch_named_in(found.sbom) or _labelled(found.version)
    is_torch = found.name == "torch"
    beside = Surroundings(found.requires, found.system, against, found.windows, is_torch)
    needs = [*outside(found.held, beside), *dlls.outside(found.dlls, beside)]
    helper = "auditwheel" if found.held else "delvewheel"
    if bad := [one for one in needs if one.status == "failed"]:
        return Check(name, "failed", _whose(bad), "let Requires-Dist bring it")
    if unsure := [one for one in needs if one.status == "not run"]:
        return Check(name, "not run", _whose(unsure), f"pip install {helper}")
    brought: dict[str, list[str]] = {}
    for one in needs:
        brought.setdefault(one.by, []).append(one.name)
    told = (f"{by}: {', '.join(names)}" for by, names in sorted(brought.items()))
    return Check(name, "passed", "; ".join(told) or "nothing")


def _unread(found: Looked) -> str:
    if not any(one.endswith((".dll", ".pyd")) for one in found.libraries):
        return "it holds no library of Linux or Windows"
    return "pefile, which reads DLLs and comes with delvewheel, is not installed"


def _labelled(version: str) -> str:
    """The torch that the version names: `1.0+torch2.15.0.s1a2b3c4d.cu132.sm120`."""
    label = re.match(r"[^+]*\+torch(\d+\.\d+\.\d+)\b", version)
    return label[1] if label else ""


def _whose(needs: Iterable[Outside]) -> str:
    """What is said of several is said once, behind all of them."""
    users: dict[str, list[str]] = {}
    for one in needs:
        users.setdefault(one.by, []).append(f"{one.name} (needed by {few(one.users, _FEW)})")
    return "; ".join(f"{', '.join(names)}: {by}" for by, names in users.items())
