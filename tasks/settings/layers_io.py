"""Load layered settings: default.yaml, the profile, local.yaml, the environment, a matrix entry."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import ValidationError

from tasks.core.errors import SettingsError, redact_secrets
from tasks.core.text_formatting import format_did_you_mean
from tasks.settings import yaml_tree
from tasks.settings.loaded_settings import LoadedSettings
from tasks.settings.schema import Settings, parse_settings
from tasks.settings.setting_errors import ENV_PREFIX, explain_invalid_settings
from tasks.settings.yaml_tree import Leaf, Tree, format_location, merge_tree, parse_yaml_tree


def list_profiles(config: Path) -> tuple[str, ...]:
    """Return the names of the files in config/profiles."""
    return tuple(sorted(path.stem for path in (config / "profiles").glob("*.yaml")))


def load_settings(
    config: Path, profile: str, environ: Mapping[str, str], local: str | None = None
) -> LoadedSettings:
    """Read and validate the settings of a profile. `local` replaces the text of local.yaml."""
    name, separator, entry = profile.partition("@")
    merged: Tree = {}
    warnings: list[str] = []
    for tree in (*_read_layer_files(config, name, local), _build_environment_tree(environ)):
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


def _read_layer_files(config: Path, profile: str, local: str | None) -> list[Tree]:
    profiles = list_profiles(config)
    if profile not in profiles:
        local = "config/local.yaml counts in every profile; " if profile == "local" else ""
        message = f'there is no profile "{profile}"{format_did_you_mean(profile, profiles)}'
        hint = f"{local}choose one of: {', '.join(profiles)}"
        raise SettingsError(message, location="config/profiles", hint=hint)
    local_file = config / "local.yaml"
    paths = [config / "default.yaml", config / "profiles" / f"{profile}.yaml"]
    if local is None and local_file.is_file():
        paths.append(local_file)
    trees = [read_yaml_tree(path, path.relative_to(config.parent).as_posix()) for path in paths]
    return trees if local is None else [*trees, parse_yaml_tree(local, "config/local.yaml")]


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


def read_yaml_tree(path: Path, name: str) -> Tree:
    """Return the tree of settings in a YAML file. `name` is the name of the file in messages."""
    return parse_yaml_tree(read_yaml_text(path, name), name)


def read_yaml_text(path: Path, name: str) -> str:
    """Return the text of a file. Raises `SettingsError` if the file is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        message, hint = f"the file is not UTF-8: {error.reason}", "save the file as UTF-8"
        location = format_location(name, error.object.count(b"\n", 0, error.start))
        raise SettingsError(message, location=location, hint=hint) from error
