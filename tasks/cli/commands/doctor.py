"""`doit doctor`: what could stop this profile on this machine, before anything is built.

It looks and changes nothing; `--accept` alone pins the cards and toolkits that are here now.
Nothing is asked of the network but whether a host takes a connection. `gate` is the part that costs
some milliseconds, which a build looks at before it writes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tasks.cli.commands.table import table
from tasks.core.check_ids import ALL, GATE, CheckId
from tasks.core.digest import canonical
from tasks.core.errors import BuildError, redact
from tasks.core.model import Host
from tasks.doctor.ask import ask
from tasks.doctor.judging import judge
from tasks.doctor.probes import look
from tasks.doctor.symptom import Level, Symptom, ok, problem
from tasks.knowledge import load
from tasks.lock.profile import Subject
from tasks.planning.plan import layout_of
from tasks.system import tty
from tasks.system.files import deliver
from tasks.system.hardware import probe
from tasks.system.typed import for_profile
from tasks.system.voice import show, warn

_WIDEST = 120
_FIRM: frozenset[CheckId] = frozenset({"compiler", "git"})  # without them the stages go no further


def run(subject: Subject, json: str = "", accept: bool = False) -> None:
    """Print a line for each thing that was looked at; `BuildError` when one of them is a
    problem.
    """
    if accept and _accept(subject) and not subject.opened:
        again = for_profile("look again with doit doctor", subject.name)
        show(f"{subject.name} did not open with what was pinned: {again}")
        return
    found = diagnose(subject)
    problems, told = _of(found, "problem"), _counted(found)
    if json:
        document = {"profile": subject.name, "found": found, "problems": len(problems)}
        deliver(Path(json), redact(canonical(document)))
    for line in table(found, tty.width(_WIDEST)):
        show(line)
    if problems:
        raise BuildError(told, todo="each has its remedy above")
    warnings = len(_of(found, "warning"))
    some = f"{warnings or 'no'} warning{'s' * (warnings != 1)}"
    show("; ".join(filter(None, ("nothing would stop this build", some, told))))


def gate(subject: Subject) -> None:
    """What a build asks before its first stage. Raises `BuildError` that lists the problems."""
    found = diagnose(subject, GATE)
    _refuse(found)
    _warn(subject, found)


def refuse_known_bad(subject: Subject) -> None:
    """Raise the same `BuildError` as `gate` for a combination that is known not to work."""
    _refuse(diagnose(subject, frozenset({"known-bad"})))


def _refuse(found: tuple[Symptom, ...]) -> None:
    problems = _of(found, "problem")
    if not problems:
        return
    told = "\n".join(_told(symptom) for symptom in problems)
    names = dict.fromkeys(symptom.id for symptom in (*_of(found, "ignored"), *problems))
    todo = "mend that (doit doctor looks again)"
    if not _FIRM & {symptom.id for symptom in problems}:
        todo += f", or build all the same with doctor.ignore: [{', '.join(names)}]"
        todo += " in config/local.yaml"
    raise BuildError(f"{_counted(found)}; nothing was built or changed\n{told}", todo=todo)


def _warn(subject: Subject, found: Iterable[Symptom]) -> None:
    """Of what else would be known only when torch is there, after gigabytes or hours."""
    ignored = subject.opened.loaded.settings.doctor.ignore if subject.opened else ()
    for symptom in _of(found, "warning"):
        if symptom.id == "submodules" and symptom.id not in ignored:
            warn(_told(symptom).strip())


def diagnose(subject: Subject, wanted: frozenset[CheckId] = ALL) -> tuple[Symptom, ...]:
    """What the wanted checks say; a problem that doctor.ignore names is no longer one."""
    profile = subject.opened
    host = profile.host if profile else _host(subject)
    knowledge = profile.knowledge if profile else load(subject.root / "config" / "knowledge")
    seen = look(ask(subject.root, host, profile), wanted)
    found = [*_settings(subject, wanted), *judge(seen, profile, knowledge, wanted)]
    ignored = profile.loaded.settings.doctor.ignore if profile else ()
    named = [replace(symptom, todo=for_profile(symptom.todo, subject.name)) for symptom in found]
    return tuple(
        replace(symptom, level="ignored")
        if symptom.level == "problem" and symptom.id in ignored
        else symptom
        for symptom in named
    )


def _host(subject: Subject) -> Host:
    """Of a profile that does not open nothing is known, and nothing pinned."""
    return probe.host(probe.Asked("auto", None), subject.root / "build" / "host.json")


def _settings(subject: Subject, wanted: frozenset[CheckId]) -> Iterator[Symptom]:
    if "settings" not in wanted:
        return
    if told := subject.problem:
        text = f"{told.where}: {told.what}" if told.where else told.what
        todo = told.todo or f"see what came out of which file: doit settings profile={subject.name}"
        yield problem("settings", text, todo)
    for key, value in subject.opened.plan.headline if subject.opened else ():
        yield ok("settings", value if key == "profile" else f"{key}: {value}", key)


def _of(found: Iterable[Symptom], level: Level) -> list[Symptom]:
    return [symptom for symptom in found if symptom.level == level]


def _counted(found: Collection[Symptom]) -> str:
    """`2 problems: compiler, disk; 1 ignored: memory`, or what there is of it."""
    problems = _of(found, "problem")
    told = (
        _named(problems, "problem" + "s" * (len(problems) > 1)),
        _named(_of(found, "ignored"), "ignored"),
    )
    return "; ".join(filter(None, told))


def _named(symptoms: Collection[Symptom], what: str) -> str:
    ids = ", ".join(dict.fromkeys(symptom.id for symptom in symptoms))
    return f"{len(symptoms)} {what}: {ids}" if symptoms else ""


def _told(symptom: Symptom) -> str:
    first, *more = symptom.todo.splitlines() or [""]
    rest = "".join(f"\n      {line}" for line in more)
    return f"  {symptom.id}: {symptom.seen}\n    → {first.strip()}{rest}"


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
    goes_by = for_profile("the next doit build goes by that", subject.name)
    show(f"accepted: {cards}, {kits}; {goes_by}")
    return True
