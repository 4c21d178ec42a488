"""Plan the wheel stage from the settings and the resolution."""

from __future__ import annotations

from typing import Any

from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import KnowledgeError
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Resolution, should_use_cuda_packages
from tasks.knowledge import Knowledge
from tasks.knowledge.torch_releases import find_release
from tasks.settings.schema import Settings
from tasks.settings.values import dump_section
from tasks.stages.wheel.model import AbiReadOptions, BuiltJob, ExistingJob, PrebuiltJob

RECIPE = 3


def plan(settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge) -> Stage:
    """Return the stage that installs torch."""
    abi_options = _build_abi_options(layout, choice, knowledge)
    match choice.strategy:
        case "prebuilt":
            job = _build_prebuilt_job(settings, layout, choice, abi_options)
            return _build_stage(layout, job, ("deps",), "fetch the official wheel")
        case "existing":
            doc = "record the torch that is installed already"
            return _build_stage(
                layout, _build_existing_job(layout, choice, abi_options), ("deps",), doc
            )
    inputs = ("deps", "source", "env", "compile")
    source_job = _build_source_job(settings, layout, choice, abi_options)
    return _build_stage(layout, source_job, inputs, "build the wheel, check it and install it")


def _build_stage(layout: Layout, job: Any, reads: tuple[str, ...], doc: str) -> Stage:
    fields: Any = convert_to_json(job)
    inputs = {name: value for name, value in fields.items() if name in _FINGERPRINT_FIELDS}
    return Stage(
        name="wheel",
        kind="wheel",
        doc=doc,
        job=job,
        fingerprint={
            "recipe": RECIPE,
            "kind": type(job).__name__,
            **inputs,
            **_build_optional_inputs(job),
        },
        outputs=(layout.compute_manifest_path("wheel"), layout.compute_manifest_path("surface")),
        inputs=tuple(layout.compute_manifest_path(name) for name in reads),
        uptodate_check="stale",
    )


def _build_optional_inputs(job: Any) -> dict[str, Json]:
    """Return fingerprint inputs that only some wheels have, so that no other wheel is rebuilt.

    Only a prebuilt wheel is checked against the targets; a built one has them in its version.
    """
    if isinstance(job, PrebuiltJob):
        return {"targets": [str(arch) for arch in job.targets]} if job.targets else {}
    return {"by_packages": True} if getattr(job, "by_packages", False) else {}


_FINGERPRINT_FIELDS = frozenset(
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


def _dump_recorded_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that the wheel records: those that decide its content."""
    sections = dump_section(settings)
    del sections["source"]["mirrors"]
    recorded = ("python", "target", "toolkit", "torch", "source", "build", "wheel")
    return {name: sections[name] for name in recorded}


def _build_abi_options(layout: Layout, choice: Resolution, knowledge: Knowledge) -> AbiReadOptions:
    try:
        standard = find_release(knowledge, choice.torch).cxx_std
    except KnowledgeError:
        standard = None
    return AbiReadOptions(standard, layout.build / "wheel-symbols.json", layout.abi_fingerprints)


def _build_prebuilt_job(
    settings: Settings, layout: Layout, choice: Resolution, reading: AbiReadOptions
) -> PrebuiltJob:
    local = f"+{settings.torch.local}" if settings.torch.local else ""
    return PrebuiltJob(
        requirement=f"torch=={choice.torch}{local}",
        index=choice.index,
        sha256=settings.torch.sha256,
        cuda=choice.cuda,
        wheelhouse=layout.wheelhouse,
        landing=layout.build / "landing",
        reading=reading,
        deps=layout.compute_manifest_path("deps"),
        log=layout.logs / "wheel.log",
        wheel=layout.compute_manifest_path("wheel"),
        system=choice.system,
        knowledge=layout.config / "knowledge",
        targets=choice.targets,
    )


def _build_existing_job(layout: Layout, choice: Resolution, reading: AbiReadOptions) -> ExistingJob:
    return ExistingJob(
        python=choice.python.path,
        folder=choice.python.torch.folder if choice.python.torch else "",
        version=choice.torch,
        reading=reading,
        deps=layout.compute_manifest_path("deps"),
        log=layout.logs / "wheel.log",
        wheel=layout.compute_manifest_path("wheel"),
    )


# Debug and Release builds of one commit are different wheels. Both suffixes sort below the commit:
# a request to an index for the release only gets the Release build.
_BUILD_TYPE_SUFFIXES = {"Debug": ".debug", "RelWithDebInfo": ".debinfo"}


def _format_local_label(settings: Settings, choice: Resolution) -> str:
    return choice.label + _BUILD_TYPE_SUFFIXES.get(settings.build.type, "")


def _build_source_job(
    settings: Settings, layout: Layout, choice: Resolution, reading: AbiReadOptions
) -> BuiltJob:
    local_version = settings.wheel.local_version
    return BuiltJob(
        release=choice.torch,
        local={"auto": _format_local_label(settings, choice), "none": None}.get(
            local_version, local_version
        ),
        local_is_whole=local_version not in {"auto", "none"},
        cuda=choice.cuda,
        wheelhouse=layout.wheelhouse,
        build=layout.build,
        landing=layout.build / "landing",
        prefix=layout.build / "libtorch",
        content=layout.build / "wheel-content.json",
        libraries=layout.build / "wheel-libraries.json",
        linkages=layout.build / "wheel-linkages.json",
        original_linkages=layout.build / "wheel-linkages-as-made.json",
        patched=layout.build / "wheel-patched.json",
        reading=reading,
        deps=layout.compute_manifest_path("deps"),
        source=layout.compute_manifest_path("source"),
        env=layout.compute_manifest_path("env"),
        compiled=layout.compute_manifest_path("compile"),
        log=layout.logs / "wheel.log",
        wheel=layout.compute_manifest_path("wheel"),
        settings=_dump_recorded_settings(settings),
        targets=choice.targets,
        by_packages=should_use_cuda_packages(choice, settings.wheel.cuda),
    )
