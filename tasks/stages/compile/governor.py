"""How many jobs may run at once, from what memory is there and what each is going to take. Pure."""

from __future__ import annotations

from tasks.jobs import Job, Kind, Verdict, View

# Share of the limit that is kept free, and the least of it in MiB: what jobs grow by between two
# moments, and what is not foreseen
_MARGIN = (0.05, 128)
_QUANTILE = 0.9
_BASIS = 5  # finished jobs of a kind before what they showed is believed
_DEFAULT: dict[Kind, int] = {
    "c++": 1024,  # 24 ATen objects: -j 8 killed at 2 GiB, -j 2 fine at 1.5 GiB
    "cuda": 4608,  # flash-attention's kernels take 4.5 to 5.3 GB
    "other": 1024,
}
_GROWING = 1.25  # of what a job that nobody knows has come to
_MOMENT = 1.0  # seconds between two jobs more while there are such


def decide(view: View) -> Verdict:
    margin = max(_MARGIN[0] * view.limit_mib, _MARGIN[1])
    room = view.available_mib - margin - sum(_growth(job, view) for job in view.running)
    each = _next(view)
    now = len(view.running) + view.idle
    free = room - view.idle * each
    jobs = now + int(free // each)
    if jobs > now and (any(not job.expected_mib for job in view.running)):
        jobs = now + (view.since_grant >= _MOMENT)
    return Verdict(max(1, min(jobs, view.most)))


def _growth(job: Job, view: View) -> float:
    return max(0.0, _forecast(job, view) - job.resident_mib)


def _forecast(job: Job, view: View) -> float:
    if job.expected_mib:
        return max(job.expected_mib, job.peak_mib)
    guess = _typical(job.kind, view)
    return guess if job.peak_mib < guess else job.peak_mib * _GROWING


def _next(view: View) -> float:
    kinds = {job.kind for job in view.running if job.kind != "other"} or {"c++"}
    return max(1, *(_typical(kind, view) for kind in kinds))


def _typical(kind: Kind, view: View) -> float:
    shown = view.shown.get(kind, ())
    if len(shown) < _BASIS:
        return _DEFAULT[kind]
    return sorted(shown)[int(_QUANTILE * (len(shown) - 1))]
