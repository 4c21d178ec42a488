"""NVIDIA's driver and the GPUs that it lists. Apart from `tasks.doctor.host_facts`, because all
commands over a profile that is not pinned ask for it. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks.core.model import Gpu


@dataclass(frozen=True)
class NvidiaDriver:
    """What the driver tells. `cuda` is the newest CUDA that it knows ("13.0"). `trouble` is why
    cards cannot be asked for although there is a driver.
    """

    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    lost: int = 0
    trouble: str = ""
