"""A value in a workflow of GitHub Actions. Pure."""

from __future__ import annotations

import json


def quote_github_yaml(text: str) -> str:
    """A string of YAML, in double quotes. `${{` is spelled by an expression: what stands after it
    is evaluated in any string (docs.github.com, "Evaluate expressions").
    """
    return json.dumps(text.replace("${{", "${{ '${{' }}"))
