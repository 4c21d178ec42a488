"""Store the facts that were read from package indexes and toolkits, and load them offline.

The file is build/.facts.json in the project's output folder. It has the facts of each index, and
the rows of toolkits and torches that are installed.
"""

import contextlib
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from tasks.core.errors import KnowledgeError, redact_secrets
from tasks.core.model import Host, InstalledToolkit, InstalledTorch
from tasks.core.project import OUTPUT_FOLDER
from tasks.knowledge import Knowledge
from tasks.knowledge.mirrors import apply_index_mirror, collect_mirror_replacements
from tasks.knowledge.read_facts import ReadFacts, Row
from tasks.knowledge.versions import remove_local_part
from tasks.settings.schema import Settings
from tasks.system import files
from tasks.system.hardware.toolchain import build_nvcc_path, stamp_program
from tasks.system.network.package_indexes import find_default_index

# The facts that this project has read from package indexes and toolkits, for all profiles
FACT_STORE_PATH = "build/.facts.json"
_FORMAT = 1


class FactStore(Struct, frozen=True):
    """The content of the store: facts by index, and rows of what is installed.

    The keys are from `identify_index`, `identify_toolkit` and `identify_torch`. `built` has the
    torch release of the last build by profile, if torch.version is `auto`.
    """

    format: int = _FORMAT
    indexes: dict[str, ReadFacts] = {}
    toolkits: dict[str, Row] = {}
    torches: dict[str, Row] = {}
    built: dict[str, str] = {}


def read_store(outputs: Path) -> FactStore:
    """Return the stored facts. A missing, damaged or outdated file counts as empty."""
    try:
        store = msgspec.json.decode((outputs / FACT_STORE_PATH).read_bytes(), type=FactStore)
    except (OSError, msgspec.DecodeError):
        return FactStore()
    return store if store.format == _FORMAT else FactStore()


def write_store(outputs: Path, store: FactStore) -> None:
    """Replace the stored facts."""
    if outputs.name == OUTPUT_FOLDER and not outputs.is_dir():
        return  # only a build creates the folder of a project
    path = outputs / FACT_STORE_PATH
    with contextlib.suppress(OSError):  # a read-only project: the facts are read again next time
        files.write_atomic(path, msgspec.json.encode(store))


def record_release(outputs: Path, profile: str, release: str) -> None:
    """Store the torch release that `auto` means in a build of the profile."""
    store = read_store(outputs)
    if store.built.get(profile) != release:
        write_store(outputs, structs.replace(store, built={**store.built, profile: release}))


def select_facts(
    store: FactStore, settings: Settings, host: Host, knowledge: Knowledge
) -> ReadFacts:
    """Return the stored facts of the profile's index, and of what is installed on this host.

    Facts that the knowledge cannot use, of a damaged file, are left out.
    """
    if not (store.indexes or store.toolkits or store.torches):
        return ReadFacts()
    facts = store.indexes.get(identify_index(settings), ReadFacts())
    releases, toolkits = dict(facts.releases), dict(facts.toolkits)
    torch = host.python.torch if settings.torch.strategy == "existing" else None
    if torch and (row := store.torches.get(identify_torch(torch))):
        releases[remove_local_part(torch.version)] = row
    for kit in list_new_toolkits(host, knowledge):
        if row := store.toolkits.get(identify_toolkit(kit)):
            toolkits[kit.release] = {**toolkits.get(kit.release, {}), **row}
    found = structs.replace(facts, releases=releases, toolkits=toolkits)
    return found if _is_usable(found, knowledge) else ReadFacts()


def _is_usable(facts: ReadFacts, knowledge: Knowledge) -> bool:
    known = knowledge.add_read_facts(facts)
    try:
        is_dated = not facts.date or datetime.fromisoformat(facts.date).tzinfo is not None
        has_rows = bool(facts.releases or facts.toolkits)
        return is_dated and (not has_rows or bool(known.releases and known.toolkits))
    except (KnowledgeError, TypeError, ValueError, KeyError, AttributeError):
        return False


def find_torch_index(settings: Settings, knowledge: Knowledge) -> str:
    """Return the URL or folder of the index to ask about torch, with the mirrors applied."""
    presets = collect_mirror_replacements(settings.mirrors, knowledge)
    return apply_index_mirror(_find_place(settings), {**presets, **settings.source.mirrors})


def identify_index(settings: Settings) -> str:
    """Return the index without passwords, and the local version in torch.local.

    A mirror has the files of its index, and so the same facts.
    """
    place = redact_secrets(_find_place(settings))
    return f"{place} {settings.torch.local}" if settings.torch.local else place


def _find_place(settings: Settings) -> str:
    index = settings.torch.index
    return find_default_index() if index == "auto" else index


def identify_torch(torch: InstalledTorch) -> str:
    """Return the folder and the version of an installed torch."""
    return f"{torch.folder} {torch.version}"


def list_new_toolkits(host: Host, knowledge: Knowledge) -> list[InstalledToolkit]:
    """Return the installed toolkits that the knowledge does not have."""
    return [kit for kit in host.toolkits if kit.release not in knowledge.toolkits]


def identify_toolkit(kit: InstalledToolkit) -> str:
    """Return the folder and version of a toolkit, and what changes with its nvcc."""
    return f"{kit.home} {kit.version} {stamp_program(build_nvcc_path(kit.home))}"
