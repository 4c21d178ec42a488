"""How many jobs may run at once, from what memory is there and what each is going to take.

Every running job gets what it is still going to grow by: up to what it came to in the last build;
where nobody knows that, to what nine of ten of its kind came to, or twice what it has where it is
past that. What is then left of the available memory, less a margin and as much as the largest job
that nobody knows may be past its forecast by, is room:

    room = available − margin − surprise − Σ (forecast − resident)
    jobs = at work + idle + ⌊(room − idle × typical) / typical⌋

A job that ends makes way for the next of Ninja's choice before anyone can look at it, be it twenty
times as large. So a job that turns out not to fit is paused at its start, where it holds little,
and goes on when there is room: the oldest first, and never all of them.

Where other machines compile, there are more jobs than this one has cores, and Ninja alone chooses
which come next. What cannot be sent (nvcc, links) and is more than `local` is paused as well; each
of those makes room for one job more, which may be one that can be sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.core.build_activity import BuildSnapshot, GovernorDecision, Job, JobKind

# Share of the limit that is kept free, and the least of it in MiB: what jobs grow by between two
# moments, and what is not foreseen
_MARGIN = (0.05, 128)
_MIN_SAMPLES = 5  # finished jobs of a kind before what they showed is believed
_DEFAULT: dict[JobKind, int] = {
    "c++": 1024,  # 24 of ATen's objects, measured: killed with -j 8 at 2 GiB, fine with -j 2 at 1.5
    "cuda": 4608,  # flash-attention's kernels: 4.5 to 5.3 GB each
    "other": 1024,  # links of a debug build take more, and are few
    "remote": 128,  # to preprocess c10 takes 18 MiB; the source that is sent is a few MiB long
}
_LIKELY, _TYPICAL = 0.9, 0.5  # quantiles: for a job at work, and for the next one
# A job past its forecast is taken to grow to so many times what it has come to: one that was built
# before differs little, and of one that nobody knows the tail is heavy. Paused jobs keep what they
# hold, so it must be foreseen early. First builds as in tests/benchmarks with other seeds had kills
# in three of four with 1.25 for both, in three of seven with 2.0, and with a surprise in none.
_PAST_RECORD, _PAST_KIND = 1.25, 2.0
_MOMENT = 1.0  # seconds between two jobs more where some are not known
_PATIENCE = 10.0  # seconds that a job is paused before others have to make room


def decide_jobs(view: BuildSnapshot) -> GovernorDecision:
    """Jobs at once, at least one, and who of them is to be paused."""
    room = (
        view.available_mib
        - max(_MARGIN[0] * view.limit_mib, _MARGIN[1])
        - _estimate_overshoot(view)
    )
    oldest_first = sorted(view.running, key=lambda job: -job.age)
    fitting: list[Job] = []
    placeless: list[Job] = []
    for job in _order_candidates(oldest_first):
        if _is_machine_full(fitting, job, view):
            placeless.append(job)
            continue
        growth = _estimate_growth(job, view)
        if growth <= max(0.0, room) or (not fitting and not job.waits):
            fitting.append(job)
            room -= growth
    if not fitting and oldest_first:
        fitting.append(min(oldest_first, key=lambda job: _estimate_growth(job, view)))
    paused = frozenset(job.pid for job in view.running) - {job.pid for job in fitting}
    short = paused - {job.pid for job in placeless}
    most = view.most + min(len(placeless), view.most - view.local)
    return GovernorDecision(max(1, min(_compute_job_count(view, room, short), most)), paused)


def _is_machine_full(fitting: Sequence[Job], job: Job, view: BuildSnapshot) -> bool:
    """Whether this machine has no place for it beside those that work here."""
    if not view.local or job.kind == "remote":
        return False
    return sum(one.kind != "remote" for one in fitting) >= view.local


def _order_candidates(jobs: Sequence[Job]) -> Iterator[Job]:
    """Who runs has what it was given; then those that wait."""
    yield from (job for job in jobs if not job.waits)
    yield from (job for job in jobs if job.waits)


def _compute_job_count(view: BuildSnapshot, room: float, short: frozenset[int]) -> int:
    """`short` are those that are paused for want of memory."""
    at_work = len(view.running)
    if short:
        return at_work - any(job.waits > _PATIENCE for job in view.running if job.pid in short)
    each = _estimate_next_job(view)
    more = int((room - view.idle * each) // each)
    if more > 0 and any(_is_unknown(job) for job in view.running):
        more = int(view.since_grant >= _MOMENT)
    return at_work + view.idle + more


def _is_unknown(job: Job) -> bool:
    """Those that are sent differ little."""
    return not job.expected_mib and job.kind != "remote"


def _estimate_overshoot(view: BuildSnapshot) -> float:
    """MiB by which one that nobody knows may be past its forecast."""
    unknown = (_estimate_peak(job, view) for job in view.running if _is_unknown(job))
    return max(unknown, default=0.0)


def _estimate_growth(job: Job, view: BuildSnapshot) -> float:
    """MiB that it is still going to take."""
    return max(0.0, _estimate_peak(job, view) - job.resident_mib)


def _estimate_peak(job: Job, view: BuildSnapshot) -> float:
    known = job.expected_mib or _compute_quantile(_LIKELY, job.kind, view)
    past = _PAST_RECORD if job.expected_mib else _PAST_KIND
    return known if job.peak_mib <= known else job.peak_mib * past


def _estimate_next_job(view: BuildSnapshot) -> float:
    """MiB of a job that has not begun; which one, only Ninja knows."""
    kinds = {job.kind for job in view.running if job.kind != "other"} or {"c++"}
    return max(1, *(_compute_quantile(_TYPICAL, kind, view) for kind in kinds))


def _compute_quantile(share: float, kind: JobKind, view: BuildSnapshot) -> float:
    shown = view.shown.get(kind, ())
    if len(shown) < _MIN_SAMPLES:
        return _DEFAULT[kind]
    return shown[int(share * (len(shown) - 1))]
