"""Decide from memory how many jobs may run at once and which are paused.

Each running job is expected to grow to its forecast: its peak in the last build. If no peak is
recorded, the forecast is the 90 % quantile of its kind. If the job is past its forecast, the
forecast is a multiple of its peak. The margin and the possible overshoot of the largest job without
a record are subtracted as well. The rest of the available memory is free for new jobs:

    free = available − margin − overshoot − Σ (forecast − resident)
    jobs = running + idle + ⌊(free − idle × typical) / typical⌋

When a job ends, Ninja starts the next one before the governor can inspect it, even if it needs
twenty times as much memory. A job that turns out not to fit is therefore paused at its start, while
it holds little. It continues when there is enough memory: the oldest first, and at least one job
always runs.

With distributed compilation there are more jobs than local cores, and Ninja chooses their order.
Jobs that must run locally (nvcc, links) are paused if there are more than `local` of them. Each of
these allows one more job, which may be a remote one.
"""

from __future__ import annotations

from tasks.core.build_activity import BuildSnapshot, GovernorDecision, Job, JobKind

# Share of the limit that is kept free, and its minimum in MiB: for growth between two samples and
# for wrong forecasts
_MARGIN = (0.05, 128)
_MIN_SAMPLES = 5  # finished jobs of a kind before their peaks are used
_DEFAULT: dict[JobKind, int] = {
    "c++": 1024,  # 24 of ATen's objects, measured: killed with -j 8 at 2 GiB, fine with -j 2 at 1.5
    "cuda": 4608,  # flash-attention's kernels: 4.5 to 5.3 GB each
    "other": 1024,  # links of a debug build take more, and are few
    "remote": 128,  # preprocessing c10 takes 18 MiB; the source that is sent has a few MiB
}
_LIKELY, _TYPICAL = 0.9, 0.5  # quantiles: for a running job, and for the next one
# A job past its forecast is expected to grow to this multiple of its peak. Jobs with a record
# differ little from it; the others have a heavy tail. Paused jobs keep their memory, so that growth
# must be predicted early. Measured on first builds as in tests/benchmarks with other seeds: kills
# in three of four with 1.25 for both, in three of seven with 2.0, in none with the overshoot, too.
_PAST_RECORD, _PAST_KIND = 1.25, 2.0
_MOMENT = 1.0  # seconds between two additional jobs while jobs without a record run
_PATIENCE = 10.0  # seconds that a job is paused before the number of jobs is lowered


def decide_jobs(view: BuildSnapshot) -> GovernorDecision:
    """Return how many jobs may run at once, at least one, and which of them to pause."""
    margin = max(_MARGIN[0] * view.limit_mib, _MARGIN[1])
    # The MiB by which a job without a record may exceed its forecast
    unknown = (_estimate_peak(job, view) for job in view.running if _is_unknown(job))
    free_mib = view.available_mib - margin - max(unknown, default=0.0)
    accepted: list[Job] = []
    displaced: list[Job] = []  # by the limit of local jobs
    # Running jobs first, as they keep their memory; the oldest first among them and the paused ones
    for job in sorted(view.running, key=lambda job: (job.waits > 0, -job.age)):
        local_jobs = sum(one.kind != "remote" for one in accepted)
        if view.local and job.kind != "remote" and local_jobs >= view.local:
            displaced.append(job)
            continue
        growth = _estimate_growth(job, view)
        if growth <= max(0.0, free_mib) or (not accepted and not job.waits):
            accepted.append(job)
            free_mib -= growth
    if not accepted and view.running:
        accepted.append(min(view.running, key=lambda job: (_estimate_growth(job, view), -job.age)))
    paused = frozenset(job.pid for job in view.running) - {job.pid for job in accepted}
    short_of_memory = paused - {job.pid for job in displaced}
    max_jobs = view.most + min(len(displaced), view.most - view.local)
    jobs = _compute_job_count(view, free_mib, short_of_memory)
    return GovernorDecision(max(1, min(jobs, max_jobs)), paused)


def _compute_job_count(view: BuildSnapshot, free_mib: float, short: frozenset[int]) -> int:
    """Return how many jobs may run; `short` are the jobs that are paused for lack of memory."""
    running = len(view.running)
    if short:
        return running - any(job.waits > _PATIENCE for job in view.running if job.pid in short)
    # Only Ninja knows which job comes next: take the largest typical value of the running kinds
    kinds = {job.kind for job in view.running if job.kind != "other"} or {"c++"}
    next_mib = max(1, *(_compute_quantile(_TYPICAL, kind, view) for kind in kinds))
    additional = int((free_mib - view.idle * next_mib) // next_mib)
    if additional > 0 and any(_is_unknown(job) for job in view.running):
        additional = int(view.since_grant >= _MOMENT)
    return running + view.idle + additional


def _is_unknown(job: Job) -> bool:
    """Return True if the job has no recorded peak; remote jobs differ too little to need one."""
    return not job.expected_mib and job.kind != "remote"


def _estimate_growth(job: Job, view: BuildSnapshot) -> float:
    return max(0.0, _estimate_peak(job, view) - job.resident_mib)


def _estimate_peak(job: Job, view: BuildSnapshot) -> float:
    forecast = job.expected_mib or _compute_quantile(_LIKELY, job.kind, view)
    factor = _PAST_RECORD if job.expected_mib else _PAST_KIND
    return forecast if job.peak_mib <= forecast else job.peak_mib * factor


def _compute_quantile(share: float, kind: JobKind, view: BuildSnapshot) -> float:
    peaks = view.shown.get(kind, ())
    if len(peaks) < _MIN_SAMPLES:
        return _DEFAULT[kind]
    return peaks[int(share * (len(peaks) - 1))]
