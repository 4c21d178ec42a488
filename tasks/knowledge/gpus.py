"""Resolve the name of a GPU to its compute capability.

Marketing digits mislead, so only the table decides.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch, Gpu
from tasks.knowledge.facts import GpuFact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tasks.knowledge.facts import GpuFamily
    from tasks.knowledge.knowledge_files import Knowledge

_MAKER_PATTERN = re.compile(r"nvidia|geforce|\bgpu\b")
_MEMORY_SIZE = re.compile(r"\d+gb?|hbm\d\w*|sxm\d*|nvl\d+|v\d")
_MIN_SIMILARITY = 0.8  # of characters; below it "Jetson Thor" is near "Jetson TX2"
_LOOKALIKE_DIGITS = str.maketrans("oil", "011")
_MIN_MODEL_DIGITS = 3  # a shorter number is near too many others


@lru_cache(maxsize=2048)  # each lookup compares with every known name
def normalize_gpu_name(text: str) -> str:
    """Return only the letters and digits, without the maker: `rtx5090`."""
    return re.sub(r"[^a-z0-9]", "", _MAKER_PATTERN.sub("", text.lower()))


@lru_cache(maxsize=2048)
def split_gpu_name(text: str) -> tuple[str, ...]:
    """Return the words of a name, without the maker; `rtx5060ti` has three."""
    spaced = re.sub(r"(rtx|gtx|quadro|tesla)(?=\d)", r"\1 ", _MAKER_PATTERN.sub(" ", text.lower()))
    spaced = re.sub(r"(?<=\d{4})(ti|super|laptop)\b", r" \1", spaced)
    return tuple(re.findall(r"[a-z0-9]+", spaced))


def list_distinctive_words(knowledge: Knowledge, text: str) -> list[str]:
    """Return the words that identify the GPU.

    Memory sizes and the words of a whole product line are left out.
    """
    line_words = knowledge.line_words
    return [
        word
        for word in split_gpu_name(text)
        if word not in line_words and not _MEMORY_SIZE.fullmatch(word)
    ]


def find_nearest_gpus(knowledge: Knowledge, text: str) -> list[GpuFact]:
    """Return the known name nearest to `text` for each capability that it may mean, ascending.

    A name with a model number is near those with the same number, else near those whose number is
    typed almost the same. A number of another generation is not near, however similar the letters
    are.
    """
    numbers = _list_model_numbers(text)
    if not numbers:
        similar = [
            gpu for gpu in knowledge.gpus if _compute_similarity(text, gpu.name) >= _MIN_SIMILARITY
        ]
        return sorted(similar, key=lambda gpu: -_compute_similarity(text, gpu.name))[:1]
    for is_near in (
        _is_same_model,
        _is_lookalike_model,
        _is_transposed_model,
        _is_one_character_off,
    ):
        gpus = [gpu for gpu in knowledge.gpus if is_near(numbers, _list_model_numbers(gpu.name))]
        if gpus:
            return _select_best_gpus(text, gpus)
    return []


def _select_best_gpus(text: str, found: list[GpuFact]) -> list[GpuFact]:
    """Return the best GPU of each capability.

    The best has the fewest words that `text` does not have, then the most similar name.
    """
    best: dict[Arch, GpuFact] = {}
    requested_words = set(split_gpu_name(text))

    def rank(gpu: GpuFact) -> tuple[int, float]:
        return len({*split_gpu_name(gpu.name)} - requested_words), -_compute_similarity(
            text, gpu.name
        )

    for gpu in sorted(found, key=rank):
        best.setdefault(gpu.arch, gpu)
    return [best[arch] for arch in sorted(best)]


def _list_model_numbers(text: str) -> set[str]:
    candidates = [word for word in split_gpu_name(text) if re.search(r"\d", word)]
    return {word for word in candidates if not _MEMORY_SIZE.fullmatch(word)}


def _is_same_model(asked: set[str], known: set[str]) -> bool:
    return bool(asked & known)


def _is_lookalike_model(asked: set[str], known: set[str]) -> bool:
    """Return True if the numbers are equal once letters are read as digits: 509O."""
    return bool({word.translate(_LOOKALIKE_DIGITS) for word in asked} & known)


def _is_transposed_model(asked: set[str], known: set[str]) -> bool:
    """Return True if the numbers are equal after two neighbouring characters are swapped."""
    return any(
        word[:index] + word[index + 1] + word[index] + word[index + 2 :] in known
        for word in asked
        for index in range(len(word) - 1)
    )


def _is_one_character_off(asked: set[str], known: set[str]) -> bool:
    """Return True if a number has one character too many or too few.

    Another digit is another GPU.
    """
    return any(
        _is_one_shorter(number, known_number) or _is_one_shorter(known_number, number)
        for number in asked
        for known_number in known
    )


def _is_one_shorter(long: str, short: str) -> bool:
    return len(short) >= _MIN_MODEL_DIGITS and short in {
        long[:index] + long[index + 1 :] for index in range(len(long))
    }


def _compute_similarity(text: str, name: str) -> float:
    from difflib import SequenceMatcher  # noqa: PLC0415 - for names that nobody knows

    return SequenceMatcher(None, normalize_gpu_name(text), normalize_gpu_name(name)).ratio()


_CAPABILITY_PATTERN = re.compile(r"\d{1,2}\.\d[af]?|(?:sm_|compute_)\d{2,3}[af]?")
_RTX_SERIES = re.compile(r"NVIDIA GeForce RTX (\d)0\d\d\b")
_MAX_NAMED_GPUS = 3
_CAPABILITY_HINT = (
    'write its compute capability, such as "12.0": nvidia-smi --query-gpu=compute_cap --format=csv'
)
_FULL_NAME_HINT = "write the full name, or the capability"


def resolve_gpu(knowledge: Knowledge, text: str) -> GpuFact:
    """Return the product, or the capability, that `text` names.

    `RTX 5090`, `rtx5060ti`, `NVIDIA GeForce RTX 5090`, `H200`, `Tesla T4`, `5090`, `12.0`, `9.0a`
    and `sm_120` are understood. A name of several products of one capability (`A100`, `Hopper`) is
    kept as written. These names raise a `KnowledgeError` with a list or a suggestion: one of
    several capabilities (`RTX 6000`, `Blackwell`), one that names only a product line (`RTX PRO`),
    one that no toolkit compiles for (`Quadro 6000`), and an unknown one.
    """
    if text not in knowledge.gpus_by_text:
        knowledge.gpus_by_text[text] = _resolve_uncached_gpu(knowledge, text)
    return knowledge.gpus_by_text[text]


def _resolve_uncached_gpu(knowledge: Knowledge, text: str) -> GpuFact:
    if is_capability(text):
        return _resolve_capability(knowledge, text.strip().lower())
    for gpu in knowledge.gpus:
        if normalize_gpu_name(text) == normalize_gpu_name(gpu.name):
            return gpu
    _reject_too_old_gpu(knowledge, text)
    words = list_distinctive_words(knowledge, text)
    family = next(
        (candidate for candidate in knowledge.families if words == [candidate.name.lower()]), None
    )
    if family:
        return _resolve_family(knowledge, text, family)
    matches = _match_gpus(knowledge, text)
    if not matches:
        raise _build_unknown_gpu_error(knowledge, text)
    if not words:
        raise KnowledgeError(
            f'"{text}" is said of many GPUs, such as {_format_gpu_choices(matches)}',
            hint=_FULL_NAME_HINT,
        )
    if len({gpu.arch for gpu in matches}) > 1:
        raise _build_ambiguous_error(text, matches)
    return _select_plainest_gpu(text.strip(), matches)


def is_capability(text: str) -> bool:
    """Return True for `12.0`, `sm_120` and the like, False for the name of a product."""
    return bool(_CAPABILITY_PATTERN.fullmatch(text.strip().lower()))


def summarize_gpus(knowledge: Knowledge, arch: Arch) -> str:
    """Summarize the GPUs with a capability: `RTX 40 series, L2, L4 and others`."""
    gpus = [gpu for gpu in knowledge.gpus if gpu.arch == arch]
    series = Counter(match[1] for gpu in gpus if (match := _RTX_SERIES.match(gpu.name)))
    series_names = [
        f"RTX {digit}0 series" for digit, count in series.items() if count >= _MAX_NAMED_GPUS
    ]
    others = [gpu for gpu in gpus if not _RTX_SERIES.match(gpu.name)]
    others.sort(key=lambda gpu: (gpu.status.startswith("unverified"), len(gpu.name)))
    names = [*series_names, *(shorten_gpu_name(gpu.name) for gpu in others[:_MAX_NAMED_GPUS])]
    suffix = " and others" if len(others) > _MAX_NAMED_GPUS else ""
    families = [family.name for family in knowledge.families if arch in family.archs]
    return f"{', '.join(names or families)}{suffix}"


def find_only_machine(knowledge: Knowledge, arch: Arch) -> tuple[str, tuple[str, ...]]:
    """Return the only kind of machine with that capability, and the names of its GPUs.

    The machine is "" if any kind may have it.
    """
    base_arch = Arch(arch.major, arch.minor)
    gpus = [gpu for gpu in knowledge.gpus if gpu.arch == base_arch]
    machines = {gpu.machine for gpu in gpus}
    integrated = knowledge.binary_rules.integrated
    if not gpus and base_arch in integrated:
        machines = {gpu.machine for gpu in knowledge.gpus if gpu.arch in integrated}
    return (machines.pop() if len(machines) == 1 else ""), tuple(gpu.name for gpu in gpus)


def shorten_gpu_name(name: str) -> str:
    """Return `RTX 5090` for `NVIDIA GeForce RTX 5090`."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def _resolve_capability(knowledge: Knowledge, text: str) -> GpuFact:
    arch = Arch.parse_capability(text)
    toolkits = [toolkit for toolkit in knowledge.toolkits.values() if arch in toolkit.makes]
    if not toolkits:
        raise KnowledgeError(
            f'no known CUDA toolkit makes code for "{text}"',
            hint=_format_known_capabilities(knowledge),
        )
    return GpuFact(f"compute capability {arch}", arch, toolkits[0].status)


