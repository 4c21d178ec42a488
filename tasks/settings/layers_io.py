"""Load layered settings, from the weakest layer to the strongest.

default.yaml, the built-in profile, the user's settings for all projects, the project
(torchyard.yaml, then its variant of the profile), the local file, the environment, and the entry of
a matrix. In a checkout of torchyard, config/local.yaml is the only file of the project.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import ValidationError

from tasks.core.errors import SettingsError, redact_secrets
from tasks.core.project import (
    BUILT_IN_PROFILE,
    PROJECT_FILE,
    PROJECT_LOCAL_FILE,
    Project,
)
from tasks.core.text_formatting import format_did_you_mean
from tasks.settings import yaml_tree
from tasks.settings.loaded_settings import LoadedSettings
from tasks.settings.schema import Settings, parse_settings
from tasks.settings.setting_errors import ENV_PREFIX, explain_invalid_settings
from tasks.settings.values import NAME_PATTERN, PATTERN_HINTS
from tasks.settings.yaml_tree import Leaf, Tree, format_location, merge_tree, parse_yaml_tree

_PROFILES_KEY, _PROFILE_KEY = "profiles", "profile"  # in torchyard.yaml, beside the settings
PROJECT_PROFILE = "default"  # the settings of torchyard.yaml without a variant


def list_profiles(project: Project) -> tuple[str, ...]:
    """Return the names of the built-in profiles, and of those in torchyard.yaml."""
    names = _list_built_in_profiles(project)
    if not project.is_checkout:
        for tree in _read_project_trees(project, None):
            names.update(_select_variants(tree))
    return tuple(sorted(names | ({PROJECT_PROFILE} if has_project_file(project) else set())))


def _list_built_in_profiles(project: Project) -> set[str]:
    return {path.stem for path in Path(project.config, "profiles").glob("*.yaml")}


def has_project_file(project: Project) -> bool:
    """Return True if the project has a torchyard.yaml; False for a checkout."""
    return not project.is_checkout and Path(project.settings_file).is_file()


def read_default_profile(project: Project) -> str:
    """Return the profile to use if none is named.

    It is the key `profile` of torchyard.yaml, else `default`. Without a torchyard.yaml, it is
    `quickstart`.
    """
    if not has_project_file(project):
        return BUILT_IN_PROFILE
    name = PROJECT_PROFILE
    for tree in _read_project_trees(project, None):
        if node := tree.get(_PROFILE_KEY):
            if not isinstance(node, Leaf) or not isinstance(node.value, str):
                location = _find_location(node)
                hint = f"write the name of a profile: {', '.join(list_profiles(project))}"
                raise SettingsError("profile is not a name", location=location, hint=hint)
            name = node.value
    return name


def _find_location(node: Leaf | Tree) -> str:
    """Return the location of the first value."""
    return node.location if isinstance(node, Leaf) else _find_location(next(iter(node.values())))


def load_settings(
    project: Project, profile: str, environ: Mapping[str, str], local: str | None = None
) -> LoadedSettings:
    """Read and validate the settings of a profile. `local` replaces the text of the settings file.

    The settings file is torchyard.yaml, or config/local.yaml in a checkout.
    """
    name, separator, entry = profile.partition("@")
    merged: Tree = {}
    warnings: list[str] = []
    for tree in (*_read_layers(project, name, local), _build_environment_tree(environ)):
        warnings += yaml_tree.rename_old_keys(tree)
        merge_tree(merged, tree)
    loaded_settings = _validate_tree(profile, merged)
    if separator:
        merge_tree(merged, _build_entry_tree(loaded_settings, name, entry))
        loaded_settings = _validate_tree(profile, merged)
    return replace(loaded_settings, warnings=tuple(warnings))


def _validate_tree(profile: str, merged: Tree) -> LoadedSettings:
    values, origin = yaml_tree.split_tree(merged)
    try:
        settings = parse_settings(values)
    except ValidationError as error:
        raise explain_invalid_settings(values, merged, str(error)) from error
    # Settings files are shared and displayed
    url, location = settings.build.cache_remote or "", origin.get("build.cache_remote", "")
    if redact_secrets(url) != url and not location.upper().startswith(ENV_PREFIX):
        message = "build.cache_remote: this URL contains a password"
        hint = f"set the URL in the environment instead: {ENV_PREFIX}BUILD__CACHE_REMOTE"
        raise SettingsError(message, location=location, hint=hint)
    places = {**origin, **dict(yaml_tree.list_item_origins(merged))}
    return LoadedSettings(profile, settings, origin, places)


def _build_entry_tree(loaded: LoadedSettings, profile: str, name: str) -> Tree:
    """Return the settings of a matrix entry, which override all other layers."""
    from tasks.settings.matrix_entries import AXIS_KEYS, find_matrix_entry  # noqa: PLC0415 - only for a matrix entry

    tree: Tree = {}
    matrix = loaded.settings.matrix
    for axis, value in find_matrix_entry(matrix, profile, name).items():
        *parents, leaf_key = AXIS_KEYS[axis].split(".")
        branch: Any = tree
        for key in parents:
            branch = branch.setdefault(key, {})
        source = axis if getattr(matrix, axis) else "include"  # the matrix key that has the value
        location = loaded.origin.get(f"matrix.{source}", "matrix")
        branch[leaf_key] = Leaf(value, f"{location} (matrix entry {name})")
    return tree


def _read_layers(project: Project, profile: str, local: str | None) -> Iterator[Tree]:
    """Yield the layers of all files, each with the values that the next one may override."""
    yield _read_built_in(project, "default.yaml")
    is_built_in = profile in _list_built_in_profiles(project)  # a name, never a path
    if is_built_in:
        yield _read_built_in(project, f"profiles/{profile}.yaml")
    if project.user_settings and is_accessible_file(Path(project.user_settings)):
        yield read_yaml_tree(Path(project.user_settings), str(project.user_settings))
    has_variant = profile == PROJECT_PROFILE and (local is not None or has_project_file(project))
    for tree in _read_project_trees(project, local):
        if project.is_checkout:  # its profiles are in config/profiles
            yield tree
            continue
        variants = _select_variants(tree)
        yield {key: value for key, value in tree.items() if key not in _PROJECT_KEYS}
        if profile in variants:
            has_variant = True
            yield variants[profile]
    if not is_built_in and not has_variant:
        raise _build_unknown_profile_error(project, profile)


_PROJECT_KEYS = {_PROFILES_KEY, _PROFILE_KEY}


def _read_built_in(project: Project, name: str) -> Tree:
    return read_yaml_tree(Path(project.config, name), f"config/{name}")


def _read_project_trees(project: Project, local: str | None) -> Iterator[Tree]:
    """Yield the trees of the project's files. `local` replaces the text of the settings file."""
    name = project.settings_name
    if local is not None:
        yield parse_yaml_tree(local, name)
    elif Path(project.settings_file).is_file():
        yield read_yaml_tree(Path(project.settings_file), name)
    local_file = Path(project.root, PROJECT_LOCAL_FILE)
    if not project.is_checkout and local_file.is_file():
        yield read_yaml_tree(local_file, PROJECT_LOCAL_FILE)


