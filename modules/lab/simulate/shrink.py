"""Shrinks a failing plan: drops faults, then other writers' changes, then workload changes, then events of devices, as
long as it still fails.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from modules.lab.simulate.plan import Plan

T = TypeVar("T")

Fails = Callable[[Plan], bool]
"""Executes a plan and returns whether it fails like the original."""


def shrink(plan: Plan, fails: Fails, tries: int = 200) -> Plan:
    """Return the plan without the parts that it does not need to fail. No remaining part can be left out singly, unless
    the tries ran out.

    Args:
        plan: a failing plan.
        fails: whether a plan fails in the same way.
        tries: highest number of runs.
    """
    budget = _Budget(fails, tries)
    faults = _needed(plan.faults, lambda some: budget.fails(msgspec.structs.replace(plan, faults=tuple(some))))
    plan = msgspec.structs.replace(plan, faults=tuple(faults))
    writes = _needed(plan.writes, lambda some: budget.fails(msgspec.structs.replace(plan, writes=tuple(some))))
    plan = msgspec.structs.replace(plan, writes=tuple(writes))
    steps = _needed(plan.steps, lambda some: budget.fails(msgspec.structs.replace(plan, steps=tuple(some))))
    plan = msgspec.structs.replace(plan, steps=tuple(steps))
    devices = _needed(plan.devices, lambda some: budget.fails(msgspec.structs.replace(plan, devices=tuple(some))))
    return msgspec.structs.replace(plan, devices=tuple(devices))


class _Budget:
    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails = fails
        self._left = tries

    def fails(self, plan: Plan) -> bool:
        self._left -= 1
        return self._left >= 0 and self._fails(plan)


def _needed(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Drop ever smaller parts while it still fails (Zeller's delta debugging)."""
    parts = 2
    while items:
        size = max(1, len(items) // parts)
        for begin in range(0, len(items), size):
            rest = [*items[:begin], *items[begin + size :]]
            if fails(rest):
                items = rest
                parts = max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(items), parts * 2)
    return items
