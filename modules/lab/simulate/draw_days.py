"""Draws days that machines are without power, while cloudcore goes on and people roll out workloads."""

import random
from typing import Final, TypeVar

import msgspec

from modules.lab.simulate.plan import DeviceStep, Fault, FaultKind, Plan, RolloutStep, WorkloadStep, Write

DAY: Final = 86_400.0
_Step = TypeVar("_Step", DeviceStep, Fault, RolloutStep, WorkloadStep, Write)
_APART: Final = 60.0
"""Seconds within which the machines lose power, and within which they have it again."""
_RESTARTS: Final = 4
_DOWN: Final = (1.0, 600.0, 20_000.0)
"""Seconds that cloudcore is down."""


def with_days(plan: Plan, days: float) -> Plan:
    """Return a plan with some days without power in its middle, for all machines; later events are
    later by them. Machines whose clocks need a battery that they do not have start with a clock that is days behind.
    """
    draw = random.Random(f"{plan.seed} days")  # noqa: S311 - reproducible on purpose
    begin, lasts = plan.seconds * draw.uniform(0.2, 0.8), days * DAY * draw.uniform(0.5, 1.5)

    def later(steps: tuple[_Step, ...]) -> list[_Step]:
        return [msgspec.structs.replace(one, at=one.at + lasts) if one.at >= begin else one for one in steps]

    faults = later(plan.faults)
    for node in range(plan.nodes):
        wrong = draw.choice((0.0, 0.0, -lasts, 3600.0))
        at, until = begin + draw.uniform(0.0, _APART), begin + lasts - draw.uniform(0.0, _APART)
        faults.append(Fault(round(at, 3), FaultKind.POWER_OFF, node, round(until - at, 3), wrong))
    for _ in range(_RESTARTS):
        at = begin + draw.uniform(0.0, lasts)
        down = min(draw.choice(_DOWN), begin + lasts - at)
        faults.append(Fault(round(at, 3), FaultKind.CLOUD_RESTART, seconds=round(down, 3)))
    meanwhile = [
        msgspec.structs.replace(one, at=round(begin + draw.uniform(0.0, lasts), 3))
        for one in plan.rollouts
        if one.at < begin and one.revision and one.kind not in ("Job", "CronJob") and draw.random() < 0.5
    ]
    return msgspec.structs.replace(
        plan,
        seconds=plan.seconds + lasts,
        steps=tuple(later(plan.steps)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        writes=tuple(later(plan.writes)),
        devices=tuple(later(plan.devices)),
        publications=tuple(at + lasts if at >= begin else at for at in plan.publications),
        rollouts=tuple(sorted((*later(plan.rollouts), *meanwhile), key=lambda step: step.at)),
    )