def _format_known_capabilities(knowledge: Knowledge) -> str:
    archs = {
        arch for toolkit in knowledge.toolkits.values() for arch in toolkit.makes if not arch.suffix
    }
    return "known are " + ", ".join(map(str, sorted(archs)))


def _resolve_family(knowledge: Knowledge, text: str, family: GpuFamily) -> GpuFact:
    if len(family.archs) > 1:
        products = [gpu for gpu in knowledge.gpus if gpu.arch in family.archs]
        raise _build_ambiguous_error(text, products)
    return GpuFact(text.strip(), family.archs[0], family.status)


def _match_gpus(knowledge: Knowledge, text: str) -> list[GpuFact]:
    """Return the products whose names contain every word of `text`."""
    spellings = [{word, _add_ampere_prefix(word)} for word in split_gpu_name(text)]
    if not spellings:
        return []
    return [
        gpu
        for gpu in knowledge.gpus
        if all(not forms.isdisjoint(split_gpu_name(gpu.name)) for forms in spellings)
    ]


def _add_ampere_prefix(word: str) -> str:
    # The RTX A6000 is also called "RTX 6000".
    return f"a{word}" if re.fullmatch(r"\d{4}", word) else word


def _select_plainest_gpu(text: str, found: list[GpuFact]) -> GpuFact:
    fewest_words = min(len(split_gpu_name(gpu.name)) for gpu in found)
    plainest = [gpu for gpu in found if len(split_gpu_name(gpu.name)) == fewest_words]
    if len(plainest) == 1:
        return plainest[0]
    status = f"{found[0].status}; so are all {len(found)} of that name"
    machines = {gpu.machine for gpu in found}
    return GpuFact(text, found[0].arch, status, machines.pop() if len(machines) == 1 else "")


