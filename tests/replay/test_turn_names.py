"""The turns of the modules that are replayed, one by one: each is known by its name and the beginning of its work, or
comes from one thread, or is the same as those that it could change places with.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from unittest import mock

from greenlet import getcurrent, greenlet

from beehive import Module
from edged.cri.contract import ContainerId
from edged.events import EventType, Occurrence
from edged.events.model import turn_of_event
from edged.probes.model import ProbeKind
from edged.probes.runner import ProbeAttempt
from edged.probes.targets import ExecTarget
from edged.probes.worker_pool import turn_of
from modules.apimachinery.types import Nanoseconds
from modules.apimachinery.types.meta import ObjectReference
from modules.lab.simulate.plan import Plan, Shape, WorkloadStep
from modules.lab.simulate.run import run_plan
from tests.end_to_end.processes import REPOSITORY

_AT_ONCE: Final = 0.5
"""Virtual seconds within which threads of a real machine may come in another order."""

NAMED: Final[dict[str, tuple[str, ...]]] = {
    "edged/housekeeping.py": ("PRESSURES",),
    "edged/probes/worker_pool.py": ("turn_of(message.attempt)",),
    "edged/sync/assembly.py": ("turn_of_event(occurrence)",),
    "edged/sync/loop.py": ("name",),
    "edgehub/module.py": ("'link up'", "'confirmed'", "'link down'", "'answered'"),
    "edgehub/network/guard.py": ("'network'",),
    "edgehub/outbox/manager.py": ("WRITTEN",),
}
"""Turns by the files that make them. Those of edgehub, and of pressures, come from one thread each, in its order."""
UNNAMED: Final = {
    "edged/devices/node_devices.py": 2,
    "edged/volume_manager.py": 2,
    "edgehub/module.py": 1,
    "metamanager/module.py": 1,
}
"""Turns without a name, by file: what device plug-ins, volumes' sizes and storage drivers say is in no trace, a renewed
certificate is for the next connection, and metamanager calls itself: a replay ends its batches.
"""
SAME: Final = frozenset({"PodHealthChanged", "PluginsChanged"})
"""Turns of several threads that tell nothing but their name, so that one is as good as the other."""


def _calls(file: Path) -> Iterator[ast.Call]:
    """Yield the calls of `call_soon` in a file."""
    text = file.read_text()
    for node in ast.walk(ast.parse(text)) if "call_soon(" in text else ():
        if isinstance(node, ast.Call) and (
            (isinstance(node.func, ast.Attribute) and node.func.attr == "call_soon")
            or (isinstance(node.func, ast.Name) and node.func.id == "call_soon")
        ):
            yield node


def test_each_turn_of_a_replayed_module_is_in_the_table() -> None:
    """A turn without a name takes place when it does: a replay does not know when it was."""
    named, unnamed = defaultdict[str, list[str]](list), Counter[str]()
    for package in ("edged", "edgehub", "metamanager", "modules/edge/devicetwin"):
        for file in sorted((REPOSITORY / package).rglob("*.py")):
            path = str(file.relative_to(REPOSITORY))
            for call in sorted(_calls(file), key=lambda call: call.lineno):
                if len(call.args) > 1:
                    named[path].append(ast.unparse(call.args[1]))
                else:
                    unnamed[path] += 1
    assert {path: tuple(names) for path, names in named.items()} == NAMED
    assert unnamed == UNNAMED


PLAN: Final = Plan(
    seed=7,
    nodes=1,
    seconds=12.0,
    steps=(
        *(WorkloadStep(1.0, f"pod-{number}", Shape.PLAIN) for number in range(4)),
        WorkloadStep(1.0, "two", Shape.TWO),
        WorkloadStep(1.0, "crashes", Shape.CRASHES),
        WorkloadStep(5.0, "two", Shape.TWO, revision=0),
        *(WorkloadStep(5.0, f"pod-{number}", Shape.PLAIN, revision=0) for number in range(2)),
    ),
    faults=(),
)
"""Pods that come and go at once."""


def test_threads_at_once_have_no_turn_of_one_name() -> None:
    """A real machine takes them in either order, and a replay would exchange their results."""
    given = defaultdict[tuple[Any, ...], list[tuple[float, greenlet]]](list)
    call_soon = Module.call_soon

    def noting(module: Module, function: Any, name: str = "", since: float | None = None) -> None:
        given[module, name, since].append((module.clock.monotonic(), getcurrent()))
        call_soon(module, function, name, since)

    with mock.patch.object(Module, "call_soon", noting):
        run_plan(PLAN, converge=False)
    found = {
        name.split(" ")[0]
        for (_, name, _), calls in given.items()
        for (time, thread), (later, other) in pairwise(calls)
        if name and thread is not other and later - time < _AT_ONCE
    }
    kinds = {name.split(" ")[0] for _, name, _ in given}
    assert {"Killing", "synced", "inspected", "confirmed"} <= kinds
    assert found <= SAME


def test_what_a_pod_or_container_has_several_of_is_told_apart() -> None:
    """Containers of a pod are stopped at once, and a container's probes are made at once, by threads of their own."""
    events = {
        turn_of_event(
            Occurrence(ObjectReference(uid="u", field_path=path), EventType.WARNING, reason, "", Nanoseconds(0))
        )
        for path in ("spec.containers{a}", "spec.containers{b}", "")
        for reason in ("FailedPreStopHook", "Killing")
    }
    assert len(events) == 6
    attempts = (
        ProbeAttempt(kind, ContainerId(name), ExecTarget(("true",)), 1) for kind in ProbeKind for name in ("c", "d")
    )
    assert len({turn_of(attempt) for attempt in attempts}) == 6
