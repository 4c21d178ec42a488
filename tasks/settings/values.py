"""Define the types and checks of single setting values, and the base class of sections."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import NODEFAULT, Meta, Struct, structs

from tasks.core.check_ids import CHECK_IDS
from tasks.core.errors import is_secret_name
from tasks.core.text_formatting import format_did_you_mean
from tasks.settings.cache_urls import find_url_mistake

SHA256_PATTERN = r"^[0-9a-f]{64}\Z"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z"
MODULE_PATTERN = r"^[A-Za-z_][\w.]*\Z"
SWITCH_PATTERN = r"^(USE|BUILD)_[A-Z0-9_]+\Z"
VARIABLE_PATTERN = r"^[A-Za-z_]\w*\Z"
HEADER_PATTERN = r"^[\w./+-]+\Z"
RELEASE_PATTERN = r"^(auto|\d+\.\d+\.\d+[a-z0-9.]*)\Z"
CUDA_PATTERN = r"^(auto|\d+\.\d+)\Z"
PYTHON_PATTERN = r"^\d+\.\d+(\.\d+)?\Z"
GPU_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ._/()-]*\Z"
LOCAL_VERSION_PATTERN = r"^(auto|none|[a-z0-9]+(\.[a-z0-9]+)*)\Z"
LOCAL_PART_PATTERN = r"^[a-z0-9]+(\.[a-z0-9]+)*\Z"
SIZE_PATTERN = r"^(auto|[1-9]\d*[MGT])\Z"
REMOTE_PATTERN = (  # attributes of ccache follow the |
    r"^(rediss?|https?|s3)://([^\s\x00-\x1f/]+@)?(\[[\da-fA-F:.]+\]|[^\s\x00-\x1f/@:|\[\]]+)(:\d{1,5})?"
    r"(/[^\s|]*)?(\|\S+)?\Z"
)
HOST_PATTERN = r"^([A-Za-z_][\w.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?(/[1-9]\d{0,2})?(,lzo)?\Z"
SDIST_PATTERN = r"^[A-Za-z0-9][\w.-]*==[\w.+!-]+\Z"
REQUIREMENT_PATTERN = (
    r"^[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?(\s*(==|!=|~=|<=|>=|<|>)\s*[\w.*+!-]+"
    r"(\s*,\s*(==|!=|~=|<=|>=|<|>)\s*[\w.*+!-]+)*)?\Z"
)

PATTERN_HINTS = {
    SHA256_PATTERN: "write the 64 hexadecimal digits of the file's sha256, in lower case",
    NAME_PATTERN: 'write letters, digits, ".", "_" and "-"',
    MODULE_PATTERN: 'write a module as Python imports it, such as "simple_knn._C"',
    SWITCH_PATTERN: "write USE_NAME or BUILD_NAME, in capitals; other variables go into build.env",
    VARIABLE_PATTERN: "write the name of a variable: letters, digits and _",
    HEADER_PATTERN: 'write a header as it is included, such as "cfloat"',
    RELEASE_PATTERN: 'write auto, or a whole release without a local part, such as "2.15.0"',
    CUDA_PATTERN: 'write auto, or major and minor, such as "13.2"',
    PYTHON_PATTERN: 'write a version, such as "3.12"',
    GPU_PATTERN: 'write the name of a GPU or its capability, such as "RTX 5090" or "12.0"',
    SIZE_PATTERN: 'write auto, or a whole number with M, G or T, such as "20G"',
    LOCAL_VERSION_PATTERN: "write auto, none, or lower-case letters and digits with dots between",
    REMOTE_PATTERN: "write redis://host:6379, rediss://…, http://host/path, https://… or s3://bucket/prefix",
    LOCAL_PART_PATTERN: 'write the part after the + of a version: "cu132.sm120.g1a2b3c4"',
    HOST_PATTERN: 'write HOST[:PORT]/JOBS[,lzo], such as "10.0.0.5/8", or "me@builder/8" for ssh',
    SDIST_PATTERN: 'write the name and an exact version, such as "torch-cluster==1.6.3"',
    REQUIREMENT_PATTERN: 'write a package and, where it matters, a range: "setuptools>=77,<82"',
}


expand_user = os.path.expanduser


def reject_option(text: str) -> str:
    """Reject a ref or URL that begins with a dash, because programs would read it as an option."""
    if text.startswith("-"):
        raise ValueError("must not start with '-'")
    return text


def check_git_url(text: str) -> str:
    """Return the URL, or raise `ValueError` if git would run a command for it."""
    if text.startswith("ext::") or "\n" in text:
        raise ValueError("git would run a command for this URL; write an https or ssh URL")
    return reject_option(text)


def reject_torch(text: str) -> str:
    """Reject torch in a package list, because everything must use the torch of the profile."""
    if re.split(r"[^\w.-]", text)[0].lower() == "torch":
        raise ValueError(
            "torchyard installs torch itself: remove torch from this list, and set torch.version"
        )
    return text


UserPath = str  # a file or folder; `expand_user` expands ~
GitRef = str
GitUrl = str
Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
ModuleName = Annotated[str, Meta(pattern=MODULE_PATTERN)]
Requirement = Annotated[str, Meta(pattern=REQUIREMENT_PATTERN)]
CompanionName = Literal["torchvision", "torchaudio", "triton"]
BuildSwitch = Annotated[str, Meta(pattern=SWITCH_PATTERN)]


def check_gpu_name(name: str) -> str:
    """Return the name, or raise `ValueError` if it does not have the form of a GPU name."""
    if not re.match(GPU_PATTERN, name):
        raise ValueError(f'"{name}" does not have the right form: {PATTERN_HINTS[GPU_PATTERN]}')
    return name


def reject_secret_name(name: str) -> str:
    """Reject a variable whose name suggests a secret, because `env` is written to files."""
    if is_secret_name(name):
        why = "looks like a secret, but this setting is written to files and logs"
        hint = "put the secret into the configuration of the tool that needs it"
        raise ValueError(f"{name} {why}: {hint}")
    return name


def check_cache_port(url: str) -> str:
    """Return the URL of a remote cache, or raise `ValueError` if the URL or its port is invalid."""
    if mistake := find_url_mistake(url):
        raise ValueError(mistake)
    return url


def require_known_check(name: str) -> str:
    """Return the name if `doit doctor` has such a check, or raise `ValueError`."""
    if name not in CHECK_IDS:
        raise ValueError(f'there is no check "{name}"{format_did_you_mean(name, CHECK_IDS)}')
    return name


DoctorCheckName = Annotated[str, Meta(extra_json_schema={"enum": list(CHECK_IDS)})]
CacheMode = Literal["auto", "ccache", "sccache", "off"]
CacheUrl = Annotated[str, Meta(pattern=REMOTE_PATTERN)]
DistributionMode = Literal["off", "distcc", "icecream"]
_TorchCheck = Literal["import", "version", "cuda", "archs", "machine_code", "device", "matmul"]
_KernelCheck = Literal["reduction", "convolution", "autograd", "graph", "speed", "compile", "nccl"]
ValidationCheckName = Literal[_TorchCheck, _KernelCheck, "extensions"]
VariableName = Annotated[str, Meta(pattern=VARIABLE_PATTERN)]
EnvironmentVariables = dict[VariableName, str]


class InvalidKeyError(ValueError):
    """An invalid value of the right type, found at the path `keys` in its section."""

    def __init__(self, keys: tuple[str | int, ...], why: str) -> None:
        super().__init__(why)
        self.keys = keys


class StrictModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of keys in a user's file. Unknown keys are rejected."""


