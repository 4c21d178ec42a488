"""Resolve the name of a GPU to its compute capability with the table in gpus.yaml."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch, Gpu
from tasks.knowledge.facts import GpuFact
from tasks.knowledge.knowledge_files import Knowledge

_MAKER_PATTERN = re.compile(r"nvidia|geforce|\bgpu\b")
_MEMORY_SIZE = re.compile(r"\d+gb?|hbm\d\w*|sxm\d*|nvl\d+|v\d")
_MIN_SIMILARITY = 0.8  # of characters; below it "Jetson Thor" is near "Jetson TX2"
_LOOKALIKE_DIGITS = str.maketrans("oil", "011")
_MIN_MODEL_DIGITS = 3  # a shorter number is similar to too many others


@lru_cache(maxsize=2048)  # each lookup compares with every known name
def normalize_gpu_name(text: str) -> str:
    """Return the letters and digits of a GPU name in lower case, without the maker: `rtx5090`."""
    return re.sub(r"[^a-z0-9]", "", _MAKER_PATTERN.sub("", text.lower()))


@lru_cache(maxsize=2048)
def _split_gpu_name(text: str) -> tuple[str, ...]:
    """Return the words of a GPU name, without the maker; `rtx5060ti` has three."""
    spaced = re.sub(r"(rtx|gtx|quadro|tesla)(?=\d)", r"\1 ", _MAKER_PATTERN.sub(" ", text.lower()))
    spaced = re.sub(r"(?<=\d{4})(ti|super|laptop)\b", r" \1", spaced)
    return tuple(re.findall(r"[a-z0-9]+", spaced))


def _find_nearest_gpus(knowledge: Knowledge, text: str) -> list[GpuFact]:
    """Return the GPUs with names similar to `text`, the most similar one for each capability.

    A model number in `text` may contain one typing mistake.
    """
    numbers = _list_model_numbers(text)
    if not numbers:
        nearest = max(knowledge.gpus, key=lambda gpu: _compute_similarity(text, gpu.name))
        return [nearest] if _compute_similarity(text, nearest.name) >= _MIN_SIMILARITY else []
    lookalikes = {number.translate(_LOOKALIKE_DIGITS) for number in numbers}  # 509O
    places = [(number, index) for number in numbers for index in range(len(number) - 1)]
    swapped = {n[:index] + n[index + 1] + n[index] + n[index + 2 :] for n, index in places}
    shorter = _drop_one_character(numbers)  # a replaced digit is another GPU
    ways: tuple[Callable[[set[str]], set[str]], ...] = (
        lambda known: known & numbers,
        lambda known: known & lookalikes,
        lambda known: known & swapped,
        lambda known: known & shorter | _drop_one_character(known) & numbers,
    )
    named = [(gpu, _list_model_numbers(gpu.name)) for gpu in knowledge.gpus]
    matches = ([gpu for gpu, known in named if find_shared(known)] for find_shared in ways)
    gpus = next(filter(None, matches), [])
    # Of each capability, the name with the fewest words that `text` lacks, then the most similar
    words = set(_split_gpu_name(text))
    best: dict[Arch, GpuFact] = {}
    gpus.sort(key=lambda gpu: -_compute_similarity(text, gpu.name))
    for gpu in sorted(gpus, key=lambda gpu: len({*_split_gpu_name(gpu.name)} - words)):
        best.setdefault(gpu.arch, gpu)
    return [best[arch] for arch in sorted(best)]


def _drop_one_character(numbers: set[str]) -> set[str]:
    long = [number for number in numbers if len(number) > _MIN_MODEL_DIGITS]
    return {number[:i] + number[i + 1 :] for number in long for i in range(len(number))}


def _list_model_numbers(text: str) -> set[str]:
    candidates = [word for word in _split_gpu_name(text) if re.search(r"\d", word)]
    return {word for word in candidates if not _MEMORY_SIZE.fullmatch(word)}


def _compute_similarity(text: str, name: str) -> float:
    from difflib import SequenceMatcher  # noqa: PLC0415 - only for unknown names

    return SequenceMatcher(None, normalize_gpu_name(text), normalize_gpu_name(name)).ratio()


_CAPABILITY_PATTERN = re.compile(r"\d{1,2}\.\d[af]?|(?:sm_|compute_)\d{2,3}[af]?")
_RTX_SERIES = re.compile(r"NVIDIA GeForce RTX (\d)0\d\d\b")
_MAX_NAMED_GPUS = 3
_QUERY_COMMAND = "nvidia-smi --query-gpu=compute_cap --format=csv"
_CAPABILITY_HINT = (
    f'write its compute capability, such as "12.0". To print it, run: {_QUERY_COMMAND}'
)


def resolve_gpu(knowledge: Knowledge, text: str) -> GpuFact:
    """Return the GPU product or the capability that `text` names.

    `text` can be `RTX 5090`, `rtx5060ti`, `NVIDIA GeForce RTX 5090`, `Tesla T4`, `5090`, `12.0`,
    `9.0a` or `sm_120`, or a name of several products with the same capability (`A100`, `Hopper`).
    A capability may be newer than all known GPUs.
    Raises `KnowledgeError` for an ambiguous name (`RTX 6000`, `RTX PRO`), an unknown GPU, and a GPU
    that no toolkit compiles for.
    """
    if text not in knowledge.gpus_by_text:
        knowledge.gpus_by_text[text] = _find_gpu(knowledge, text)
    return knowledge.gpus_by_text[text]


def _find_gpu(knowledge: Knowledge, text: str) -> GpuFact:
    if is_capability(text):
        return _resolve_capability(knowledge, text.strip().lower())
    normalized = normalize_gpu_name(text)
    named = (gpu for gpu in knowledge.gpus if normalized == normalize_gpu_name(gpu.name))
    if exact := next(named, None):
        return exact
    _reject_too_old_gpu(knowledge, text)
    named_words = (word for word in _split_gpu_name(text) if not _MEMORY_SIZE.fullmatch(word))
    words = [word for word in named_words if word not in knowledge.line_words]
    matches = _match_gpus(knowledge, text)
    families = (family for family in knowledge.families if words == [family.name.lower()])
    if family := next(families, None):
        if len(family.archs) == 1:
            return GpuFact(text.strip(), family.archs[0], family.status)
        matches = [gpu for gpu in knowledge.gpus if gpu.arch in family.archs]
    if not matches:
        raise _build_unknown_gpu_error(knowledge, text)
    if not words or family or len({gpu.arch for gpu in matches}) > 1:
        choices = f"{':' if words else ', such as'} {_format_gpu_choices(matches)}"
        hint = "write the full name or the compute capability"
        raise KnowledgeError(f'several GPUs match "{text}"{choices}', hint=hint)
    # The name with the fewest words, else all of them by the name as written
    fewest_words = min(len(_split_gpu_name(gpu.name)) for gpu in matches)
    plainest = [gpu for gpu in matches if len(_split_gpu_name(gpu.name)) == fewest_words]
    if len(plainest) == 1:
        return plainest[0]
    status = f"{matches[0].status}; so are all {len(matches)} of that name"
    machines = {gpu.machine for gpu in matches}
    machine = machines.pop() if len(machines) == 1 else ""
    return GpuFact(text.strip(), matches[0].arch, status, machine)


def is_capability(text: str) -> bool:
    """Return True for a capability such as `12.0` or `sm_120`, False for the name of a product."""
    return bool(_CAPABILITY_PATTERN.fullmatch(text.strip().lower()))


def summarize_gpus(knowledge: Knowledge, arch: Arch) -> str:
    """Summarize the GPUs with a capability: `RTX 40 series, L2, L4 and others`."""
    gpus = [gpu for gpu in knowledge.gpus if gpu.arch == arch]
    series = Counter(match[1] for gpu in gpus if (match := _RTX_SERIES.match(gpu.name)))
    series_names = [f"RTX {digit}0 series" for digit in series if series[digit] >= _MAX_NAMED_GPUS]
    others = [gpu for gpu in gpus if not _RTX_SERIES.match(gpu.name)]
    others.sort(key=lambda gpu: (gpu.status.startswith("unverified"), len(gpu.name)))
    names = [*series_names, *(shorten_gpu_name(gpu.name) for gpu in others[:_MAX_NAMED_GPUS])]
    suffix = " and others" if len(others) > _MAX_NAMED_GPUS else ""
    families = [family.name for family in knowledge.families if arch in family.archs]
    return f"{', '.join(names or families)}{suffix}"


def find_only_machine(knowledge: Knowledge, arch: Arch) -> tuple[str, tuple[str, ...]]:
    """Return the machine ("aarch64") if only one has GPUs of `arch`, else "", and the GPU names."""
    base_arch = Arch(arch.major, arch.minor)
    gpus = [gpu for gpu in knowledge.gpus if gpu.arch == base_arch]
    machines = {gpu.machine for gpu in gpus}
    integrated = knowledge.integrated_gpus
    if not gpus and base_arch in integrated:
        machines = {gpu.machine for gpu in knowledge.gpus if gpu.arch in integrated}
    return (machines.pop() if len(machines) == 1 else ""), tuple(gpu.name for gpu in gpus)


def shorten_gpu_name(name: str) -> str:
    """Return `RTX 5090` for `NVIDIA GeForce RTX 5090`."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def _resolve_capability(knowledge: Knowledge, text: str) -> GpuFact:
    arch = Arch.parse_capability(text)
    toolkits = knowledge.toolkits.values()
    status = next((toolkit.status for toolkit in toolkits if arch in toolkit.makes), None)
    known = {cubin for kit in toolkits for cubin in kit.makes if not cubin.suffix}
    is_newer = any(one < arch for one in known if one.major == arch.major) or arch > max(known)
    if status is None and is_newer and not arch.suffix:
        status = "unverified: newer than all known GPUs"
    if status is None:
        hint = f"choose one of {', '.join(map(str, sorted(known)))}"
        raise KnowledgeError(f'no known CUDA toolkit compiles for "{text}"', hint=hint)
    return GpuFact(f"compute capability {arch}", arch, status)


