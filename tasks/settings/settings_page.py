"""Render docs/settings.md and config/schema.json for `python -m tasks.cli.generated_files`."""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import yaml
from msgspec import json as msgspec_json

from tasks.core.canonical_json import format_canonical_json
from tasks.settings import values
from tasks.settings.schema import Settings
from tasks.settings.values import Section, list_fields


def render_json_schema() -> str:
    """Return the content of config/schema.json."""
    definitions = msgspec_json.schema(Settings)["$defs"]
    for model in Section.__subclasses__():
        properties = definitions[model.__name__]["properties"]
        docstrings = dict(_read_field_docstrings(model))
        definitions[model.__name__]["properties"] = {
            key: properties[key] | ({"description": docstrings[key]} if key in docstrings else {})
            for key, _ in list_fields(model)
        }
    schema = _normalize_schema_node(definitions.pop("Settings") | {"$defs": definitions})
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "torchyard settings"
    schema["properties"] |= _PROFILE_PROPERTIES
    return format_canonical_json(schema)


# The keys of torchyard.yaml beside the settings
_PROFILE_PROPERTIES: Mapping[str, Any] = {
    "profile": {
        "description": "The profile to use without `--profile`; only in torchyard.yaml.",
        "type": "string",
    },
    "profiles": {
        "additionalProperties": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        "description": "Variants of these settings, by name; only in torchyard.yaml.",
        "type": "object",
    },
}


def _read_field_docstrings(model: type[Section]) -> Iterator[tuple[str, str]]:
    source = ast.parse(textwrap.dedent(inspect.getsource(model)))
    for statement, following in pairwise(getattr(source.body[0], "body", ())):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(docstring))),
            ):
                yield name, inspect.cleandoc(docstring)


def _normalize_schema_node(node: Any) -> Any:
    """Return the node with one-line descriptions, and patterns converted to JSON Schema."""
    if isinstance(node, list | tuple):
        return [_normalize_schema_node(item) for item in node]
    if not isinstance(node, dict):
        return node
    normalized = {key: _normalize_schema_node(value) for key, value in node.items()}
    if isinstance(text := normalized.get("description"), str):
        normalized["description"] = " ".join(text.split())
    if isinstance(text := normalized.get("pattern"), str):
        normalized["pattern"] = text.replace(r"\Z", "$")
    return normalized


_EXAMPLE_SHA256 = "0" * 64


@dataclass(frozen=True)
class SettingExample:
    """An example value, given with `required_keys`. If the key changes, `stages` run again."""

    value: Any
    stages: tuple[str, ...] = ()
    required_keys: Mapping[str, Any] = field(default_factory=dict)


