"""Write the result of a command to the file that `--json` names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import redact_secrets
from tasks.system.files import write_user_file
from tasks.system.invocation import adapt_message


def write_json_result(path: str, document: Mapping[str, Any]) -> None:
    """Write the document to `path` as JSON without secrets; do nothing if `path` is ""."""
    if path:
        write_user_file(Path(path), adapt_message(redact_secrets(format_canonical_json(document))))
