"""Load layered settings: default.yaml, the profile, local.yaml, the environment and a matrix entry.

The matrix entry is chosen with `profile=NAME@ENTRY`. Each value keeps the file and line that sets
it. YAML is read strictly: no tags, no duplicate keys. A version that YAML would parse as a number
is an error with its line, since `python: 3.10` is 3.1 in YAML.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import ValidationError

from tasks.core.errors import SettingsError, redact_secrets
from tasks.core.text_formatting import format_did_you_mean
from tasks.settings.loaded_settings import LoadedSettings
from tasks.settings.schema import Settings, parse_settings
from tasks.settings.setting_errors import ENV_PREFIX, explain_invalid_settings
from tasks.settings.yaml_tree import (
    Leaf,
    Tree,
    _format_location,
    list_item_origins,
    merge_tree,
    parse_variable_value,
    parse_yaml_tree,
    rename_old_keys,
    split_tree,
)


def list_profiles(config: Path) -> tuple[str, ...]:
    """Return the names of the files in config/profiles."""
    return tuple(sorted(path.stem for path in (config / "profiles").glob("*.yaml")))


def load_settings(
    config: Path, profile: str, environ: Mapping[str, str], local: str | None = None
) -> LoadedSettings:
    """Read and validate the settings of a profile.

    `local` is the text to use for local.yaml, None to read the file. Raises `SettingsError` with
    the file, line, dotted key and a hint.
    """
    name, separator, entry = profile.partition("@")
    merged: Tree = {}
    warnings: list[str] = []
    for tree in (*_read_layer_files(config, name, local), _build_environment_tree(environ)):
        warnings += rename_old_keys(tree)
        merge_tree(merged, tree)
    loaded_settings = _validate_tree(profile, merged)
    if separator:
        merge_tree(merged, _build_entry_tree(loaded_settings, name, entry))
        loaded_settings = _validate_tree(profile, merged)
    return replace(loaded_settings, warnings=tuple(warnings))


def _validate_tree(profile: str, merged: Tree) -> LoadedSettings:
    values, origin = split_tree(merged)
    try:
        settings = parse_settings(values)
    except ValidationError as error:
        raise explain_invalid_settings(values, merged, str(error)) from error
    _require_no_password(settings, origin)
    return LoadedSettings(profile, settings, origin, {**origin, **dict(list_item_origins(merged))})


def _require_no_password(settings: Settings, origin: Mapping[str, str]) -> None:
    """Reject a password in a settings file, because these files are shared and displayed."""
    key = "build.cache_remote"
    url, location = settings.build.cache_remote or "", origin.get(key, "")
    if redact_secrets(url) != url and not location.upper().startswith(ENV_PREFIX):
        raise SettingsError(
            f"{key}: this URL has a password in it",
            location=location,
            hint=f"set the URL in the environment instead: {ENV_PREFIX}BUILD__CACHE_REMOTE",
        )


def _build_entry_tree(loaded: LoadedSettings, profile: str, name: str) -> Tree:
    """Return the settings of a matrix entry, which override all other layers."""
    from tasks.settings.matrix_entries import AXIS_KEYS, find_matrix_entry  # noqa: PLC0415 - only for a matrix entry

    tree: Tree = {}
    for axis, value in find_matrix_entry(loaded.settings.matrix, profile, name).items():
        *parents, leaf_key = AXIS_KEYS[axis].split(".")
        branch: Any = tree
        for key in parents:
            branch = branch.setdefault(key, {})
        branch[leaf_key] = Leaf(value, f"{_find_axis_origin(loaded, axis)} (cell {name})")
    return tree


def _find_axis_origin(loaded: LoadedSettings, axis: str) -> str:
    """Return where the axis is set, or where matrix.include is set if the axis is not."""
    values = getattr(loaded.settings.matrix, axis)
    return loaded.origin.get(f"matrix.{axis if values else 'include'}", "matrix")


def _read_layer_files(config: Path, profile: str, local: str | None) -> list[Tree]:
    profiles = list_profiles(config)
    if profile not in profiles:
        local = "config/local.yaml counts in every profile; " if profile == "local" else ""
        raise SettingsError(
            f'there is no profile "{profile}"{format_did_you_mean(profile, profiles)}',
            location="config/profiles",
            hint=f"{local}choose one of: {', '.join(profiles)}",
        )
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
        branch = tree
        *parents, leaf_key = _split_variable_name(name)
        for key in parents:
            step = branch.setdefault(key, {})
            if not isinstance(step, dict):
                raise _create_duplicate_error(name)
            branch = step
        if leaf_key in branch:
            raise _create_duplicate_error(name)
        is_switch = isinstance(_find_default(*parents, leaf_key), bool)
        value = _SWITCH_WORDS.get(text.lower(), text) if is_switch else text
        branch[leaf_key] = parse_variable_value(value, name)
    return tree


def _find_default(*keys: str) -> Any:
    value: Any = Settings()
    for key in keys:
        value = getattr(value, key, None)
    return value


def _split_variable_name(name: str) -> list[str]:
    """Return the keys that a variable names.

    Sections and their keys are lower-cased. Deeper names, such as those in build.env, are
    user-defined and keep their case.
    """
    keys = name[len(ENV_PREFIX) :].split("__")
    if not all(keys):
        raise SettingsError(
            "this variable names no key", location=name, hint="write TORCHYARD__SECTION__KEY"
        )
    return [key.lower() for key in keys[:2]] + keys[2:]


def _create_duplicate_error(name: str) -> SettingsError:
    return SettingsError(
        "this variable and another set the same key", location=name, hint="keep one of them"
    )


def read_yaml_tree(path: Path, name: str) -> Tree:
    """Return the tree of settings in a YAML file. `name` is the name of the file in messages."""
    return parse_yaml_tree(read_yaml_text(path, name), name)


def read_yaml_text(path: Path, name: str) -> str:
    """Return the text of a file. Raises `SettingsError` if the file is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"not UTF-8: {error.reason}",
            location=_format_location(name, error.object.count(b"\n", 0, error.start)),
            hint="save it as UTF-8",
        ) from error