SETTING_EXAMPLES: Mapping[str, SettingExample] = {
    "python": SettingExample("3.12", ("deps",)),
    "target.gpus": SettingExample(
        ["RTX 5060 Ti", "8.9"], ("env", "compile", "wheel", "extensions", "validate")
    ),
    "target.ptx": SettingExample(True, ("env",)),
    "toolkit.provider": SettingExample("system", ("deps",)),
    "toolkit.version": SettingExample("13.0", ("deps", "env", "wheel", "extensions")),
    "toolkit.path": SettingExample("/usr/local/cuda-13.2", ("deps",)),
    "torch.strategy": SettingExample("source", ("deps", "source", "env", "compile", "wheel")),
    "torch.version": SettingExample("2.14.1", ("deps", "source", "env", "wheel", "extensions")),
    "torch.index": SettingExample("https://download.pytorch.org/whl/cu128", ("wheel",)),
    "torch.local": SettingExample("cu132.sm120.g1a2b3c4", ("wheel",)),
    "torch.sha256": SettingExample(_EXAMPLE_SHA256, ("wheel",)),
    "source.git": SettingExample("https://example.org/pytorch.git", ("source",)),
    "source.ref": SettingExample("main", ("source",)),
    "source.submodules": SettingExample(False, ("source",)),
    "source.path": SettingExample("~/src/pytorch", ("source",)),
    "source.tarball": SettingExample("~/Downloads/pytorch-2.15.0.tar.gz", ("source",)),
    "source.sha256": SettingExample(_EXAMPLE_SHA256, ("source",)),
    "source.patches": SettingExample(["patches/mine.patch"], ("source",)),
    "source.mirrors": SettingExample({"https://github.com/": "https://mirror.example/"}),
    "build.type": SettingExample("RelWithDebInfo", ("env", "compile", "wheel")),
    "build.flags": SettingExample({"USE_NCCL": False, "BUILD_TEST": False}, ("env", "compile")),
    "build.env": SettingExample({"CC": "gcc-13", "CXX": "g++-13"}, ("deps", "env", "compile")),
    "build.jobs": SettingExample(8),
    "build.jobs_exact": SettingExample(True),
    "build.cache": SettingExample("ccache", ("deps", "env")),
    "build.cache_size": SettingExample("50G", ("env",)),
    "build.cache_remote": SettingExample("redis://cache.lab:6379"),
    "build.distribute": SettingExample("distcc", ("env",), {"hosts": ["10.0.0.5/8"]}),
    "build.hosts": SettingExample(["10.0.0.5/8", "builder:3632/16,lzo"]),
    "build.target": SettingExample("c10", ("compile",)),
    "build.backend": SettingExample("cmake", ("compile",)),
    "build.auto_fix": SettingExample(True),
    "build.blas": SettingExample("mkl", ("deps", "env")),
    "runtime.env": SettingExample({"DEVICE": "auto"}, ("env",)),
    "runtime.launch_blocking": SettingExample(True, ("env",)),
    "wheel.local_version": SettingExample("lab.1", ("wheel",)),
    "wheel.cuda": SettingExample("packages", ("deps", "wheel")),
    "wheel.wheelhouse": SettingExample("~/wheels", ("wheel",)),
    "install.into": SettingExample("~/miniconda3/envs/gs/bin/python", ("install",)),
    "install.partial": SettingExample(True, ("install",)),
    "companions": SettingExample(["torchvision"], ("extensions",)),
    "extensions": SettingExample(["simple-knn"], ("extensions",)),
    "publish.dest": SettingExample("me@wheels.lab:/srv/simple"),
    "publish.keep": SettingExample(2),
    "matrix.torch": SettingExample(["2.15.0", "2.14.1"]),
    "matrix.python": SettingExample(["3.12", "3.13"]),
    "matrix.cuda": SettingExample(["13.2", "auto"]),
    "matrix.gpus": SettingExample(["RTX 5090", ["8.9", "9.0"], []]),
    "matrix.exclude": SettingExample([{"torch": "2.14.1", "python": "3.13"}]),
    "matrix.include": SettingExample([{"torch": "2.9.0", "gpus": "12.0"}]),
    "validation.only": SettingExample(["import", "machine_code"], ("validate",)),
    "validation.timeout": SettingExample(120),
    "doctor.ignore": SettingExample(["disk"]),
    "notify.bell": SettingExample(False),
    "notify.command": SettingExample(["notify-send", "torchyard", "see the terminal"]),
    "mirrors": SettingExample(["sjtu"]),
    "lock": SettingExample(False),
    "offline": SettingExample("/media/usb/torch.tar"),
}

_EXTENSION_STAGES = ("extensions",)
# The keys of one extension; examples also get a name and, without another source, a path
EXTENSION_EXAMPLES: Mapping[str, SettingExample] = {
    "name": SettingExample("mine", _EXTENSION_STAGES),
    "git": SettingExample("https://example.org/mine.git", _EXTENSION_STAGES),
    "ref": SettingExample("v1.2", _EXTENSION_STAGES),
    "submodules": SettingExample(False, _EXTENSION_STAGES),
    "path": SettingExample("~/code/my-extension", _EXTENSION_STAGES),
    "sdist": SettingExample("torch-cluster==1.6.3", _EXTENSION_STAGES),
    "sha256": SettingExample(_EXAMPLE_SHA256, _EXTENSION_STAGES),
    "subdirectory": SettingExample("python", _EXTENSION_STAGES),
    "patches": SettingExample(["mine.patch"], _EXTENSION_STAGES),
    "requires": SettingExample(["psutil", "setuptools<82"], _EXTENSION_STAGES),
    "after": SettingExample(["simple-knn"], _EXTENSION_STAGES),
    "imports": SettingExample(["my_extension"], _EXTENSION_STAGES),
    "env": SettingExample({"MAX_JOBS": "4"}, _EXTENSION_STAGES),
    "cuda": SettingExample("required", _EXTENSION_STAGES),
    "includes": SettingExample(["cfloat"], _EXTENSION_STAGES),
    "smoke": SettingExample({"script": "check.py", "gpu": True}),
    "optional": SettingExample(True),
}


