"""Define the types and validators of single setting values, and the base classes of sections."""

import os
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tasks.core.check_ids import CHECK_IDS
from tasks.core.errors import is_secret_name
from tasks.core.text_formatting import format_did_you_mean
from tasks.settings.cache_urls import find_url_mistake

SHA256_PATTERN = r"^[0-9a-f]{64}$"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
MODULE_PATTERN = r"^[A-Za-z_][\w.]*$"
SWITCH_PATTERN = r"^(USE|BUILD)_[A-Z0-9_]+$"
VARIABLE_PATTERN = r"^[A-Za-z_]\w*$"
HEADER_PATTERN = r"^[\w./+-]+$"
RELEASE_PATTERN = r"^\d+\.\d+\.\d+[a-z0-9.]*$"
CUDA_PATTERN = r"^(auto|\d+\.\d+)$"
PYTHON_PATTERN = r"^\d+\.\d+(\.\d+)?$"
GPU_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ._/()-]*$"
LOCAL_VERSION_PATTERN = r"^(auto|none|[a-z0-9]+(\.[a-z0-9]+)*)$"
LOCAL_PART_PATTERN = r"^[a-z0-9]+(\.[a-z0-9]+)*$"
SIZE_PATTERN = r"^(auto|[1-9]\d*[MGT])$"
REMOTE_PATTERN = (  # after the |: attributes, as ccache calls them
    r"^(rediss?|https?|s3)://([^\s\x00-\x1f/]+@)?(\[[\da-fA-F:.]+\]|[^\s\x00-\x1f/@:|\[\]]+)(:\d{1,5})?"
    r"(/[^\s|]*)?(\|\S+)?$"
)
HOST_PATTERN = r"^([A-Za-z_][\w.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?(/[1-9]\d{0,2})?(,lzo)?$"
SDIST_PATTERN = r"^[A-Za-z0-9][\w.-]*==[\w.+!-]+$"
REQUIREMENT_PATTERN = (
    r"^[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?(\s*(==|!=|~=|<=|>=|<|>)\s*[\w.*+!-]+"
    r"(\s*,\s*(==|!=|~=|<=|>=|<|>)\s*[\w.*+!-]+)*)?$"
)

PATTERN_HINTS = {
    SHA256_PATTERN: "write the 64 hexadecimal digits of the file's sha256, in lower case",
    NAME_PATTERN: 'write letters, digits, ".", "_" and "-"',
    MODULE_PATTERN: 'write a module as Python imports it, such as "simple_knn._C"',
    SWITCH_PATTERN: "write USE_NAME or BUILD_NAME, in capitals; other variables go into build.env",
    VARIABLE_PATTERN: "write the name of a variable: letters, digits and _",
    HEADER_PATTERN: 'write a header as it is included, such as "cfloat"',
    RELEASE_PATTERN: 'write a whole release without a local part, such as "2.15.0"',
    CUDA_PATTERN: 'write auto, or major and minor, such as "13.2"',
    PYTHON_PATTERN: 'write a version, such as "3.12"',
    GPU_PATTERN: 'write the name of a GPU or its capability, such as "RTX 5090" or "12.0"',
    SIZE_PATTERN: 'write auto, or a whole number with M, G or T, such as "20G"',
    LOCAL_VERSION_PATTERN: "write auto, none, or lower-case letters and digits with dots between",
    REMOTE_PATTERN: "write redis://host:6379, rediss://…, http://host/path, https://… or s3://bucket/prefix",
    LOCAL_PART_PATTERN: 'write what stands behind the + of a version: "cu132.sm120.g1a2b3c4"',
    HOST_PATTERN: 'write a name or an address with the jobs it takes: "10.0.0.5/8", '
    '"builder:3632/16,lzo", or "me@builder/8" for ssh',
    SDIST_PATTERN: 'write name and exact version, such as "torch-cluster==1.6.3": what a '
    "bare name gives can change",
    REQUIREMENT_PATTERN: 'write a package and, where it matters, a range: "setuptools>=77,<82"',
}


