"""Errors for invalid settings name the location, the problem and a valid value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.core.errors import SettingsError, is_secret_name
from tasks.core.project import Project
from tasks.settings.layers_io import load_settings

TAGS = (
    "write plain text, numbers, true/false, lists and mappings; quote a text that looks like a date"
)
EXTENSION_KEYS = (
    "the keys of this section are: after, cuda, env, git, imports, includes, name, "
    "optional, patches, path, ref, requires, sdist, sha256, smoke, subdirectory, submodules"
)
ROOT_KEYS = (
    "the keys of this section are: build, companions, doctor, extensions, install, lock, "
    "matrix, mirrors, notify, offline, publish, python, runtime, source, target, toolkit, "
    "torch, validation, wheel"
)


def read_error(folder: Path, text: str | bytes) -> str:
    """Return the error message for a local.yaml, without its file name."""
    config = folder / "config"
    (config / "profiles").mkdir(parents=True)
    for name in ("default", "profiles/mine"):
        (config / f"{name}.yaml").write_text("target:\n  ptx: false\n", encoding="utf-8")
    content = text if isinstance(text, bytes) else text.encode()
    (config / "local.yaml").write_bytes(content)
    with pytest.raises(SettingsError) as found:
        load_settings(Project.of_checkout(folder), "mine", {})
    message = str(found.value)
    assert message.startswith("config/local.yaml:")
    return message.removeprefix("config/local.yaml:").strip()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tagret: {}", f'1: tagret: unknown key; did you mean "target"?\n  → {ROOT_KEYS}'),
        ("\ntarget:\n  gpu: auto", ('3: target.gpu: unknown key; did you mean "gpus"?\n'
         "  → the keys of this section are: gpus, ptx")),
        ("validation: {checks: all}", ('1: validation.checks: unknown key; did you mean "only"?\n'
         "  → the keys of this section are: only, timeout")),
        ("wholly_else: 1", f"1: wholly_else: unknown key\n  → {ROOT_KEYS}"),
        ("extensions:\n- name: a\n  path: x\n- name: b\n  pth: y",
         f'5: extensions.1.pth: unknown key; did you mean "path"?\n  → {EXTENSION_KEYS}'),
        ("extensions:\n- name: a\n  path: x\n  smoke:\n    script: c\n    gppu: true",
         ('6: extensions.0.smoke.gppu: unknown key; did you mean "gpu"?\n'
         "  → the keys of this section are: gpu, script")),
        ("tagret: {}\ntoolkti: {}", ('1: tagret: unknown key; did you mean "target"?\n'
         f"  → {ROOT_KEYS}; other wrong settings: toolkti (config/local.yaml:2)")),
    ],
)  # fmt: skip
def test_unknown_key_is_refused_with_closest_key_at_any_depth(
    tmp_path: Path, text: str, message: str
) -> None:
    assert read_error(tmp_path, text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("python: 3.10", '1: python: 3.10 is a number in YAML\n  → quote it: "3.10"'),
        ("python: 3", '1: python: 3 is not a text\n  → quote it: "3"'),
        ("python: 3:10", '1: python: 3:10 is a number in YAML\n  → quote it: "3:10"'),
        ("python: true", '1: python: true is not a text\n  → quote it: "true"'),
        ("target:\n  gpus:\n  - RTX 5090\n  - 12.0",
         '4: target.gpus.1: 12.0 is a number in YAML\n  → quote it: "12.0"'),
        ("target: {gpus: [12]}", '1: target.gpus.0: 12 is not a text\n  → quote it: "12"'),
        ("torch:\n  version: 2.10",
         '2: torch.version: 2.10 is a number in YAML\n  → quote it: "2.10"'),
        ("toolkit:\n  version: 12.4",
         '2: toolkit.version: 12.4 is a number in YAML\n  → quote it: "12.4"'),
        ("extensions:\n- name: a\n  git: https://x.org/a\n  ref: 1.10",
         '4: extensions.0.ref: 1.10 is a number in YAML\n  → quote it: "1.10"'),
        ("build:\n  env:\n    A: 1", '3: build.env.A: 1 is not a text\n  → quote it: "1"'),
    ],
)  # fmt: skip
def test_unquoted_number_is_refused_and_never_converted(
    tmp_path: Path, text: str, message: str
) -> None:
    assert read_error(tmp_path, text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target: 5", "1: target: 5 is not accepted\n  → write keys and values"),
        ("target: []", "1: target: a list is not accepted\n  → write keys and values"),
        ("target:", ("1: target: this key has no value\n"
         "  → write keys and values, or leave the key out")),
        ("python:", "1: python: this key has no value\n  → write a text, or leave the key out"),
        ("python: {a: b}", "1: python: a mapping is not accepted\n  → write a text"),
        ("target: {gpus: RTX 5090}", ('1: target.gpus: "RTX 5090" is not accepted\n'
         '  → write auto or a list: ["…"]')),
        ("target: {ptx: maybe}", ('1: target.ptx: "maybe" is not accepted\n'
         "  → write true or false")),
        ("build: {jobs: many}", ('1: build.jobs: "many" is not accepted\n'
         "  → write auto or a whole number from 1")),
        ("build: {jobs: 0}", ("1: build.jobs: 0 is not accepted\n"
         "  → write auto or a whole number from 1")),
        ("build: {jobs: 2.5}", ("1: build.jobs: 2.5 is not accepted\n"
         "  → write auto or a whole number from 1")),
        ("doctor: {ignore: [disc]}",
         '1: doctor.ignore.0: there is no check "disc"; did you mean "disk"?'),
        ("doctor: {ignore: disk}", ('1: doctor.ignore: "disk" is not accepted\n'
         '  → write a list: ["…"]')),
        ("build: {type: release}", ('1: build.type: "release" is not accepted\n'
         "  → write Release, RelWithDebInfo or Debug")),
        ("build: {flags: {USE_X: }}", ("1: build.flags.USE_X: this key has no value\n"
         "  → write true or false or a text, or leave the key out")),
        ("torch: {strategy: prebuild}", ('1: torch.strategy: "prebuild" is not accepted\n'
         "  → write auto, source, prebuilt or existing")),
        ("validation: {timeout: 0}", ("1: validation.timeout: 0 is not accepted\n"
         "  → write a whole number from 1")),
        ("validation: {only: import}", ('1: validation.only: "import" is not accepted\n'
         '  → write all or a list: ["…"]')),
        ("extensions: a", '1: extensions: "a" is not accepted\n  → write a list: ["…"]'),
        ("extensions: [5]", ("1: extensions.0: 5 is not accepted\n"
         "  → write a text or keys and values")),
        ("companions: [torchtext]", ('1: companions.0: "torchtext" is not accepted\n'
         "  → write torchvision, torchaudio or triton")),
        ("companions: [triton, triton]", '1: companions: the name "triton" is used twice'),
        ("extensions: [{path: x}]", "1: extensions.0.name: this key is missing\n  → add it"),
    ],
)  # fmt: skip
def test_wrong_type_is_refused_with_expected_type(tmp_path: Path, text: str, message: str) -> None:
    assert read_error(tmp_path, text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n- a", '2: the file must hold keys and values\n  → write each setting as "key: value"'),
        ("auto", '1: the file must hold keys and values\n  → write each setting as "key: value"'),
        ("a: [", "2: not valid YAML: did not find expected node content"),
        ("python: a\npython: b", '2: the key "python" occurs twice\n  → keep one of them'),
        ("target:\n  gpus: auto\n  gpus: []",
         '3: the key "gpus" occurs twice\n  → keep one of them'),
        ("python: !!python/object:os.system x",
         f"1: the YAML tag tag:yaml.org,2002:python/object:os.system is not accepted\n  → {TAGS}"),
        ("a: 1\ntarget: !mine {gpus: auto}", f"2: the YAML tag !mine is not accepted\n  → {TAGS}"),
        ("target:\n  gpus: [!mine a]", f"2: the YAML tag !mine is not accepted\n  → {TAGS}"),
        ("python: 2024-01-01",
         f"1: the YAML tag tag:yaml.org,2002:timestamp is not accepted\n  → {TAGS}"),
        ("build: &b {jobs: 1}\ntorch: *b",
         "2: a YAML alias is not accepted\n  → write the value itself instead of the alias"),
        ("extensions: &a [*a]",
         "1: a YAML alias is not accepted\n  → write the value itself instead of the alias"),
        ("<<: {a: b}", "1: a key must be a plain word"),
        ("? [a]\n: b", "1: a key must be a plain word"),
        (b"#\npython: caf\xe9 au lait",
         "2: the file is not UTF-8: invalid continuation byte\n  → save the file as UTF-8"),
        ("python: auto\n".encode("utf-16"),
         "1: the file is not UTF-8: invalid start byte\n  → save the file as UTF-8"),
        (b'target: {}\npython: "a\0"',
         "2: not valid YAML: control characters are not allowed"),
    ],
)  # fmt: skip
def test_only_plain_yaml_is_accepted(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert read_error(tmp_path, text) == message


@pytest.mark.parametrize(
    ("extension", "message"),
    [
        ("{name: a, path: y, requires: [torch==2.6.0]}",
         ("extensions.0.requires.0: torchyard installs torch itself: "
         "remove torch from this list, and set torch.version")),
        ("{name: a, path: y, requires: [a @ https://x.org/a.whl]}",
         ('extensions.0.requires.0: "a @ https://x.org/a.whl" does not have the right form\n'
         '  → write a package and, where it matters, a range: "setuptools>=77,<82"')),
        ("{name: a, git: https://x.org/a, path: y}",
         "extensions.0: give at most one of git, path and sdist (found git and path)"),
        ("{name: a, path: y, sdist: a==1}",
         "extensions.0: give at most one of git, path and sdist (found path and sdist)"),
        ("{name: a, sdist: torch-cluster}",
         ('extensions.0.sdist: "torch-cluster" does not have the right form\n  → write the name '
         'and an exact version, such as "torch-cluster==1.6.3"')),
        ("{name: a, sdist: 'a>=1'}",
         ('extensions.0.sdist: "a>=1" does not have the right form\n  → write the name '
         'and an exact version, such as "torch-cluster==1.6.3"')),
        ("{name: a/b, path: y}", ('extensions.0.name: "a/b" does not have the right form\n'
         '  → write letters, digits, ".", "_" and "-"')),
        ("{name: a, path: y, imports: [os; x]}",
         ('extensions.0.imports.0: "os; x" does not have the right form\n'
         '  → write a module as Python imports it, such as "simple_knn._C"')),
        ("{name: a, git: --upload-pack=x}", "extensions.0.git: must not start with '-'"),
        ("{name: a, git: 'ext::sh -c x'}",
         "extensions.0.git: git would run a command for this URL; write an https or ssh URL"),
        ("{name: a, git: https://x.org/a, ref: --all}",
         "extensions.0.ref: must not start with '-'"),
        ("{name: a, path: y, subdirectory: ../z}",
         "extensions.0: subdirectory must be a path inside the source"),
        ("{name: a, path: y, subdirectory: /z}",
         "extensions.0: subdirectory must be a path inside the source"),
        ("{name: a, path: x}, {name: a, path: y}", 'extensions: the name "a" is used twice'),
    ],
)  # fmt: skip
def test_invalid_extension_is_refused(tmp_path: Path, extension: str, message: str) -> None:
    assert read_error(tmp_path, f"extensions: [{extension}]") == f"1: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source: {git: -u}", "source.git: must not start with '-'"),
        ("source: {git: 'ext::sh'}",
         "source.git: git would run a command for this URL; write an https or ssh URL"),
        ("source: {ref: -f}", "source.ref: must not start with '-'"),
        ("source: {sha256: abc}", ('source.sha256: "abc" does not have the right form\n'
         "  → write the 64 hexadecimal digits of the file's sha256, in lower case")),
        ("torch: {version: '2.15'}", ('torch.version: "2.15" does not have the right form\n'
         '  → write auto, or a whole release without a local part, such as "2.15.0"')),
        ("torch: {version: 2.15.0+cu132}",
         ('torch.version: "2.15.0+cu132" does not have the right form\n'
         '  → write auto, or a whole release without a local part, such as "2.15.0"')),
        ("toolkit: {version: 13.0.88}", ('toolkit.version: "13.0.88" does not have the right form\n'
         '  → write auto, or major and minor, such as "13.2"')),
        ("wheel: {local_version: A b}", ('wheel.local_version: "A b" does not have the right form\n'
         "  → write auto, none, or lower-case letters and digits with dots between")),
        ("build: {flags: {CC: gcc}}", ('build.flags.CC: "CC" does not have the right form\n'
         "  → write USE_NAME or BUILD_NAME, in capitals; other variables go into build.env")),
        ("build: {env: {A-B: c}}", ('build.env.A-B: "A-B" does not have the right form\n'
         "  → write the name of a variable: letters, digits and _")),
    ],
)  # fmt: skip
def test_invalid_text_is_refused_with_expected_form(
    tmp_path: Path, text: str, message: str
) -> None:
    assert read_error(tmp_path, text) == f"1: {message}"


@pytest.mark.parametrize(
    "name", ["GITHUB_TOKEN", "API_KEY", "my_password", "AWS_SECRET_ACCESS_KEY"]
)
def test_secret_in_env_is_refused(tmp_path: Path, name: str) -> None:
    shown = read_error(tmp_path, f"build: {{env: {{{name}: hunter2}}}}")
    assert f"{name} looks like a secret" in shown
    assert "hunter2" not in shown


def test_harmless_variable_is_not_taken_for_secret() -> None:
    assert not is_secret_name("TOKENIZERS_PARALLELISM")
    assert not is_secret_name("KEYBOARD")


def test_password_in_url_is_masked(tmp_path: Path) -> None:
    shown = read_error(tmp_path, "torch: {strategy: 'https://me:secret@host/x'}")
    assert "secret" not in shown
    assert '"https://***@host/x" is not accepted' in shown
