"""`doit doctor`: is everything here that this profile needs, and what is to be done where it is
not.

It looks and changes nothing; `--accept` alone pins the cards and toolkits that are here now.
Nothing is asked of the network but whether a host takes a connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.digest import canonical
from tasks.effects import probe
from tasks.effects.files import deliver
from tasks.effects.voice import show
from tasks.errors import BuildError, redact
from tasks.reports import symptoms
from tasks.reports.subject import Subject
from tasks.reports.symptoms import Symptom

_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


def run(subject: Subject, json: str = "", accept: bool = False) -> None:
    """Print a line for each thing that was looked at; `BuildError` when one of them is a
    problem.
    """
    if accept:
        _accept(subject)
    found = [*_profile(subject), *symptoms.of_machine(subject), *_of_profile(subject)]
    if json:
        document = {"profile": subject.name, "found": found}
        deliver(Path(json), redact(canonical(document)))
    for symptom in found:
        show(f"{_MARKS[symptom.level]}  {symptom.subject:<12} {symptom.text}")
        if symptom.todo:
            show(f"{'':9}{'':12} → {symptom.todo}")
    problems = [symptom for symptom in found if symptom.level == "problem"]
    if problems:
        named = ", ".join(symptom.subject for symptom in problems)
        raise BuildError(f"{len(problems)} to be mended: {named}", todo="each has its remedy above")


def _of_profile(subject: Subject) -> Iterator[Symptom]:
    return symptoms.of_profile(subject.opened) if subject.opened else iter(())


def _profile(subject: Subject) -> list[Symptom]:
    if told := subject.problem:
        text = f"{told.where}: {told.what}" if told.where else told.what
        return [Symptom("problem", "settings", text, told.todo)]
    headline = subject.opened.plan.headline if subject.opened else ()
    return [Symptom("ok", key, value) for key, value in headline]


def _accept(subject: Subject) -> None:
    """Forget what was pinned and pin what is here now; the next build rebuilds what that
    changes.
    """
    if subject.opened is None:
        return
    settings = subject.opened.loaded.settings
    pin = Path(subject.opened.layout.build) / "host.json"
    pin.unlink(missing_ok=True)
    asked = probe.Asked(settings.python, settings.toolkit.path)
    found = probe.host(asked, pin)
    if pin.parent.is_dir():
        probe.pin(pin, asked, found)
    cards = ", ".join(f"{gpu.name} ({gpu.capability})" for gpu in found.gpus) or "no card"
    show(f"accepted: {cards}; the next doit build goes by that")
