"""Parse the record of a run, which may be damaged, and build its events."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tasks.core.canonical_json import convert_to_json, mask_secrets
from tasks.core.errors import InterruptedRunError, TorchyardError
from tasks.core.model import Json
from tasks.core.ninja_progress import Progress

T = TypeVar("T")


def parse_number(value: Any) -> float | None:
    """Return `value` as a float, `None` if it is not a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def parse_integer(value: Any) -> int | None:
    """Return `value` as a rounded integer, `None` if it is not a finite number."""
    return None if (number := parse_number(value)) is None else round(number)


def parse_text(value: Any) -> str:
    """Return `value` if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def parse_items(value: Any, kind: type[T]) -> tuple[T, ...]:
    """Return the items of `value` that have the type `kind`, () if `value` is not a list."""
    is_list = isinstance(value, list | tuple)
    return tuple(item for item in value if isinstance(item, kind)) if is_list else ()


def parse_mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, else {}."""
    return value if isinstance(value, dict) else {}


RECORD_SCHEMA = 1
_MESSAGE_FIELDS = ("stage", "kind", "text")
_SAMPLE_COUNTS = ("jobs", "held_back", "used_mib", "limit_mib", "done", "total")
_RESULT_FIELDS = ("outputs", "cache", "workers", "error", "diagnosis")  # JSON objects of a stage
ALWAYS_CHECKED = "looked at every time"  # the reason if a stage has no other one


@dataclass(frozen=True)
class Edge:
    """A finished Ninja edge: its output, start and end in seconds, and peak memory if known."""

    output: str
    began: float
    ended: float
    peak_mib: int | None = None
    failed: bool = False

    @property
    def name(self) -> str:
        """Return the file name of the output."""
        return re.split(r"[\\/]", self.output)[-1]

    @property
    def seconds(self) -> float:
        """Return the duration in seconds."""
        return self.ended - self.began


@dataclass(frozen=True)
class Sample:
    """The state of a stage at one time; `None` is unknown. `held_back` jobs wait for memory."""

    at: float
    jobs: int | None = None
    held_back: int | None = None
    used_mib: int | None = None
    limit_mib: int | None = None
    hit_rate: float | None = None
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class LoggedMessage:
    """A line of output. `kind` is "warn" or "say"; `stage` is "" outside of a stage."""

    at: float
    stage: str
    kind: str
    text: str


@dataclass(frozen=True)
class StageNode:
    """A stage of the plan; `after` are the stages whose manifests this stage reads."""

    name: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageRun:
    """The run of one stage.

    `outcome` is "changed", "unchanged", "skipped", "failed" or "stopped". If the record ends before
    the stage does, `outcome` is "" and `seconds` is the time until the last event of the stage.
    `outputs` is the first manifest of the stage. `cache` has the hits and misses of a compiler
    cache, `workers` the number of compilations by machine. `error` has the message, location and
    hint, `diagnosis` the JSON of `doit diagnose`. `auto_fix` describes the applied fix, if any.
    """

    name: str
    began: float
    reason: str = ""
    outcome: str = ""
    seconds: float = 0.0
    outputs: Mapping[str, Any] = field(default_factory=dict)
    cache: Mapping[str, Any] = field(default_factory=dict)
    workers: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] = field(default_factory=dict)
    diagnosis: Mapping[str, Any] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    samples: tuple[Sample, ...] = ()
    auto_fix: str = ""

    @property
    def full_reason(self) -> str:
        """Return the reason why the stage ran, followed by the automatic fix if there was one."""
        fix = f"auto-fix: {self.auto_fix}" if self.auto_fix else ""
        return "; ".join(filter(None, (self.reason, fix)))


@dataclass(frozen=True)
class Run:
    """The record of one run.

    `when` is the start in UTC, `seconds` the time until the last event. `outcome` is "done",
    "failed" or "interrupted". "" means that process `pid` was killed or still runs. `graph` has the
    stages of the plan, `stages` the stages that ran, in order of start. `unread` is the number of
    lines that could not be parsed.
    """

    when: str
    torchyard: str
    command: tuple[str, ...]
    profile: str
    pid: int
    host: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    resolution: Mapping[str, Any] = field(default_factory=dict)
    graph: tuple[StageNode, ...] = ()
    stages: tuple[StageRun, ...] = ()
    messages: tuple[LoggedMessage, ...] = ()
    outcome: str = ""
    code: int | None = None
    seconds: float = 0.0
    unread: int = 0

    @property
    def name(self) -> str:
        """Return the file name of the record without its suffix: `20261122T034027Z-123`."""
        return f"{re.sub('[-:]', '', self.when[:19])}Z-{self.pid}"

    @property
    def active_stages(self) -> tuple[StageRun, ...]:
        """Return the stages without those that were skipped or had nothing to do."""
        checked = "unchanged", ALWAYS_CHECKED
        return tuple(
            one
            for one in self.stages
            if one.outcome != "skipped"
            and (one.name == "validate" or (one.outcome, one.reason) != checked)
        )

    def find_stage(self, name: str) -> StageRun | None:
        """Return the run of the stage `name`, `None` if the stage did not run."""
        return next((one for one in self.stages if one.name == name), None)


