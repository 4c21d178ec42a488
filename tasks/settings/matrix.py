"""The settings of a matrix. `tasks.settings.matrix_entries` expands it."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from tasks.settings import forms
from tasks.settings.section import Section

TorchVersion = Annotated[str, Field(pattern=forms.RELEASE_PATTERN)]
PythonVersion = Annotated[str, Field(pattern=forms.PYTHON_PATTERN)]
CudaVersion = Annotated[str, Field(pattern=forms.CUDA_PATTERN)]
GpuName = Annotated[str, Field(pattern=forms.GPU_PATTERN)]


def _wrap_single_name(value: object) -> object:
    """One name stands for a list of one."""
    return [value] if isinstance(value, str) else value


GpuNames = Annotated[
    tuple[GpuName, ...],
    BeforeValidator(_wrap_single_name, json_schema_input_type=GpuName | tuple[GpuName, ...]),
]


class MatrixCombination(Section):
    """Values of some axes."""

    torch: TorchVersion | None = None
    """Takes the place of torch.version."""
    python: PythonVersion | None = None
    """Takes the place of python."""
    cuda: CudaVersion | None = None
    """Takes the place of toolkit.version."""
    gpus: GpuNames | None = None
    """Takes the place of target.gpus."""

    @model_validator(mode="after")
    def _require_axis_value(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("name a value of torch, python, cuda or gpus")
        return self


class Matrix(Section):
    """Every combination of these is built by itself, with the rest of the profile as it is: `doit
    matrix`. An axis without values leaves its key alone.
    """

    torch: tuple[TorchVersion, ...] = ()
    """Releases, for torch.version."""
    python: tuple[PythonVersion, ...] = ()
    """Versions, for python."""
    cuda: tuple[CudaVersion, ...] = ()
    """Versions of the toolkit ("13.2", or auto), for toolkit.version. A build for the CPU has none.
    """
    gpus: tuple[GpuNames, ...] = ()
    """For target.gpus: each a name, a capability, or a list of them for one build; [] is the CPU.
    """
    exclude: tuple[MatrixCombination, ...] = ()
    """Combinations that are left out: all that have these values."""
    include: tuple[MatrixCombination, ...] = ()
    """As GitHub's: added to every combination that they change no axis of, else one more."""
