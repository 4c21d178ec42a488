"""What a single value must be like, whichever key it stands at."""

import os
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tasks.core.check_ids import IDS
from tasks.core.errors import names_a_secret
from tasks.core.suggest import did_you_mean
from tasks.settings import forms
from tasks.settings.cacheremote import mistaken


def _no_option(text: str) -> str:
    """A ref or URL that starts with a dash would be read as an option by the program it is given
    to.
    """
    if text.startswith("-"):
        raise ValueError("must not start with '-'")
    return text


def _safe_url(text: str) -> str:
    if text.startswith("ext::") or "\n" in text:
        raise ValueError("this kind of git URL runs commands and is not accepted")
    return _no_option(text)


def _not_torch(text: str) -> str:
    """torch is what everything is built against: no package list may bring another."""
    if re.split(r"[^\w.-]", text)[0].lower() == "torch":
        raise ValueError("torch is that of this profile (torch.version), never a package beside it")
    return text


Place = Annotated[str, AfterValidator(os.path.expanduser)]
"""A file or folder, where ~ is the home of who runs this."""
Ref = Annotated[str, AfterValidator(_no_option)]
GitUrl = Annotated[str, AfterValidator(_safe_url)]
Name = Annotated[str, Field(pattern=forms.NAME)]
Module = Annotated[str, Field(pattern=forms.MODULE)]
Requirement = Annotated[str, Field(pattern=forms.REQUIREMENT), AfterValidator(_not_torch)]
CompanionName = Literal["torchvision", "torchaudio", "triton"]
Switch = Annotated[str, Field(pattern=forms.SWITCH)]


def _no_secret(name: str) -> str:
    """What stands in env is written into the scripts and the manifests."""
    if names_a_secret(name):
        raise ValueError(
            f"{name} reads like a secret, and what stands here is written to files and logs; "
            "give it to the tool that needs it through that tool's own configuration"
        )
    return name


def by_name(value: object) -> object:
    """The name alone is enough for an extension that is known."""
    return {"name": value} if isinstance(value, str) else value


def _word(value: object) -> object:
    """The word that a person wrote, which YAML takes for false."""
    return "off" if value is False else value


def _distributor(value: object) -> object:
    if value == "sccache-dist":
        raise ValueError(
            "sccache-dist is no longer supported: set build.distribute: distcc or icecream "
            "(docs/distribute.md)"
        )
    return _word(value)


def _with_a_port(url: str) -> str:
    if why := mistaken(url):
        raise ValueError(why)
    return url


def _known_check(name: str) -> str:
    if name not in IDS:
        raise ValueError(f'there is no check "{name}"{did_you_mean(name, IDS)}')
    return name


CheckName = Annotated[
    str, AfterValidator(_known_check), Field(json_schema_extra={"enum": list(IDS)})
]
Caching = Annotated[Literal["auto", "ccache", "sccache", "off"], BeforeValidator(_word)]
Remote = Annotated[str, Field(pattern=forms.REMOTE), AfterValidator(_with_a_port)]
Distribution = Annotated[Literal["off", "distcc", "icecream"], BeforeValidator(_distributor)]
Check = Literal[
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
Variable = Annotated[str, Field(pattern=forms.VARIABLE), AfterValidator(_no_secret)]
Variables = dict[Variable, str]
