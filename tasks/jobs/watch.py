"""Looks at a build at work: its jobs, memory, the compiler cache, and what took long so far.

A look costs some milliseconds: it is meant for once a second, not for each line of a build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from tasks.core.atwork import BuildActivity, find_heavy_jobs, find_slowest_outputs
from tasks.jobs.jobserver import Jobserver
from tasks.system.hardware import memory


@dataclass(frozen=True)
class ProgressMonitor:
    """`hit_rate` tells the cache's as far as it is known, `took` seconds by output made so far."""

    hit_rate: Callable[[], float | None] = lambda: None
    took: Callable[[], Mapping[str, float]] = dict

    def read_activity(self, pool: Jobserver | None) -> BuildActivity:
        """What is at work now, in `pool` where the build has one."""
        there = memory.measure_memory(_read_memory_groups())
        return BuildActivity(
            jobs=pool.in_use if pool else None,
            held_back=pool.withheld_jobs if pool else 0,
            used_mib=there.limit_mib - there.available_mib,
            limit_mib=there.limit_mib,
            hit_rate=self.hit_rate(),
            heavy=find_heavy_jobs(pool.at_work if pool else ()),
            slowest=find_slowest_outputs(self.took()),
            paused=sum(job.waits > 0 for job in pool.at_work) if pool else 0,
        )


_read_memory_groups = cache(
    memory.find_control_groups
)  # they stay the same as long as a process lives
