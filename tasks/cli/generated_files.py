"""Write the generated files of this checkout: `python -m tasks.cli.generated_files`."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tasks.diagnosis.diagnosis_page import render_diagnosis_page
from tasks.knowledge.knowledge_files_io import KNOWLEDGE_FOLDER, load_knowledge
from tasks.knowledge.knowledge_page import render_page
from tasks.settings.settings_page import render_json_schema, render_settings_page
from tasks.system.invocation import format_for_torchyard


def render_generated_files() -> Mapping[str, str]:
    """Return the text of each generated file by its path in the checkout."""
    knowledge = load_knowledge(KNOWLEDGE_FOLDER)
    texts = {
        "config/schema.json": render_json_schema(),
        "docs/diagnosis.md": render_diagnosis_page(knowledge),
        "docs/knowledge.md": render_page(knowledge),
        "docs/settings.md": render_settings_page(),
    }
    # Their texts are written for a checkout, and read by users of the installed command
    return {path: format_for_torchyard(text) for path, text in texts.items()}


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    for path, text in render_generated_files().items():
        (root / path).write_text(text, encoding="utf-8", newline="\n")
        sys.stdout.write(f"{path}\n")