def _match_gpus(knowledge: Knowledge, text: str) -> list[GpuFact]:
    """Return the products whose names contain every word of `text`."""
    words = {gpu: _split_gpu_name(gpu.name) for gpu in knowledge.gpus}
    # The RTX A6000 is also called "RTX 6000"
    forms = [{word, re.sub(r"^(\d{4})$", r"a\1", word)} for word in _split_gpu_name(text)]
    return [gpu for gpu in words if forms and not any(map(set(words[gpu]).isdisjoint, forms))]


def _reject_too_old_gpu(knowledge: Knowledge, text: str) -> None:
    """Raise `KnowledgeError` if `text` is the whole name of a GPU that no toolkit compiles for."""
    for row in knowledge.gpu_notes["too_old"]:
        if normalize_gpu_name(text) in map(normalize_gpu_name, row["names"]):
            message = f'"{text.strip()}" is a {row["generation"]} GPU ({row["cc"]}); CUDA '
            message += f"{row['last_toolkit']} is the last toolkit that compiles for it"
            choices = _format_gpu_choices(_match_gpus(knowledge, text))
            other = f"if you mean another GPU, write its name: {choices}"
            raise KnowledgeError(message, hint=other if choices else "choose another GPU")


def _format_gpu_choices(gpus: Iterable[GpuFact]) -> str:
    """List one GPU for each capability, the one whose name has the fewest words."""
    plainest: dict[Arch, GpuFact] = {}
    for gpu in sorted(gpus, key=lambda gpu: (gpu.arch, len(_split_gpu_name(gpu.name)))):
        plainest.setdefault(gpu.arch, gpu)
    return ", ".join(f"{gpu.name} ({gpu.arch})" for gpu in plainest.values())


def _build_unknown_gpu_error(knowledge: Knowledge, text: str) -> KnowledgeError:
    if normalize_gpu_name(text) == "cpu":
        hint = "to build without CUDA, set gpus: []. A build for GPUs also runs on the CPU"
        return KnowledgeError(f'"{text}" is not a GPU', hint=hint)
    nearest = _find_nearest_gpus(knowledge, text)
    suggestions = " or ".join(f'"{shorten_gpu_name(gpu.name)}" ({gpu.arch})' for gpu in nearest)
    hint = f"did you mean {suggestions}?" if suggestions else _CAPABILITY_HINT
    return KnowledgeError(f'"{text}" is not a known GPU', hint=hint)


@dataclass(frozen=True)
class NvidiaDriver:
    """What the NVIDIA driver reports about itself and the GPUs.

    `cuda` is the newest CUDA release that the driver supports ("13.0"). `lost` counts GPUs that do
    not respond. `trouble` says why the GPUs cannot be queried although a driver is installed.
    """

    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    lost: int = 0
    trouble: str = ""
