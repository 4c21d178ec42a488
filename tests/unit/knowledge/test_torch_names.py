"""When names came to torch and went is found by comparing the wheels of its releases."""

from __future__ import annotations

import pytest
import yaml

from tasks.knowledge.torch_names import (
    NameHistory,
    build_name_document,
    read_release_names,
    render_name_document,
)
from tests.support.checkout import KNOWLEDGE

OLD = {
    "torch/include/ATen/Gone.h": b"#define AT_GONE 1\nnamespace at { class Kept {}; }\n",
    "torch/include/torch/csrc/api/include/torch/all.h": b"int renamed_later(int a);\n",
    "torch/old.py": b"def helper(): ...\n",
    "torch/utils/__init__.py": b"from torch.old import helper\nif True:\n    flag = 1\n",
}
NEW = {
    "torch/include/ATen/New.h": b"// no AT_GONE here\nnamespace at { class Kept {}; }\n",
    "torch/include/torch/csrc/api/include/torch/all.h": b"int other_name(int a);\n",
    "torch/utils/__init__.py": b"flag = 1\nclass Broken:\n    pass\n",
    "torch/broken.py": b"def (",
}
HISTORY = NameHistory(
    build_name_document({"2.0": read_release_names(OLD), "2.1": read_release_names(NEW)})
)


@pytest.mark.parametrize(
    ("kind", "name", "cause"),
    [
        ("headers", "ATen/Gone.h", "ATen/Gone.h is not in torch 2.1 and later"),
        ("headers", "ATen/New.h", "ATen/New.h came with torch 2.1"),
        ("declarations", "AT_GONE", "torch 2.0 was the last release with it"),
        ("declarations", "renamed_later", "torch 2.0 was the last release with it"),
        ("declarations", "other_name", "came with torch 2.1"),
        ("modules", "torch.old", "torch 2.0 was the last release with it"),
        ("definitions", "torch.utils:helper", "torch.utils.helper is not in torch 2.1"),
        ("definitions", "torch.utils:Broken", "torch.utils.Broken came with torch 2.1"),
        ("declarations", "Kept", None),
        ("definitions", "torch.utils:flag", None),
        ("headers", "torch/all.h", None),
        ("modules", "torch.unknown", None),
    ],
)
def test_name_has_its_releases(kind: str, name: str, cause: str | None) -> None:
    found = HISTORY.explain_name(kind, name)  # type: ignore[arg-type]
    assert (found is None) is (cause is None)
    assert cause is None or (found and cause in found[0])


def test_document_is_read_back() -> None:
    text = render_name_document(HISTORY.document)
    assert yaml.safe_load(text) == HISTORY.document


def test_recorded_names_know_what_torch_dropped() -> None:
    found = KNOWLEDGE.torch_names.explain_name("modules", "torch.distributed.pipeline.sync")
    assert found is not None
    assert "torch 2.3 was the last release with it" in found[0]
