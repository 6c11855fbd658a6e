"""Draws workloads that people roll out, scale, delete and make again, and nodes that are away meanwhile."""

import random
from typing import Final

import msgspec

from modules.lab.simulate.plan import Fault, FaultKind, RolloutStep

_KINDS: Final = ("Deployment", "Deployment", "StatefulSet", "DaemonSet", "Job")
_BOUNDS: Final = ((1, 0), (0, 1), (2, 1), (1, 1))
_BETWEEN: Final = 15.0
"""Average seconds between two changes."""
_AWAY: Final = (50.0, 120.0, 400.0, 1200.0)
"""Seconds of absences: the cloud notices after 40, and marks the pods after 340."""
_AGAIN: Final = (0.05, 1.0, 8.0)
"""Seconds until the name of a deleted workload is used again."""
_LAST: Final = 20.0
"""Seconds before the end at which all workloads are as they are to be."""


def rollouts(draw: random.Random, seconds: float) -> list[RolloutStep]:
    """Draw the changes of one workload of each kind."""
    surge, unavailable = draw.choice(_BOUNDS)
    latest: dict[str, RolloutStep] = {}
    steps: list[RolloutStep] = []

    def add(at: float, kind: str, revision: int, replicas: int) -> None:
        latest[kind] = RolloutStep(round(at, 3), kind, revision, replicas, surge, unavailable)
        steps.append(latest[kind])

    for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"):
        add(draw.uniform(0, 20.0), kind, 1, draw.randint(1, 4))
    at = 20.0 + draw.expovariate(1 / _BETWEEN)
    revision = 1
    while at < seconds - _LAST:
        kind = draw.choice(_KINDS)
        known = latest[kind]
        what = draw.random()
        if what < 0.15 or kind == "Job":  # its template and completions cannot be changed
            add(at, kind, 0, known.replicas)
            at += draw.choice(_AGAIN)
            replicas = draw.randint(1, 4)  # completions stay: a cloud that was away sees no deletion before the new Job
            add(at, kind, 1, known.replicas if kind == "Job" else replicas)
        elif what < 0.4:
            add(at, kind, known.revision, draw.randint(0, 4))
        else:
            revision += 1
            add(at, kind, revision, known.replicas)
        at += draw.expovariate(1 / _BETWEEN)
    good = 3 * revision + 1
    for kind in ("Deployment", "StatefulSet", "DaemonSet"):
        add(seconds - _LAST, kind, good, latest[kind].replicas)
    add(seconds - _LAST, "CronJob", 1, 0)
    return steps


def kept(fault: Fault) -> Fault:
    """Return a fault without the loss of all objects: nobody applies the pods of controllers again."""
    loses = fault.kind is FaultKind.CLOUD_AMNESIA
    return msgspec.structs.replace(fault, kind=FaultKind.CLOUD_RESTART) if loses else fault


def absences(draw: random.Random, nodes: int, seconds: float) -> list[Fault]:
    """Draw absences of nodes: all but one are away now and then, for as long as the run lasts at most."""
    faults = []
    for node in range(1, nodes):
        for _ in range(draw.choice((0, 1, 2))):
            at = draw.uniform(0, seconds)
            lasts = min(draw.choice(_AWAY) * draw.uniform(0.8, 1.2), seconds - at)
            faults.append(Fault(round(at, 3), FaultKind.CUT, node, round(lasts, 3)))
    return faults
