"""Define, parse, write and compare the sections of torchyard.lock. Each profile has one section."""

import re
from collections.abc import Container, Iterator, Mapping
from typing import Annotated, Any, Literal

import yaml
from msgspec import Meta, ValidationError, convert, structs

from tasks.core.errors import SettingsError, redact_secrets
from tasks.lock import LOCK_NAME
from tasks.settings import values
from tasks.settings.setting_errors import find_key_location, find_problems
from tasks.settings.values import StrictModel, dump_section
from tasks.settings.yaml_tree import parse_yaml_tree, split_tree

Sha256 = Annotated[str, Meta(pattern=values.SHA256_PATTERN)]
Commit = Annotated[str, Meta(pattern=r"^[0-9a-f]{40,64}\Z")]
Packages = dict[Annotated[str, Meta(pattern=values.SDIST_PATTERN)], tuple[Sha256, ...]]


class LockedInputs(StrictModel, frozen=True):
    """The locked inputs of torch, an extension or a companion package.

    One of git, sdist, wheel, tarball and path is set; the content of a path is not locked.
    `requires` are the build dependencies, `packages` the runtime dependencies.
    """

    git: str = ""
    ref: str = ""
    """The requested ref; `commit` is the commit that it resolved to."""
    commit: Annotated[str, Meta(pattern=r"^([0-9a-f]{40,64})?\Z")] = ""
    submodules: dict[str, Commit] = {}
    sdist: str = ""
    wheel: str = ""
    """The file name of the wheel."""
    tarball: str = ""
    path: str = ""
    sha256: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""
    patches: tuple[Sha256, ...] = ()
    requires: Packages = {}
    packages: Packages = {}


class LockSection(StrictModel, frozen=True):
    """The locked inputs of one profile.

    The locked files are for `python` (such as 3.12) and `platform` (such as `linux x86_64`).
    """

    python: str
    platform: str
    strategy: Literal["source", "prebuilt", "existing"]
    release: str
    """The release of torch, without its local part."""
    torch: LockedInputs = LockedInputs()
    extensions: dict[str, LockedInputs] = {}
    """The extensions and companion packages by name."""
    packages: Packages = {}
    """The other packages of the build environment, not required by torch or the extensions."""
    toolkit: Packages = {}
    """Packages in a separate folder: cuobjdump, or the CUDA toolkit for an existing torch."""


def merge_kept_extensions(
    now: LockSection, previous: LockSection | None, names: Container[str]
) -> LockSection:
    """Return `now` plus the extensions `names` of `previous` that `now` does not have."""
    locked = previous.extensions.items() if previous else ()
    retained = {name: inputs for name, inputs in locked if name in names}
    return structs.replace(now, extensions={**retained, **now.extensions})


_FILE_HEADER = f"""\
# {LOCK_NAME}: what each profile was built of, commit by commit and file by file. doit lock
# writes it after a build, doit build takes exactly this again, doit lock --check tells in what the
# two differ. It belongs into the repository.
"""
_SECTION_KEY = re.compile(r"""^(["']?)(?P<name>[^\s"'#][^"']*?)\1:\s*(#.*)?$""")


def split_sections(text: str) -> dict[str, tuple[int, str]]:
    """Return the section of each profile: the number of lines before it, and the unparsed text."""
    sections: dict[str, tuple[int, str]] = {}
    name = ""
    for number, line in enumerate(text.splitlines(keepends=True)):
        location = f"{LOCK_NAME}:{number + 1}"
        if header := _SECTION_KEY.match(line):
            name = header["name"]
            if name in sections:
                raise _build_lock_error(location, f'there are two sections "{name}"')
            sections[name] = (number, "")
        elif line[0] not in " #\r\n":
            raise _build_lock_error(location, "this line does not begin a section of a profile")
        if name:
            sections[name] = (sections[name][0], sections[name][1] + line)
    return sections


def parse_section(text: str, profile: str) -> LockSection | None:
    """Return the parsed section of a profile, None if none exists. Raises `SettingsError`."""
    if (section := split_sections(text).get(profile)) is None:
        return None
    number, section_text = section
    tree = parse_yaml_tree("\n" * number + section_text, LOCK_NAME)
    values, _ = split_tree(tree)
    try:
        return convert(values[profile], LockSection)
    except ValidationError as error:
        problem = next(find_problems(values[profile], LockSection, (profile,)))
        message = f"{'.'.join(map(str, problem.keys))}: {problem.message}"
        raise _build_lock_error(find_key_location(problem.keys, tree), message) from error


def replace_section(text: str, profile: str, section: LockSection | None) -> str:
    """Return the lock file's text with the section of `profile` replaced, or removed if None."""
    sections = {name: lines.rstrip() for name, (_, lines) in split_sections(text).items()}
    sections.pop(profile, None)
    if section:
        fields = {profile: _strip_empty(dump_section(section))}
        options: dict[str, Any] = {"sort_keys": True, "width": 10_000, "allow_unicode": True}
        sections[profile] = yaml.dump(fields, Dumper=_LockDumper, **options).rstrip()
    ordered = [sections[name] for name in sorted(sections)]
    return "\n\n".join([_FILE_HEADER.rstrip(), *ordered]) + "\n"


class _LockDumper(yaml.SafeDumper):
    """A YAML dumper that writes a package and all its digests on one line."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        """Represent every sequence in flow style. PyYAML calls this."""
        return super().represent_sequence(tag, sequence, flow_style=True)


def _strip_empty(value: Any) -> Any:
    """Return a mapping without its empty entries, recursively; another value unchanged."""
    if not isinstance(value, dict):
        return value
    stripped = {key: _strip_empty(item) for key, item in value.items()}
    return {key: item for key, item in stripped.items() if item not in ("", {}, [])}


def _build_lock_error(location: str, message: str) -> SettingsError:
    hint = "restore the file from git; or remove the section and run: doit lock; or set lock: false"
    return SettingsError(message, location=location, hint=hint)


_SHORT_LENGTH = 12  # digits shown of a digest or commit


def compare_sections(locked: LockSection, now: LockSection) -> Iterator[str]:
    """Yield a line for each difference: `extensions.toy.commit: 1a2b3c4d5e6f → 0f9e8d7c6b5a`.

    Packages are compared by version, and by digest only if the versions are equal.
    """
    yield from _compare_values(dump_section(locked), dump_section(now), "")


def _compare_values(before: Any, after: Any, key: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if key.rpartition(".")[2] in ("packages", "requires", "toolkit"):
            yield from _compare_packages(before, after, key)
            return
        for name in sorted({*before, *after}):
            dotted = f"{key}.{name}" if key else name
            if name not in after:
                yield f"{dotted}: locked, but not built"
            elif name not in before:
                yield f"{dotted}: built, but not locked"
            else:
                yield from _compare_values(before[name], after[name], dotted)
    elif before != after:
        yield f"{key}: {_shorten_value(before)} → {_shorten_value(after)}"


def _compare_packages(before: Any, after: Any, key: str) -> Iterator[str]:
    old, new = (dict(pin.split("==", 1) for pin in pins) for pins in (before, after))
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{key}.{name}: {old.get(name, 'not locked')} → {new.get(name, 'not installed')}"
        elif not set(after[f"{name}=={new[name]}"]) <= set(before[f"{name}=={old[name]}"]):
            yield f"{key}.{name}: {old[name]} has another sha256 than the locked one"


def _shorten_value(value: Any) -> str:
    text = redact_secrets(str(value)) or "none"
    return text[:_SHORT_LENGTH] if re.fullmatch("[0-9a-f]{40,}", text) else text