class Section(StrictModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of keys of the settings.

    `checks` maps a key to a function that returns its argument or raises `ValueError`. It is called
    for each item of a list and for each name in a mapping.
    """

    checks: ClassVar[Mapping[str, Callable[[str], str]]] = {}

    def __post_init__(self) -> None:
        for key, check in self.checks.items():
            structs.force_setattr(self, key, _check_value(getattr(self, key), check, (key,)))


def _check_value(value: Any, check: Callable[[str], str], path: tuple[str | int, ...]) -> Any:
    match value:
        case None:
            return None
        case tuple():
            return tuple(_check_value(item, check, (*path, i)) for i, item in enumerate(value))
        case dict():
            return {_check_value(name, check, (*path, name)): value[name] for name in value}
    try:
        return check(value)
    except ValueError as error:
        raise InvalidKeyError(path, str(error)) from error


def list_fields(section: type[StrictModel]) -> Iterator[tuple[str, Any]]:
    """Yield each key of a section with its default, `msgspec.NODEFAULT` for a required key."""
    for field in structs.fields(section):
        if field.name == field.encode_name:  # not a hidden field
            is_empty = field.default is NODEFAULT and field.default_factory is not NODEFAULT
            yield field.name, field.default_factory() if is_empty else field.default


def dump_section(section: StrictModel, *, with_defaults: bool = True) -> dict[str, Any]:
    """Return the keys and values of a section as plain data for JSON or YAML."""
    return {
        key: dump_value(value, with_defaults=with_defaults)
        for key, default in list_fields(type(section))
        if (value := getattr(section, key)) != default or with_defaults
    }


def dump_value(value: Any, *, with_defaults: bool = False) -> Any:
    """Return a value of the settings as plain data for JSON or YAML."""
    match value:
        case StrictModel():
            return dump_section(value, with_defaults=with_defaults)
        case tuple():
            return [dump_value(item, with_defaults=with_defaults) for item in value]
        case dict():
            return {key: dump_value(value[key], with_defaults=with_defaults) for key in value}
    return value
