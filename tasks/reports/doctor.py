"""`doit doctor`: what could stop this profile on this machine, before anything is built.

It looks and changes nothing; `--accept` alone pins the cards and toolkits that are here now.
Nothing is asked of the network but whether a host takes a connection. `gate` is the part that costs
some milliseconds, which a build looks at before it writes anything.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tasks.checks.ask import ask
from tasks.checks.ids import ALL, GATE, CheckId
from tasks.checks.judging import judge
from tasks.checks.symptom import Symptom, ok, problem
from tasks.digest import canonical
from tasks.effects import probe
from tasks.effects.files import deliver
from tasks.effects.surroundings import look
from tasks.effects.voice import show
from tasks.errors import BuildError, redact
from tasks.knowledge import load
from tasks.model import Host
from tasks.plan import layout_of
from tasks.reports.subject import Subject

_MARKS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM", "not checked": "not checked"}
_INDENT = 28  # of what was seen
_WIDEST = 120
_FIRM: frozenset[CheckId] = frozenset({"compiler", "git"})  # without them the stages go no further


def run(subject: Subject, json: str = "", accept: bool = False) -> None:
    """Print a line for each thing that was looked at; `BuildError` when one of them is a
    problem.
    """
    if accept and _accept(subject) and not subject.opened:
        show(f"{subject.name} did not open with what was pinned: look again with doit doctor")
        return
    found = diagnose(subject)
    problems = [symptom for symptom in found if symptom.level == "problem"]
    if json:
        document = {"profile": subject.name, "found": found, "problems": len(problems)}
        deliver(Path(json), redact(canonical(document)))
    for line in table(found, min(shutil.get_terminal_size((100, 24)).columns, _WIDEST)):
        show(line)
    if problems:
        raise BuildError(_counted(problems), todo="each has its remedy above")
    warnings = sum(symptom.level == "warning" for symptom in found)
    show(f"nothing would stop this build; {warnings or 'no'} warning{'s' * (warnings != 1)}")


def gate(subject: Subject) -> None:
    """What a build asks before its first stage. Raises `BuildError` that lists the problems."""
    problems = [symptom for symptom in diagnose(subject, GATE) if symptom.level == "problem"]
    if not problems:
        return
    told = "\n".join(_told(symptom) for symptom in problems)
    names = dict.fromkeys(symptom.id for symptom in problems)
    todo = "mend that (doit doctor looks again)"
    if not _FIRM & names.keys():
        todo += f", or build all the same with doctor.ignore: [{', '.join(names)}]"
        todo += " in config/local.yaml"
    raise BuildError(f"{_counted(problems)}; nothing was built or changed\n{told}", todo=todo)


def diagnose(subject: Subject, wanted: frozenset[CheckId] = ALL) -> tuple[Symptom, ...]:
    """What the wanted checks say; a problem that doctor.ignore names is a warning."""
    profile = subject.opened
    host = profile.host if profile else _host(subject)
    knowledge = profile.knowledge if profile else load(subject.root / "config" / "knowledge")
    seen = look(ask(subject.root, host, profile), wanted)
    found = [*_settings(subject, wanted), *judge(seen, profile, knowledge, wanted)]
    ignored = profile.loaded.settings.doctor.ignore if profile else ()
    named = [replace(symptom, todo=_for_profile(symptom.todo, subject.name)) for symptom in found]
    return tuple(_overridden(symptom) if symptom.id in ignored else symptom for symptom in named)


def _for_profile(todo: str, profile: str) -> str:
    """Our own commands are for this profile, and not for the one that is usual."""
    return re.sub(r"(?m)(?<=  |& )doit [\w -]+?(?=$| &)", rf"\g<0> profile={profile}", todo)


def _host(subject: Subject) -> Host:
    """Of a profile that does not open nothing is known, and nothing pinned."""
    return probe.host(probe.Asked("auto", None), subject.root / "build" / "host.json")


def _overridden(symptom: Symptom) -> Symptom:
    if symptom.level != "problem":
        return symptom
    return replace(symptom, level="warning", seen=f"{symptom.seen} (doctor.ignore)")


def _settings(subject: Subject, wanted: frozenset[CheckId]) -> Iterator[Symptom]:
    if "settings" not in wanted:
        return
    if told := subject.problem:
        text = f"{told.where}: {told.what}" if told.where else told.what
        todo = told.todo or f"see what came out of which file: doit settings profile={subject.name}"
        yield problem("settings", text, todo)
    for key, value in subject.opened.plan.headline if subject.opened else ():
        yield ok("settings", value if key == "profile" else f"{key}: {value}", key)


def _counted(problems: list[Symptom]) -> str:
    names = ", ".join(dict.fromkeys(symptom.id for symptom in problems))
    return f"{len(problems)} {'problems' if len(problems) > 1 else 'problem'}: {names}"


def _told(symptom: Symptom) -> str:
    first, *more = symptom.todo.splitlines() or [""]
    rest = "".join(f"\n      {line}" for line in more)
    return f"  {symptom.id}: {symptom.seen}\n    → {first.strip()}{rest}"


def table(found: Iterable[Symptom], columns: int) -> Iterator[str]:
    """A line for each symptom, what is longer than `columns` going on below. Commands are left in
    one piece, to be copied.
    """
    room = max(columns - _INDENT, 30)
    before = ""
    for symptom in found:
        name = symptom.id if symptom.id != before or symptom.level != "ok" else ""
        before = symptom.id
        known = f" [{symptom.known}]" if symptom.known else ""
        first, *more = _wrapped(f"{symptom.seen}{known}", room)
        yield f"{_MARKS[symptom.level]:<12} {name:<14} {first}".rstrip()
        yield from (f"{'':{_INDENT}}{line}" for line in more)
        yield from _remedy(symptom.todo, room - 2)


def _remedy(todo: str, room: int) -> Iterator[str]:
    mark = "→ "
    for line in todo.splitlines():
        pieces = [line.strip()] if line.startswith("  ") else _wrapped(line, room)
        for piece in pieces:
            yield f"{'':{_INDENT}}{mark}{piece}"
            mark = "  "


def _wrapped(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def _accept(subject: Subject) -> bool:
    """Forget what was pinned and pin what is here now; the next build rebuilds what that changes.
    Also where what was pinned is what keeps the profile from opening. Whether that could be done.
    """
    try:
        settings = subject.asked().settings
    except BuildError:
        return False  # told with what is found
    pin = Path(layout_of(subject.root, subject.name, settings).build) / "host.json"
    pin.unlink(missing_ok=True)
    asked = probe.Asked(settings.python, settings.toolkit.path)
    found = probe.host(asked, pin)
    if pin.parent.is_dir():
        probe.pin(pin, asked, found)
    cards = ", ".join(f"{gpu.name} ({gpu.capability})" for gpu in found.gpus) or "no card"
    kits = ", ".join(f"CUDA {kit.version}" for kit in found.toolkits) or "no CUDA toolkit"
    show(f"accepted: {cards}, {kits}; the next doit build goes by that")
    return True