_PAGE_HEADER = """\
# Settings

<!-- Made of the settings model: python -m tasks.cli.generated_files
     Change tasks/settings, not this page. -->

A value comes from the [first of these](projects.md#where-a-value-comes-from) that has it:

1. `TORCHYARD__SECTION__KEY` in the environment: `TORCHYARD__TORCH__VERSION=2.14.1`
2. `torchyard.local.yaml`: the settings of this machine
3. `torchyard.yaml`: the settings of the project
4. `config.yaml` in `~/.config/torchyard`: yours, for all projects
5. the built-in profile, chosen by `--profile NAME`
6. the default

In 2 and 3, the part of `profiles:` that has the name of the profile overrides the rest of the file.
A checkout of torchyard has [other files](projects.md#from-a-checkout-of-torchyard).

A list replaces the list of a weaker layer. `doit settings` shows every value and where it is from.
An unknown key, or a value of another type, is refused with file and line before anything runs.
A run that builds warns of what is set and read by nothing, such as `torch.sha256` of a built torch.
A `TORCHYARD_` variable that nothing reads is a warning, with the one that was meant.

**Runs again** names the stages that a change sets going. What comes after them runs only where what
they leave has other bytes. *Nothing* means that no stage runs for it.

"""
_TYPE_NAMES = {
    "string": "text",
    "boolean": "true or false",
    "integer": "whole number",
    "null": "null",
    "object": "names with values",
}
_MODEL_DESCRIPTIONS = {
    "Extension": "[an extension](#one-of-extensions)",
    "Smoke": "`script` (a Python file; exit 0 passes) and `gpu` (whether it needs a card)",
    "MatrixCombination": "some of `torch`, `python`, `cuda`, `gpus`",
}
_PATTERN_DESCRIPTIONS = {
    values.SHA256_PATTERN: "64 hexadecimal digits",
    values.CUDA_PATTERN: '`auto` or "major.minor"',
    values.SIZE_PATTERN: "`auto` or a number with M, G or T",
    values.LOCAL_VERSION_PATTERN: "`auto`, `none` or a text",
    values.REMOTE_PATTERN: "URL",
    values.SDIST_PATTERN: "name==version",
}


def render_settings_page() -> str:
    """Return the content of docs/settings.md."""
    schema = json.loads(render_json_schema())
    keys, sections = [f"{_PAGE_HEADER}## Without a section\n\n"], []
    for name, default in list_fields(Settings):
        if not isinstance(default, Section):
            keys.append(_render_key(name, schema["properties"][name], SETTING_EXAMPLES[name]))
            continue
        section = schema["$defs"][schema["properties"][name]["$ref"].rpartition("/")[2]]
        sections.append(f"## {name}\n\n{section['description']}\n\n")
        for key, _ in list_fields(type(default)):
            described, example = section["properties"][key], SETTING_EXAMPLES[f"{name}.{key}"]
            sections.append(_render_key(f"{name}.{key}", described, example))
    extension = schema["$defs"]["Extension"]
    sections.append(f"## One of extensions\n\n{extension['description']}\n\n")
    for key, example in EXTENSION_EXAMPLES.items():
        described, whole = extension["properties"][key], [build_example_extension(key)]
        sections.append(_render_key(f"extensions.{key}", described, example, whole))
    return "".join((*keys, *sections)).rstrip("\n") + "\n"


def build_example_extension(key: str) -> dict[str, Any]:
    """Return an example extension with this key, a name and a source."""
    value = EXTENSION_EXAMPLES[key].value
    source = {} if key in {"git", "sdist"} else {"path": EXTENSION_EXAMPLES["path"].value}
    return {"name": "mine", **source, key: value}


def _render_key(
    dotted: str, described: Mapping[str, Any], example: SettingExample, whole: Any = None
) -> str:
    name, _, key = dotted.partition(".")
    value = whole or ({**example.required_keys, key: example.value} if key else example.value)
    stages = ", ".join(f"`{stage}`" for stage in example.stages) or "*nothing*"
    default = described.get("default")
    text = default if isinstance(default, str) else json.dumps(default)
    default_note = f" **Default** `{text}`." if "default" in described else ""
    flow = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000)
    line = flow.removesuffix("...\n").rstrip("\n")
    return (
        f"### {dotted}\n\n{described['description']}\n\n"
        f"**Type** {_describe_type(described)}.{default_note} **Runs again** {stages}.\n\n"
        f"```yaml\n{name}: {line}\n```\n\n"
    )


def _describe_type(described: Mapping[str, Any]) -> str:
    if "anyOf" in described:
        return " or ".join(dict.fromkeys(map(_describe_type, described["anyOf"])))
    if "$ref" in described:
        return _MODEL_DESCRIPTIONS[described["$ref"].rpartition("/")[2]]
    if words := described.get("enum"):
        return "one of " * (len(words) > 1) + ", ".join(f"`{word}`" for word in words)
    if described["type"] == "array":
        return f"list ({_describe_type(described['items'])})"
    pattern = described.get("pattern", "").removesuffix("$") + r"\Z"
    return _PATTERN_DESCRIPTIONS.get(pattern, _TYPE_NAMES[described["type"]])
