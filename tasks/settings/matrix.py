"""The settings of a matrix. `tasks.settings.matrix_entries` expands it."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from tasks.settings import forms
from tasks.settings.section import Section

Release = Annotated[str, Field(pattern=forms.RELEASE)]
Python = Annotated[str, Field(pattern=forms.PYTHON)]
Cuda = Annotated[str, Field(pattern=forms.CUDA)]
Gpu = Annotated[str, Field(pattern=forms.GPU)]


def _several(value: object) -> object:
    """One name stands for a list of one."""
    return [value] if isinstance(value, str) else value


Gpus = Annotated[
    tuple[Gpu, ...], BeforeValidator(_several, json_schema_input_type=Gpu | tuple[Gpu, ...])
]


class Entry(Section):
    """Values of some axes."""

    torch: Release | None = None
    """Takes the place of torch.version."""
    python: Python | None = None
    """Takes the place of python."""
    cuda: Cuda | None = None
    """Takes the place of toolkit.version."""
    gpus: Gpus | None = None
    """Takes the place of target.gpus."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("name a value of torch, python, cuda or gpus")
        return self


class Matrix(Section):
    """Every combination of these is built by itself, with the rest of the profile as it is: `doit
    matrix`. An axis without values leaves its key alone.
    """

    torch: tuple[Release, ...] = ()
    """Releases, for torch.version."""
    python: tuple[Python, ...] = ()
    """Versions, for python."""
    cuda: tuple[Cuda, ...] = ()
    """Versions of the toolkit ("13.2", or auto), for toolkit.version. A build for the CPU has none.
    """
    gpus: tuple[Gpus, ...] = ()
    """For target.gpus: each a name, a capability, or a list of them for one build; [] is the CPU.
    """
    exclude: tuple[Entry, ...] = ()
    """Combinations that are left out: all that have these values."""
    include: tuple[Entry, ...] = ()
    """As GitHub's: added to every combination that they change no axis of, else one more."""