def _reject_option(text: str) -> str:
    """Reject a ref or URL that begins with a dash, which a program would read as an option."""
    if text.startswith("-"):
        raise ValueError("must not start with '-'")
    return text


def _check_git_url(text: str) -> str:
    if text.startswith("ext::") or "\n" in text:
        raise ValueError("this kind of git URL runs commands and is not accepted")
    return _reject_option(text)


def _reject_torch(text: str) -> str:
    """Reject torch in a package list: everything is built against the torch of the profile."""
    if re.split(r"[^\w.-]", text)[0].lower() == "torch":
        raise ValueError("torch is that of this profile (torch.version), never a package beside it")
    return text


UserPath = Annotated[str, AfterValidator(os.path.expanduser)]
"""A file or folder; ~ is expanded to the user's home."""
GitRef = Annotated[str, AfterValidator(_reject_option)]
GitUrl = Annotated[str, AfterValidator(_check_git_url)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
ModuleName = Annotated[str, Field(pattern=MODULE_PATTERN)]
Requirement = Annotated[str, Field(pattern=REQUIREMENT_PATTERN), AfterValidator(_reject_torch)]
CompanionName = Literal["torchvision", "torchaudio", "triton"]
BuildSwitch = Annotated[str, Field(pattern=SWITCH_PATTERN)]


def _reject_secret_name(name: str) -> str:
    """Reject a variable with a secret name, because env is written to scripts and manifests."""
    if is_secret_name(name):
        raise ValueError(
            f"{name} reads like a secret, and what stands here is written to files and logs; "
            "give it to the tool that needs it through that tool's own configuration"
        )
    return name


def expand_extension_name(value: object) -> object:
    """Expand the name of a known extension to a mapping."""
    return {"name": value} if isinstance(value, str) else value


def _parse_off_word(value: object) -> object:
    """Return "off" for False, because YAML parses an unquoted off as false."""
    return "off" if value is False else value


def _check_distributor(value: object) -> object:
    if value == "sccache-dist":
        raise ValueError(
            "sccache-dist is no longer supported: set build.distribute: distcc or icecream "
            "(docs/distribute.md)"
        )
    return _parse_off_word(value)


def _check_cache_port(url: str) -> str:
    if mistake := find_url_mistake(url):
        raise ValueError(mistake)
    return url


def _require_known_check(name: str) -> str:
    if name not in CHECK_IDS:
        raise ValueError(f'there is no check "{name}"{format_did_you_mean(name, CHECK_IDS)}')
    return name


DoctorCheckName = Annotated[
    str, AfterValidator(_require_known_check), Field(json_schema_extra={"enum": list(CHECK_IDS)})
]
CacheMode = Annotated[Literal["auto", "ccache", "sccache", "off"], BeforeValidator(_parse_off_word)]
CacheUrl = Annotated[str, Field(pattern=REMOTE_PATTERN), AfterValidator(_check_cache_port)]
DistributionMode = Annotated[
    Literal["off", "distcc", "icecream"], BeforeValidator(_check_distributor)
]
ValidationCheckName = Literal[
    "import",
    "version",
    "cuda",
    "archs",
    "machine_code",
    "device",
    "matmul",
    "reduction",
    "convolution",
    "autograd",
    "graph",
    "speed",
    "compile",
    "nccl",
    "extensions",
]
VariableName = Annotated[str, Field(pattern=VARIABLE_PATTERN), AfterValidator(_reject_secret_name)]
EnvironmentVariables = dict[VariableName, str]


class StrictModel(BaseModel):
    """A group of keys that rejects unknown keys, in the settings or in another file of the user."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Section(StrictModel):
    """A group of keys of the settings."""


class InvalidKeyError(ValueError):
    """A problem that the validation of a whole section found in one of its keys.

    `keys` are the keys below the section that lead to it.
    """

    def __init__(self, keys: tuple[str | int, ...], why: str) -> None:
        super().__init__(why)
        self.keys = keys
