"""Decide from the available memory how many jobs may run at once and which are paused.

The memory forecast of a running job is its peak in the last build or, if this is unknown, the 90 %
quantile of the peaks of its kind. A job that exceeds its forecast gets a higher one. `overshoot` is
a reserve for jobs without a recorded peak: the largest of their forecasts. `typical` is the median
peak of the kind that needs the most:

    free = available − margin − overshoot − Σ (forecast − resident)
    jobs = running + idle + ⌊(free − idle × typical) / typical⌋

When a job ends, Ninja starts the next one before the governor can inspect it. A job that does not
fit into memory is therefore paused at its start, while it is small. At least one job always runs.

With distributed compilation, Ninja chooses the order of local and remote jobs. At most `local` jobs
run on this machine (nvcc, linkers); further ones are paused. For each paused job, Ninja may start
one more, because the next one may be remote.
"""

from tasks.core.build_activity import BuildSnapshot, GovernorDecision, Job, JobKind

# The share of the memory limit to keep free for growth between two samples, and its minimum in MiB
_MARGIN = (0.05, 128)
_MIN_SAMPLES = 5  # finished jobs of a kind that are needed to use their peaks
_DEFAULT: dict[JobKind, int] = {
    "c++": 1024,  # measured with 24 objects of ATen: killed with -j 8 in 2 GiB, not -j 2 in 1.5
    "cuda": 4608,  # flash-attention's kernels: 4.5 to 5.3 GB each
    "other": 1024,  # the few links of a debug build need more
    "remote": 128,  # preprocessing c10 needs 18 MiB; the source to send has a few MiB
}
_LIKELY, _TYPICAL = 0.9, 0.5  # quantiles for a running job and for the next job
# A job that exceeds its forecast is expected to grow to this multiple of its peak, less if it has a
# record. Growth must be predicted early, because paused jobs keep their memory. Measured on first
# builds: kills in 3 of 4 with 1.25 for both, in 3 of 7 with 2.0, in 0 with the overshoot too
_PAST_RECORD, _PAST_KIND = 1.25, 2.0
_MOMENT = 1.0  # seconds between two additional jobs while jobs without a record run
_PATIENCE = 10.0  # seconds of a pause after which the number of jobs is lowered


def decide_jobs(view: BuildSnapshot) -> GovernorDecision:
    """Return how many jobs may run at once, at least one, and which of them to pause."""
    margin = max(_MARGIN[0] * view.limit_mib, _MARGIN[1])
    # The MiB by which a job without a record may exceed its forecast
    unknown = (_estimate_peak(job, view) for job in view.running if _is_unknown(job))
    free_mib = view.available_mib - margin - max(unknown, default=0.0)
    accepted: list[Job] = []
    displaced: list[Job] = []  # jobs above the limit of local jobs
    # Unpaused jobs come before paused ones; in both groups the oldest comes first
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
    """Return how many jobs may run. `short` are the ids of jobs paused for lack of memory."""
    running = len(view.running)
    if short:
        return running - any(job.waits > _PATIENCE for job in view.running if job.pid in short)
    # The next job is unknown: assume the largest typical value among the kinds of running jobs
    kinds = {job.kind for job in view.running if job.kind != "other"} or {"c++"}
    next_mib = max(1, *(_compute_quantile(_TYPICAL, kind, view) for kind in kinds))
    additional = int((free_mib - view.idle * next_mib) // next_mib)
    if additional > 0 and any(_is_unknown(job) for job in view.running):
        additional = int(view.since_grant >= _MOMENT)
    return running + view.idle + additional


def _is_unknown(job: Job) -> bool:
    """Return True if the job runs on this machine and has no recorded memory peak."""
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
