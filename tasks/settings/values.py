"""What a single value must be like, whichever key it stands at."""

import os
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tasks.core.check_ids import CHECK_IDS
from tasks.core.errors import is_secret_name
from tasks.core.suggest import format_did_you_mean
from tasks.settings import forms
from tasks.settings.cacheremote import find_url_mistake


def _reject_option(text: str) -> str:
    """A ref or URL that starts with a dash would be read as an option by the program it is given
    to.
    """
    if text.startswith("-"):
        raise ValueError("must not start with '-'")
    return text


def _check_git_url(text: str) -> str:
    if text.startswith("ext::") or "\n" in text:
        raise ValueError("this kind of git URL runs commands and is not accepted")
    return _reject_option(text)


def _reject_torch(text: str) -> str:
    """torch is what everything is built against: no package list may bring another."""
    if re.split(r"[^\w.-]", text)[0].lower() == "torch":
        raise ValueError("torch is that of this profile (torch.version), never a package beside it")
    return text


UserPath = Annotated[str, AfterValidator(os.path.expanduser)]
"""A file or folder, where ~ is the home of who runs this."""
GitRef = Annotated[str, AfterValidator(_reject_option)]
GitUrl = Annotated[str, AfterValidator(_check_git_url)]
Name = Annotated[str, Field(pattern=forms.NAME_PATTERN)]
ModuleName = Annotated[str, Field(pattern=forms.MODULE_PATTERN)]
Requirement = Annotated[
    str, Field(pattern=forms.REQUIREMENT_PATTERN), AfterValidator(_reject_torch)
]
CompanionName = Literal["torchvision", "torchaudio", "triton"]
BuildSwitch = Annotated[str, Field(pattern=forms.SWITCH_PATTERN)]


def _reject_secret_name(name: str) -> str:
    """What stands in env is written into the scripts and the manifests."""
    if is_secret_name(name):
        raise ValueError(
            f"{name} reads like a secret, and what stands here is written to files and logs; "
            "give it to the tool that needs it through that tool's own configuration"
        )
    return name


def expand_extension_name(value: object) -> object:
    """The name alone is enough for an extension that is known."""
    return {"name": value} if isinstance(value, str) else value


def _parse_off_word(value: object) -> object:
    """The word that a person wrote, which YAML takes for false."""
    return "off" if value is False else value


def _check_distributor(value: object) -> object:
    if value == "sccache-dist":
        raise ValueError(
            "sccache-dist is no longer supported: set build.distribute: distcc or icecream "
            "(docs/distribute.md)"
        )
    return _parse_off_word(value)


def _check_cache_port(url: str) -> str:
    if why := find_url_mistake(url):
        raise ValueError(why)
    return url


def _require_known_check(name: str) -> str:
    if name not in CHECK_IDS:
        raise ValueError(f'there is no check "{name}"{format_did_you_mean(name, CHECK_IDS)}')
    return name


DoctorCheckName = Annotated[
    str, AfterValidator(_require_known_check), Field(json_schema_extra={"enum": list(CHECK_IDS)})
]
CacheMode = Annotated[Literal["auto", "ccache", "sccache", "off"], BeforeValidator(_parse_off_word)]
CacheUrl = Annotated[str, Field(pattern=forms.REMOTE_PATTERN), AfterValidator(_check_cache_port)]
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
VariableName = Annotated[
    str, Field(pattern=forms.VARIABLE_PATTERN), AfterValidator(_reject_secret_name)
]
EnvironmentVariables = dict[VariableName, str]
