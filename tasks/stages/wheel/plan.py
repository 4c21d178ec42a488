"""Settings and choice → the wheel stage. Pure."""

from __future__ import annotations

from typing import Any

from tasks.core.digest import plain
from tasks.core.errors import KnowledgeError
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Choice, takes_packages
from tasks.knowledge import Knowledge
from tasks.knowledge.releases import release
from tasks.settings.schema import Settings
from tasks.stages.wheel.job import BuiltJob, ExistingJob, PrebuiltJob, Reading

RECIPE = 3


def plan(settings: Settings, layout: Layout, choice: Choice, knowledge: Knowledge) -> Stage:
    """The stage that leaves an installed torch."""
    reading = _reading(layout, choice, knowledge)
    match choice.strategy:
        case "prebuilt":
            job = _prebuilt(settings, layout, choice, reading)
            return _stage(layout, job, ("deps",), "fetch the official wheel")
        case "existing":
            doc = "record the torch that is installed already"
            return _stage(layout, _existing(layout, choice, reading), ("deps",), doc)
    reads = ("deps", "source", "env", "compile")
    built = _built(settings, layout, choice, reading)
    return _stage(layout, built, reads, "build the wheel, check it and install it")


def _stage(layout: Layout, job: Any, reads: tuple[str, ...], doc: str) -> Stage:
    inputs = {name: value for name, value in plain(job).items() if name in _SHOWN}  # type: ignore[union-attr]
    return Stage(
        name="wheel",
        room="wheel",
        doc=doc,
        job=job,
        inputs={"recipe": RECIPE, "kind": type(job).__name__, **inputs, **_only_if_set(job)},
        leaves=(layout.manifest("wheel"), layout.manifest("surface")),
        reads=tuple(layout.manifest(name) for name in reads),
        asks="moved",
    )


def _only_if_set(job: Any) -> dict[str, Json]:
    """Return inputs that only some wheels have, so that no other wheel is rebuilt. Only a prebuilt
    wheel is checked against the targets; a built one has them in its version.
    """
    if isinstance(job, PrebuiltJob):
        return {"targets": [str(arch) for arch in job.targets]} if job.targets else {}
    return {"by_packages": True} if getattr(job, "by_packages", False) else {}


_SHOWN = frozenset(
    [
        "requirement",
        "index",
        "sha256",
        "cuda",
        "wheelhouse",
        "release",
        "local",
        "local_is_whole",
        "backend",
        "python",
        "folder",
        "version",
    ]
)

_ASKED = {"python", "target", "toolkit", "torch", "source", "build", "wheel"}


def _reading(layout: Layout, choice: Choice, knowledge: Knowledge) -> Reading:
    try:
        standard = release(knowledge, choice.torch).cxx_std
    except KnowledgeError:
        standard = None
    return Reading(standard, layout.build / "wheel-symbols.json", layout.surfaces)


def _prebuilt(settings: Settings, layout: Layout, choice: Choice, reading: Reading) -> PrebuiltJob:
    local = f"+{settings.torch.local}" if settings.torch.local else ""
    return PrebuiltJob(
        requirement=f"torch=={choice.torch}{local}",
        index=choice.index,
        sha256=settings.torch.sha256,
        cuda=choice.cuda,
        wheelhouse=layout.wheelhouse,
        landing=layout.build / "landing",
        reading=reading,
        deps=layout.manifest("deps"),
        log=layout.logs / "wheel.log",
        wheel=layout.manifest("wheel"),
        system=choice.system,
        knowledge=layout.config / "knowledge",
        targets=choice.targets,
    )


def _existing(layout: Layout, choice: Choice, reading: Reading) -> ExistingJob:
    return ExistingJob(
        python=choice.python.path,
        folder=choice.python.torch.folder if choice.python.torch else "",
        version=choice.torch,
        reading=reading,
        deps=layout.manifest("deps"),
        log=layout.logs / "wheel.log",
        wheel=layout.manifest("wheel"),
    )


# so that a Debug and a Release build of one commit are two wheels; both sort below the commit, and
# who asks an index for the release alone gets that of Release
_TYPES = {"Debug": ".debug", "RelWithDebInfo": ".debinfo"}


def _label(settings: Settings, choice: Choice) -> str:
    return choice.label + _TYPES.get(settings.build.type, "")


def _built(settings: Settings, layout: Layout, choice: Choice, reading: Reading) -> BuiltJob:
    asked = settings.wheel.local_version
    return BuiltJob(
        release=choice.torch,
        local={"auto": _label(settings, choice), "none": None}.get(asked, asked),
        local_is_whole=asked not in {"auto", "none"},
        cuda=choice.cuda,
        wheelhouse=layout.wheelhouse,
        build=layout.build,
        landing=layout.build / "landing",
        prefix=layout.build / "libtorch",
        content=layout.build / "wheel-content.json",
        libraries=layout.build / "wheel-libraries.json",
        linkages=layout.build / "wheel-linkages.json",
        as_made=layout.build / "wheel-linkages-as-made.json",
        patched=layout.build / "wheel-patched.json",
        reading=reading,
        deps=layout.manifest("deps"),
        source=layout.manifest("source"),
        env=layout.manifest("env"),
        compiled=layout.manifest("compile"),
        log=layout.logs / "wheel.log",
        wheel=layout.manifest("wheel"),
        asked=settings.model_dump(mode="json", include=_ASKED, exclude={"source": {"mirrors"}}),
        targets=choice.targets,
        by_packages=takes_packages(choice, settings.wheel.cuda),
    )
