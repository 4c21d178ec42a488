"""Render Jinja templates, with filters that quote values for shells."""

from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

import jinja2

from tasks.core import shell_quoting

_TEMPLATE_FILTERS = {
    "comment": shell_quoting.sanitize_comment,
    "sh": shell_quoting.quote_posix,
    "sh_name": shell_quoting.check_posix_name,
    "sh_assign": shell_quoting.format_posix_assignment,
    "ps": shell_quoting.quote_powershell,
    "ps_name": shell_quoting.check_powershell_name,
    "ps_variable": shell_quoting.format_powershell_variable,
    "cmd_assign": shell_quoting.format_cmd_assignment,
    "cmd_name": shell_quoting.check_cmd_name,
    "cmd_comment": shell_quoting.sanitize_cmd_comment,
    "github": shell_quoting.quote_github_yaml,
}


def render_template(template: PurePath, values: Mapping[str, Any]) -> str:
    """Return the rendered Jinja template; raise if `values` lacks a name that the template uses."""
    return _load_environment(str(template.parent)).get_template(template.name).render(**values)


@cache
def _load_environment(folder: str) -> jinja2.Environment:
    import jinja2  # noqa: PLC0415 - takes 0.1 s, and loading a plan needs no template

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        # only in HTML: in a script, a filter for its shell quotes each value
        autoescape=jinja2.select_autoescape(("html.j2",), default=False),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_TEMPLATE_FILTERS)
    return environment