def _reject_too_old_gpu(knowledge: Knowledge, text: str) -> None:
    """Raise `KnowledgeError` for a GPU that no toolkit compiles for any more.

    GPUs of other generations have the same numbers: only the whole name identifies one.
    """
    for row in knowledge.gpu_notes["too_old"]:
        if normalize_gpu_name(text) in map(normalize_gpu_name, row["names"]):
            matches = _match_gpus(knowledge, text)
            raise KnowledgeError(
                f'"{text.strip()}" is a {row["generation"]} card ({row["cc"]}), and CUDA '
                f"{row['last_toolkit']} was the last toolkit that makes code for it",
                hint=f"if another is meant, write its full name: {_format_gpu_choices(matches)}"
                if matches
                else "choose another card",
            )


def _build_ambiguous_error(text: str, found: Iterable[GpuFact]) -> KnowledgeError:
    return KnowledgeError(
        f'"{text}" is said of different GPUs: {_format_gpu_choices(found)}', hint=_FULL_NAME_HINT
    )


def _format_gpu_choices(found: Iterable[GpuFact]) -> str:
    """Format the plainest name of each capability."""
    plainest: dict[Arch, GpuFact] = {}
    for gpu in sorted(found, key=lambda gpu: (gpu.arch, len(split_gpu_name(gpu.name)))):
        plainest.setdefault(gpu.arch, gpu)
    return ", ".join(f"{gpu.name} ({gpu.arch})" for gpu in plainest.values())


def _build_unknown_gpu_error(knowledge: Knowledge, text: str) -> KnowledgeError:
    if normalize_gpu_name(text) == "cpu":
        hint = "what is built for cards runs on the CPU, too; gpus: [] is a build without CUDA"
        return KnowledgeError(f'"{text}" is no GPU', hint=hint)
    suggestions = [
        f'"{shorten_gpu_name(gpu.name)}" ({gpu.arch})' for gpu in find_nearest_gpus(knowledge, text)
    ]
    hint = f"did you mean {' or '.join(suggestions)}?" if suggestions else _CAPABILITY_HINT
    return KnowledgeError(f'"{text}" is not a known GPU', hint=hint)


@dataclass(frozen=True)
class NvidiaDriver:
    """The report of the NVIDIA driver.

    `cuda` is the newest CUDA release that it supports ("13.0"). `trouble` is why the GPUs cannot be
    queried although there is a driver.
    """

    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    lost: int = 0
    trouble: str = ""
