"""From what a person writes to a compute capability.

Marketing digits mislead, so only the table decides.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from tasks.errors import KnowledgeError
from tasks.knowledge.facts import GpuFact
from tasks.model import Arch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tasks.knowledge.load import Knowledge

_CAPABILITY = re.compile(r"\d{1,2}\.\d[af]?|(?:sm_|compute_)\d{2,3}[af]?")
_MAKER = re.compile(r"nvidia|geforce|\bgpu\b")
_ASK = (
    'write its compute capability, such as "12.0": nvidia-smi --query-gpu=compute_cap --format=csv'
)


def resolve_gpu(knowledge: Knowledge, text: str) -> GpuFact:
    """The product, or the capability, that `text` names.

    `RTX 5090`, `rtx5060ti`, `NVIDIA GeForce RTX 5090`, `H200`, `Tesla T4`, `5090`, `12.0`, `9.0a`
    and `sm_120` are understood. A name of several products of one capability (`A100`) is kept as it
    was written. One of several capabilities (`RTX 6000`), or an unknown one, is a `KnowledgeError`
    that lists or suggests.
    """
    if _CAPABILITY.fullmatch(text.strip().lower()):
        return _capability(knowledge, text.strip().lower())
    key = _key(text)
    for gpu in knowledge.gpus:
        if key == _key(gpu.name):
            return gpu
    found = [gpu for gpu in knowledge.gpus if _means(text, gpu.name)]
    if not found:
        raise _unknown(knowledge, text)
    if len({gpu.arch for gpu in found}) > 1:
        raise _ambiguous(text, found)
    return _one_of(text.strip(), found)


def short_name(name: str) -> str:
    """`RTX 5090` for `NVIDIA GeForce RTX 5090`."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def _capability(knowledge: Knowledge, text: str) -> GpuFact:
    arch = Arch.parse(text)
    makers = [toolkit for toolkit in knowledge.toolkits.values() if arch in toolkit.makes]
    if not makers:
        raise KnowledgeError(
            f'no known CUDA toolkit makes code for "{text}"', todo=_newest(knowledge)
        )
    return GpuFact(f"compute capability {arch}", arch, makers[0].status)


def _newest(knowledge: Knowledge) -> str:
    plain = {arch for kit in knowledge.toolkits.values() for arch in kit.makes if not arch.suffix}
    return "known are " + ", ".join(map(str, sorted(plain)))


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _MAKER.sub("", text.lower()))


def _words(text: str) -> list[str]:
    spaced = re.sub(r"(rtx|gtx|quadro|tesla)(?=\d)", r"\1 ", _MAKER.sub(" ", text.lower()))
    spaced = re.sub(r"(?<=\d{4})(ti|super|laptop)\b", r" \1", spaced)
    return re.findall(r"[a-z0-9]+", spaced)


def _means(text: str, name: str) -> bool:
    words, known = _words(text), _words(name)
    return bool(words) and all(word in known or _ampere(word) in known for word in words)


def _ampere(word: str) -> str:
    # "RTX 6000" is also said of the RTX A6000.
    return f"a{word}" if re.fullmatch(r"\d{4}", word) else word


def _one_of(text: str, found: list[GpuFact]) -> GpuFact:
    least = min(len(_words(gpu.name)) for gpu in found)
    plainest = [gpu for gpu in found if len(_words(gpu.name)) == least]
    if len(plainest) == 1:
        return plainest[0]
    return GpuFact(text, found[0].arch, f"{found[0].status}; so are all {len(found)} of that name")


def _ambiguous(text: str, found: Iterable[GpuFact]) -> KnowledgeError:
    plainest: dict[Arch, GpuFact] = {}
    for gpu in sorted(found, key=lambda gpu: (gpu.arch, len(_words(gpu.name)))):
        plainest.setdefault(gpu.arch, gpu)
    names = ", ".join(f"{gpu.name} ({gpu.arch})" for gpu in plainest.values())
    return KnowledgeError(
        f'"{text}" is said of different GPUs: {names}',
        todo="write the full name, or the capability",
    )


def _unknown(knowledge: Knowledge, text: str) -> KnowledgeError:
    keys = {_key(gpu.name): gpu for gpu in knowledge.gpus}
    near = difflib.get_close_matches(_key(text), keys, n=1, cutoff=0.7)
    todo = (
        f'did you mean "{short_name(keys[near[0]].name)}" ({keys[near[0]].arch})?' if near else _ASK
    )
    return KnowledgeError(f'"{text}" is not a known GPU', todo=todo)
