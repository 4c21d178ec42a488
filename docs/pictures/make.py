"""Pictures of what a person sees, made of what a program really prints.

`python docs/pictures/make.py terminal OUT.svg [--columns N] -- COMMAND…` runs a command in a
terminal of its own and keeps the screen that it ends with; `--then` parts several commands.
`python docs/pictures/make.py page OUT.png PAGE.html` is a look at a page in headless Chromium.

By hand, in a checkout whose path may be seen; needs `pip install pyte`, and chromium.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from fcntl import ioctl
from itertools import groupby
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

_LINES = 400  # as much as is ever seen of one run


def main(argv: Sequence[str]) -> None:
    """`terminal` or `page`; raises CalledProcessError where a program failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    terminal = kinds.add_parser("terminal")
    terminal.add_argument("out", type=Path)
    terminal.add_argument("--columns", type=int, default=110)
    terminal.add_argument("--title", default="torchyard")
    page = kinds.add_parser("page")
    page.add_argument("out", type=Path)
    page.add_argument("html", type=Path)
    page.add_argument("--size", default="1280,1000")
    options, _, words = _cut(argv, "--")
    asked = parser.parse_args(options)
    if asked.kind == "page":
        _photograph(asked.out, asked.html, asked.size)
        return
    screen = Text("\n").join(_seen(command, asked.columns) for command in _parted(words))
    _drawn(screen, asked.out, asked.columns, asked.title)


def _parted(words: Sequence[str]) -> Iterator[Sequence[str]]:
    while words:
        command, _, words = _cut(words, "--then")
        yield command


def _cut(words: Sequence[str], mark: str) -> tuple[Sequence[str], str, Sequence[str]]:
    """As str.partition does it."""
    if mark not in words:
        return words, "", ()
    at = words.index(mark)
    return words[:at], mark, words[at + 1 :]


def _seen(command: Sequence[str], columns: int) -> Text:
    """The prompt with the command, and what the terminal shows when it has ended."""
    screen = pyte.Screen(columns, _LINES)
    stream = pyte.ByteStream(screen)
    stream.feed(_output(command, columns))
    rows = [_row(screen, number, columns) for number in range(screen.cursor.y + 1)]
    while rows and not rows[-1].plain.strip():
        rows.pop()
    prompt = Text.assemble(("$ ", "bold green"), (shlex.join(command), "bold"))
    return Text("\n").join([prompt, *rows])


def _output(command: Sequence[str], columns: int) -> bytes:
    child, terminal = pty.fork()
    if not child:  # pragma: no cover
        size = struct.pack("HHHH", 40, columns, 0, 0)
        ioctl(sys.stdout.fileno(), termios.TIOCSWINSZ, size)
        environ = {**os.environ, "TERM": "xterm-256color"}
        os.execvpe(command[0], list(command), environ)
    said = bytearray()
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # the end of a terminal
            more = b""
        if not more:
            break
        said += more
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        sys.stderr.buffer.write(said)
        raise subprocess.CalledProcessError(status, list(command))
    return bytes(said)


def _row(screen: pyte.Screen, number: int, columns: int) -> Text:
    signs = [screen.buffer[number][column] for column in range(columns)]
    row = Text()
    for (shade, bold), run in groupby(signs, lambda sign: (sign.fg, sign.bold)):
        row.append("".join(sign.data for sign in run), Style(color=_color(shade), bold=bold))
    row.rstrip()
    return row


def _color(shade: str) -> str | None:
    """rich's name of pyte's."""
    if re.fullmatch("[0-9a-f]{6}", shade):
        return f"#{shade}"
    return {"default": None, "brown": "yellow"}.get(shade, shade)


def _drawn(screen: Text, out: Path, columns: int, title: str) -> None:
    """Without rich's fonts, which a reader's browser would fetch from elsewhere."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=columns, file=nowhere, force_terminal=True)
        console.print(screen, no_wrap=True, crop=True, overflow="crop")
        drawn = console.export_svg(title=title, theme=MONOKAI)
    out.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL), encoding="utf-8")


def _photograph(out: Path, html: Path, size: str) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    subprocess.run(
        [
            program,
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            "--disable-gpu",
            f"--window-size={size}",
            f"--screenshot={out.absolute()}",
            html.absolute().as_uri(),
        ],
        check=True,
        stderr=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
