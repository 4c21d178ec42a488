"""Templates and values to text; the shells' own rules of quoting are in `tasks.core.quoting`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tasks.core.quoting import cmd, github, posix, powershell, text

if TYPE_CHECKING:
    import jinja2

_FILTERS = {
    "comment": text.comment,
    "sh": posix.quote,
    "sh_name": posix.name,
    "sh_assign": posix.assign,
    "ps": powershell.quote,
    "ps_name": powershell.name,
    "ps_variable": powershell.variable,
    "cmd_assign": cmd.assign,
    "cmd_name": cmd.name,
    "cmd_comment": cmd.comment,
    "github": github.quote,
}


def render(template: PurePath, values: Mapping[str, Any]) -> str:
    """The text of a Jinja template; a name that `values` lacks is a bug and keeps its traceback."""
    return _templates(str(template.parent)).get_template(template.name).render(**values)


@cache
def _templates(folder: str) -> jinja2.Environment:
    import jinja2  # noqa: PLC0415 - a tenth of a second that loading a plan must not pay

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        # in a script each value goes through the filter of its shell
        autoescape=jinja2.select_autoescape(("html.j2",), default=False),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    return environment