def parse_run(lines: Iterable[str]) -> Run:
    """Parse the lines of a run record. Raises `ValueError` if the first event is not `begin`."""
    events: list[Mapping[str, Any] | None] = []
    for line in lines:
        try:
            events.append(event if isinstance(event := json.loads(line), dict) else None)
        except (ValueError, RecursionError):
            events.append(None)
    begin = events[0] if events else None
    if not begin or begin.get("event") != "begin" or begin.get("schema") != RECORD_SCHEMA:
        raise ValueError(f"this is no run record of schema {RECORD_SCHEMA}: 'begin' must be first")
    valid_events = [event for event in events[1:] if event]
    events_by_stage: dict[str, list[Mapping[str, Any]]] = {}
    for event in valid_events:
        name = parse_text(event.get("stage"))
        if name and event.get("event") in {"stage", "sample", "edges", "done"}:
            events_by_stage.setdefault(name, []).append(event)
    stages = (_parse_stage(name, found) for name, found in events_by_stage.items())
    end = next((event for event in valid_events if event.get("event") == "end"), {})
    return Run(
        when=parse_text(begin.get("when")),
        torchyard=parse_text(begin.get("torchyard")),
        command=parse_items(begin.get("command"), str),
        profile=parse_text(begin.get("profile")),
        pid=parse_integer(begin.get("pid")) or 0,
        host=parse_mapping(begin.get("host")),
        settings=parse_mapping(begin.get("asked")),
        resolution=parse_mapping(begin.get("decided")),
        graph=tuple(
            StageNode(parse_text(item.get("name")), parse_items(item.get("after"), str))
            for item in parse_items(begin.get("stages"), dict)
        ),
        stages=tuple(sorted(stages, key=lambda one: one.began)),
        messages=tuple(
            LoggedMessage(_read_time(one), *map(parse_text, map(one.get, _MESSAGE_FIELDS)))
            for one in valid_events
            if one.get("event") == "said"
        ),
        outcome=parse_text(end.get("outcome")),
        code=parse_integer(end.get("code")),
        seconds=max(map(_read_time, valid_events), default=0.0),
        unread=sum(event is None for event in events[:-1]),  # except the last: a kill truncates it
    )


def _parse_stage(name: str, events: list[Mapping[str, Any]]) -> StageRun:
    def select_events(kind: str) -> list[Mapping[str, Any]]:
        return [event for event in events if event["event"] == kind]

    nothing: list[Mapping[str, Any]] = [{}]
    done, start = (select_events("done") or nothing)[-1], (select_events("stage") or nothing)[0]
    seconds = parse_number(done.get("seconds"))
    began = _read_time(start) if start else max(0.0, _read_time(events[0]) - (seconds or 0.0))
    return StageRun(
        name=name,
        began=began,
        reason=parse_text(start.get("reason")),
        outcome=parse_text(done.get("outcome")),
        seconds=max(map(_read_time, events)) - began if seconds is None else seconds,
        edges=tuple(
            edge
            for event in select_events("edges")
            for item in parse_items(event.get("edges"), dict)
            if (edge := _parse_edge(item))
        ),
        samples=tuple(
            Sample(
                _read_time(event),
                hit_rate=parse_number(event.get("hit_rate")),
                **{name: parse_integer(event.get(name)) for name in _SAMPLE_COUNTS},
            )
            for event in select_events("sample")
        ),
        auto_fix=parse_text(done.get("auto_fix", done.get("healed"))),  # named "healed" until 0.1
        **{name: parse_mapping(done.get(name)) for name in _RESULT_FIELDS},
    )


def _parse_edge(item: Mapping[str, Any]) -> Edge | None:
    output, start, end = (item.get(name) for name in ("output", "began", "ended"))
    first, last = parse_number(start), parse_number(end)
    if not isinstance(output, str) or first is None or last is None or last < first:
        return None
    peak = parse_integer(item.get("peak_mib"))
    return Edge(output, first, last, peak, item.get("failed") is True)


def _read_time(event: Mapping[str, Any]) -> float:
    return parse_number(event.get("at")) or 0.0


_MAX_VALUE_LENGTH = 20_000  # characters; longer values are omitted


def classify_error(error: BaseException) -> tuple[str, dict[str, Json] | None]:
    """Return ("stopped", None) for an interruption, else "failed" and the error as JSON."""
    match error:
        case InterruptedRunError() | SystemExit() | KeyboardInterrupt():
            return "stopped", None
        case TorchyardError():
            return "failed", {"what": error.message, "where": error.location, "todo": error.hint}
        case OSError():
            where = str(error.filename or "")
            return "failed", {"what": str(error.strerror or error), "where": where, "todo": ""}
    return "failed", {"what": f"{type(error).__name__}: {error}", "where": "", "todo": ""}


def build_sample_event(progress: Progress) -> dict[str, Json]:
    """Return the fields of a sample event: progress and resource use, `None` for unknown values."""
    resources = progress.at_work
    return {
        "jobs": resources.jobs,
        "held_back": resources.held_back if resources.jobs is not None else None,
        "used_mib": resources.used_mib if resources.limit_mib else None,
        "limit_mib": resources.limit_mib or None,
        "hit_rate": None if resources.hit_rate is None else round(resources.hit_rate, 4),
        "done": progress.done,
        "total": progress.total,
    }


def build_edge_entry(one: Edge, started: float) -> dict[str, Json]:
    """Return an edge as JSON, with times in seconds since `started`."""
    entry: dict[str, Json] = {
        "output": one.output,
        "began": round(max(0.0, one.began - started), 3),
        "ended": round(max(0.0, one.ended - started), 3),
    }
    peak = {} if one.peak_mib is None else {"peak_mib": one.peak_mib}
    return entry | peak | ({"failed": True} if one.failed else {})


def trim_manifest(outputs: Any) -> Json:
    """Return a manifest without large values and secrets, `None` if `outputs` is not a mapping."""
    document = mask_secrets(convert_to_json(outputs))
    if not isinstance(document, dict):
        return None
    sizes = {name: len(json.dumps(value)) for name, value in document.items()}
    return {name: value for name, value in document.items() if sizes[name] <= _MAX_VALUE_LENGTH}
