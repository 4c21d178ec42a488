"""Names of GPUs as people write them: their words, and which known names are near to one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.core.model import Arch
    from tasks.knowledge.facts import GpuFact
    from tasks.knowledge.load import Knowledge

_MAKER_PATTERN = re.compile(r"nvidia|geforce|\bgpu\b")
_MEMORY_SIZE = re.compile(r"\d+gb?|hbm\d\w*|sxm\d*|nvl\d+|v\d")
_MIN_SIMILARITY = 0.8  # of letters; below it "Jetson Thor" is near "Jetson TX2"
_LOOKALIKE_DIGITS = str.maketrans("oil", "011")
_MIN_MODEL_DIGITS = 3  # a number of fewer digits is near too many others


@lru_cache(maxsize=2048)  # each lookup compares with every known name
def normalize_gpu_name(text: str) -> str:
    """Letters and digits alone, without the maker: `rtx5090`."""
    return re.sub(r"[^a-z0-9]", "", _MAKER_PATTERN.sub("", text.lower()))


@lru_cache(maxsize=2048)
def split_gpu_name(text: str) -> tuple[str, ...]:
    """The words, without the maker; `rtx5060ti` has three."""
    spaced = re.sub(r"(rtx|gtx|quadro|tesla)(?=\d)", r"\1 ", _MAKER_PATTERN.sub(" ", text.lower()))
    spaced = re.sub(r"(?<=\d{4})(ti|super|laptop)\b", r" \1", spaced)
    return tuple(re.findall(r"[a-z0-9]+", spaced))


def list_distinctive_words(knowledge: Knowledge, text: str) -> list[str]:
    """The words that say which GPU is meant: no memory size, and none that whole lines share."""
    lines = knowledge.line_words
    return [
        word
        for word in split_gpu_name(text)
        if word not in lines and not _MEMORY_SIZE.fullmatch(word)
    ]


def find_nearest_gpus(knowledge: Knowledge, text: str) -> list[GpuFact]:
    """The known name nearest to `text` for each capability that it may mean, ascending.

    A name with a model number is near those that have the same one, else those whose number is
    typed nearly alike: a number of another generation is not near, however alike the letters are.
    """
    asked = _list_model_numbers(text)
    if not asked:
        alike = [
            gpu for gpu in knowledge.gpus if _compute_similarity(text, gpu.name) >= _MIN_SIMILARITY
        ]
        return sorted(alike, key=lambda gpu: -_compute_similarity(text, gpu.name))[:1]
    for near in (_is_same_model, _is_lookalike_model, _is_transposed_model, _is_one_character_off):
        found = [gpu for gpu in knowledge.gpus if near(asked, _list_model_numbers(gpu.name))]
        if found:
            return _select_best_gpus(text, found)
    return []


def _select_best_gpus(text: str, found: list[GpuFact]) -> list[GpuFact]:
    """Of each capability the one with the fewest words that nobody wrote, then the most alike."""
    best: dict[Arch, GpuFact] = {}
    for gpu in sorted(
        found,
        key=lambda gpu: (_count_extra_words(text, gpu.name), -_compute_similarity(text, gpu.name)),
    ):
        best.setdefault(gpu.arch, gpu)
    return [best[arch] for arch in sorted(best)]


def _count_extra_words(text: str, name: str) -> int:
    return len(set(split_gpu_name(name)) - set(split_gpu_name(text)))


def _list_model_numbers(text: str) -> set[str]:
    numbered = [word for word in split_gpu_name(text) if re.search(r"\d", word)]
    return {word for word in numbered if not _MEMORY_SIZE.fullmatch(word)}


def _is_same_model(asked: set[str], known: set[str]) -> bool:
    return bool(asked & known)


def _is_lookalike_model(asked: set[str], known: set[str]) -> bool:
    """Letters that look like digits: 509O."""
    return bool({word.translate(_LOOKALIKE_DIGITS) for word in asked} & known)


def _is_transposed_model(asked: set[str], known: set[str]) -> bool:
    """Two neighbours in the other order."""
    return any(
        word[:at] + word[at + 1] + word[at] + word[at + 2 :] in known
        for word in asked
        for at in range(len(word) - 1)
    )


def _is_one_character_off(asked: set[str], known: set[str]) -> bool:
    """One character too many or too few. Another digit is another GPU."""
    return any(
        _is_one_shorter(one, other) or _is_one_shorter(other, one)
        for one in asked
        for other in known
    )


def _is_one_shorter(long: str, short: str) -> bool:
    return len(short) >= _MIN_MODEL_DIGITS and short in {
        long[:at] + long[at + 1 :] for at in range(len(long))
    }


def _compute_similarity(text: str, name: str) -> float:
    from difflib import SequenceMatcher  # noqa: PLC0415 - for names that nobody knows

    return SequenceMatcher(None, normalize_gpu_name(text), normalize_gpu_name(name)).ratio()