def _select_variants(tree: Tree) -> dict[str, Tree]:
    """Return the variants below `profiles:`. A variant may be empty."""
    variants = _parse_variants(tree)
    for name, variant in variants.items():
        if not re.fullmatch(NAME_PATTERN.strip("^"), name):
            location = next(iter(yaml_tree.split_tree(variant)[1].values()), PROJECT_FILE)
            message = f'"{name}" is not the name of a profile: it names a folder, too'
            raise SettingsError(message, location=location, hint=PATTERN_HINTS[NAME_PATTERN])
    return variants


def _parse_variants(tree: Tree) -> dict[str, Tree]:
    match tree.get(_PROFILES_KEY):
        case None | Leaf(value=None) | Leaf(value={}):
            return {}
        case Leaf() as leaf:
            hint = "write profiles: {NAME: {torch: {version: ...}}}"
            message = "profiles is not a mapping of names to settings"
            raise SettingsError(message, location=leaf.location, hint=hint)
        case dict(variants):
            return {name: _require_mapping(name, value) for name, value in variants.items()}


def _require_mapping(name: str, value: Any) -> Tree:
    if isinstance(value, dict):
        return value
    if not value.value:
        return {}
    message = f"profiles.{name} has no settings"
    raise SettingsError(message, location=value.location, hint="indent its settings below it")


def _build_unknown_profile_error(project: Project, profile: str) -> SettingsError:
    profiles, name = list_profiles(project), project.settings_name
    everywhere = f"{name} counts in every profile; " if profile in {"local", "default"} else ""
    message = f'there is no profile "{profile}"{format_did_you_mean(profile, profiles)}'
    hint = f"{everywhere}choose one of: {', '.join(profiles)}"
    location = "config/profiles" if project.is_checkout else PROJECT_FILE
    if not project.is_checkout and not has_project_file(project):
        hint = f"{hint}; or write a {PROJECT_FILE} with this profile: docs/projects.md"
        location = str(project.root)
    return SettingsError(message, location=location, hint=hint)


_SWITCH_WORDS = {
    **dict.fromkeys(("1", "yes", "on", "y", "t"), "true"),
    **dict.fromkeys(("0", "no", "off", "n", "f"), "false"),
}


def _build_environment_tree(environ: Mapping[str, str]) -> Tree:
    tree: Tree = {}
    for name, text in sorted(environ.items()):
        if not name.upper().startswith(ENV_PREFIX):
            continue
        words = name[len(ENV_PREFIX) :].split("__")
        if not all(words):
            hint = "rename the variable to TORCHYARD__SECTION__KEY"
            raise SettingsError("this variable is no settings key", location=name, hint=hint)
        # Deeper names, such as those in build.env, are the user's and keep their case
        keys = [word.lower() for word in words[:2]] + words[2:]
        branch: Leaf | Tree = tree
        default: Any = Settings()
        for key in keys[:-1]:
            branch = branch.setdefault(key, {}) if isinstance(branch, dict) else branch
            default = getattr(default, key, None)
        if not isinstance(branch, dict) or keys[-1] in branch:
            message = f"this variable and another variable both set {'.'.join(keys)}"
            raise SettingsError(message, location=name, hint="unset one of the two variables")
        is_switch = isinstance(getattr(default, keys[-1], None), bool)
        value = _SWITCH_WORDS.get(text.lower(), text) if is_switch else text
        branch[keys[-1]] = yaml_tree.parse_variable_value(value, name)
    return tree


def is_accessible_file(path: Path) -> bool:
    """Return True for a file that can be found; False for one in a folder of another user."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_yaml_tree(path: Path, name: str) -> Tree:
    """Return the tree of settings in a YAML file. `name` is the name of the file in messages."""
    return parse_yaml_tree(read_yaml_text(path, name), name)


def read_yaml_text(path: Path, name: str) -> str:
    """Return the text of a file. Raises `SettingsError` if it is not UTF-8 or not readable."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"the file cannot be read: {error.strerror or error}"
        hint = "allow yourself to read it, or move it away"
        raise SettingsError(message, location=name, hint=hint) from error
    except UnicodeDecodeError as error:
        message, hint = f"the file is not UTF-8: {error.reason}", "save the file as UTF-8"
        location = format_location(name, error.object.count(b"\n", 0, error.start))
        raise SettingsError(message, location=location, hint=hint) from error
