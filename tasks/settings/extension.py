"""One extension of the settings, key by key. Its name alone is enough for one that is known."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from tasks.settings import forms
from tasks.settings.section import Section
from tasks.settings.values import (
    EnvironmentVariables,
    GitRef,
    GitUrl,
    ModuleName,
    Name,
    Requirement,
    UserPath,
    expand_extension_name,
)


class Smoke(Section):
    """A check of an installed extension."""

    script: UserPath
    """Python file that validate runs in the built environment; exit 0 passes."""
    gpu: bool = True
    """It needs a card: without one it is reported as not run."""


class Extension(Section):
    """A CUDA or C++ extension of torch, built against the torch of this profile. A name of
    docs/knowledge.md is enough; every key that is set goes before what is known of it, in `env`
    variable by variable.
    """

    name: Name
    """How you call it: `doit extensions:NAME`."""
    git: GitUrl | None = None
    """Repository to clone."""
    ref: GitRef = "HEAD"
    """Tag, branch or commit."""
    submodules: bool = True
    """Fetch submodules, recursively."""
    path: UserPath | None = None
    """A folder with its setup.py or pyproject.toml; relative to the checkout. It is copied, never
    built in.
    """
    sdist: str | None = Field(default=None, pattern=forms.SDIST_PATTERN)
    """Exact name and version on the index ("torch-cluster==1.6.3"). A bare name is never accepted.
    """
    sha256: str | None = Field(default=None, pattern=forms.SHA256_PATTERN)
    """The sdist's digest."""
    subdirectory: str | None = None
    """Where the project lies inside its source."""
    patches: tuple[UserPath, ...] = ()
    """Patch files, applied in order to the copy that is built."""
    requires: tuple[Requirement, ...] = ()
    """Packages that its build imports ("psutil", "setuptools<82"); what it needs when it runs is in
    its own metadata.
    """
    after: tuple[Name, ...] = ()
    """Names of others, of this list or of `companions`, that are built and installed before it."""
    imports: tuple[ModuleName, ...] = ()
    """Modules that must import after the build."""
    env: EnvironmentVariables = {}
    """Variables for this build alone."""
    cuda: Literal["auto", "required", "none"] = "auto"
    """Whether its libraries must hold device code if the profile has a GPU target. `auto`: yes if
    it has .cu files outside of folders for tests, examples and third-party code. `none` also builds
    it without FORCE_CUDA=1.
    """
    includes: tuple[Annotated[str, Field(pattern=forms.HEADER_PATTERN)], ...] = ()
    """Headers included first in every source ("cfloat"), for code that forgot them."""
    smoke: Smoke | None = None
    """A check that validate runs."""
    optional: bool = False
    """Go on, loudly, when the host of its source does not answer. A source that was reached must
    compile.
    """

    @model_validator(mode="after")
    def _check_single_source(self) -> Self:
        given = [key for key in ("git", "path", "sdist") if getattr(self, key)]
        if len(given) > 1:
            found = " and ".join(given)
            raise ValueError(f"give at most one of git, path and sdist (found {found})")
        if self.subdirectory and (
            self.subdirectory.startswith(("/", "\\")) or ".." in self.subdirectory
        ):
            raise ValueError("subdirectory must lie inside the source")
        return self


ExtensionItem = Annotated[
    Extension, BeforeValidator(expand_extension_name, json_schema_input_type=Name | Extension)
]
