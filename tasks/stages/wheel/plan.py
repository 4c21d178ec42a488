"""Plan the `wheel` stage from the settings and the resolution."""

from contextlib import suppress
from typing import Any

from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import KnowledgeError
from tasks.core.model import Layout, Stage
from tasks.core.resolution import Resolution, should_use_cuda_packages
from tasks.knowledge import Knowledge
from tasks.knowledge.torch_releases import find_release
from tasks.settings.schema import Settings
from tasks.settings.values import dump_section
from tasks.stages.wheel.model import AbiReadOptions, BuiltJob, ExistingJob, PrebuiltJob

RECIPE = 3


def plan(settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge) -> Stage:
    """Return the stage that installs torch."""
    standard = None
    with suppress(KnowledgeError):
        release = find_release(knowledge, choice.torch)
        standard = None if release.origin.startswith("assumed") else release.cxx_std
    symbols = layout.build / "wheel-symbols.json"
    common: dict[str, Any] = {
        "reading": AbiReadOptions(standard, symbols, layout.abi_fingerprints),
        "deps": layout.compute_manifest_path("deps"),
        "log": layout.logs / "wheel.log",
        "wheel": layout.compute_manifest_path("wheel"),
    }
    install: dict[str, Any] = {
        **common,
        "layout": layout,
        "cuda": choice.cuda,
        "wheelhouse": layout.wheelhouse,
        "landing": layout.build / "landing",
        "targets": choice.targets,
    }
    match choice.strategy:
        case "prebuilt":
            local = f"+{settings.torch.local}" if settings.torch.local else ""
            job = PrebuiltJob(
                requirement=f"torch=={choice.torch}{local}",
                index=choice.index,
                sha256=settings.torch.sha256,
                system=choice.system,
                **install,
            )
            return _build_stage(layout, job, ("deps",), "fetch the official wheel")
        case "existing":
            existing_job = ExistingJob(
                python=choice.python.path,
                folder=choice.python.torch.folder if choice.python.torch else "",
                version=choice.torch,
                **common,
            )
            doc = "record the torch that is installed already"
            return _build_stage(layout, existing_job, ("deps",), doc)
    inputs = ("deps", "source", "env", "compile")
    source_job = _build_source_job(settings, layout, choice, install)
    return _build_stage(layout, source_job, inputs, "build the wheel, check it and install it")


def _build_stage(layout: Layout, job: Any, reads: tuple[str, ...], doc: str) -> Stage:
    names = [name for name in _FINGERPRINT_FIELDS if hasattr(job, name)]
    fingerprint = {
        "recipe": RECIPE,
        "kind": type(job).__name__,
        **{name: convert_to_json(getattr(job, name)) for name in names},
    }
    # add a field that only some wheels have only for these, so that no other wheel is rebuilt
    if isinstance(job, PrebuiltJob) and job.targets:  # a built wheel's version has them
        fingerprint["targets"] = [str(arch) for arch in job.targets]
    elif isinstance(job, BuiltJob) and job.by_packages:
        fingerprint["by_packages"] = True
    return Stage(
        name="wheel",
        kind="wheel",
        doc=doc,
        job=job,
        fingerprint=fingerprint,
        outputs=(layout.compute_manifest_path("wheel"), layout.compute_manifest_path("surface")),
        inputs=tuple(layout.compute_manifest_path(name) for name in reads),
        uptodate_check="stale",
    )


_FINGERPRINT_FIELDS = (
    "requirement", "index", "sha256", "cuda", "wheelhouse", "release", "local", "local_is_whole",
    "backend", "python", "folder", "version",
)  # fmt: skip


# Debug and Release builds of one commit are different wheels. Both suffixes sort below the commit:
# a requirement without local version selects the Release build of an index.
_BUILD_TYPE_SUFFIXES = {"Debug": ".debug", "RelWithDebInfo": ".debinfo"}


def _build_source_job(
    settings: Settings, layout: Layout, choice: Resolution, install: dict[str, Any]
) -> BuiltJob:
    local_version, sections = settings.wheel.local_version, dump_section(settings)
    del sections["source"]["mirrors"]  # the other settings of these sections determine the content
    recorded = ("python", "target", "toolkit", "torch", "source", "build", "wheel")
    label = choice.label + _BUILD_TYPE_SUFFIXES.get(settings.build.type, "")
    return BuiltJob(
        release=choice.torch,
        local={"auto": label, "none": None}.get(local_version, local_version),
        local_is_whole=local_version not in {"auto", "none"},
        content=layout.build / "wheel-content.json",
        libraries=layout.build / "wheel-libraries.json",
        source=layout.compute_manifest_path("source"),
        env=layout.compute_manifest_path("env"),
        compiled=layout.compute_manifest_path("compile"),
        settings={name: sections[name] for name in recorded},
        by_packages=should_use_cuda_packages(choice, settings.wheel.cuda),
        **install,
    )
