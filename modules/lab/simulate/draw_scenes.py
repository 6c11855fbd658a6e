"""Draws scenes: combinations of changes and faults that are unlikely to coincide if drawn independently."""

import random
from collections.abc import Callable, Collection
from typing import NamedTuple

from modules.lab.simulate.plan import Fault, FaultKind, Shape, WorkloadStep, Write, Writer
from modules.lab.simulate.probe_watch import PROBED

_SHORTEST = 100.0
"""Shortest run with a scene, in seconds."""
_UNTIL_ENDED = 20.0
"""Seconds until a failing pod has ended and its status is reported."""
_PREFIXES = {Shape.INIT: "init", Shape.PROBED: PROBED}
"""Beginnings of the names of pods about which more is checked."""
_CRASHES = (
    (Shape.PLAIN, "run_pod_sandbox"),
    (Shape.INIT, "create_container init-2"),
    (Shape.INIT, "create_container main"),
    (Shape.INIT, "start_container main"),
    (Shape.CRASHES, "create_container main"),
    (Shape.CRASHES, "start_container main"),
    (Shape.CRASHES, "remove_container main"),
    (Shape.PROBED, "stop_container main"),
    (Shape.PROBED, "start_container main"),
    (Shape.TWO, "start_container side"),
)
"""Pods, and the calls that their agent is killed at."""
_OF_STATUS = (Writer.NODE_LOST, Writer.NOT_READY, Writer.ADDRESS)


class Scene(NamedTuple):
    """Steps, faults and writes of a scene, in addition to all others."""

    steps: tuple[WorkloadStep, ...] = ()
    faults: tuple[Fault, ...] = ()
    writes: tuple[Write, ...] = ()


def scene(draw: random.Random, node: int, seconds: float, kinds: Collection[FaultKind]) -> Scene:
    """Draw a scene for one node in two; `kinds` are the faults of the profile."""
    chosen, needs = draw.choice(_SCENES)
    begin = draw.uniform(0, seconds - _SHORTEST) if seconds > _SHORTEST else -1.0
    if begin < 0 or draw.random() < 0.5 or not needs <= set(kinds):
        return Scene()
    return chosen(draw, node, begin)


def crash(draw: random.Random, node: int, seconds: float, kinds: Collection[FaultKind]) -> Scene:
    """Draw, for one node in two, a kill of the agent at a certain call about a pod of its own, or a reboot there; the
    clock may be set back meanwhile.
    """
    begin = draw.uniform(0, seconds - _SHORTEST) if seconds > _SHORTEST else -1.0
    shape, call = draw.choice(_CRASHES)
    reboots, jump, late = draw.random() < 0.5, draw.choice((0.0, 0.0, -3600.0)), draw.choice((0.0, 15.0))
    if begin < 0 or draw.random() < 0.5 or FaultKind.KILL not in kinds:
        return Scene()
    name = f"{_PREFIXES.get(shape, 'pod')}-{node}-killed"
    made = WorkloadStep(round(begin, 3), name, shape, node)
    kind = FaultKind.REBOOT_AT_CALL if reboots else FaultKind.KILL_AT_CALL
    trap = Fault(round(begin + late, 3), kind, node, 40.0, jump if reboots else 0.0, call, name)
    ends = Fault(round(begin + late, 3), FaultKind.PROBES_DEAD, node, 20.0)
    return Scene((made,), (trap, ends) if shape is Shape.PROBED and late else (trap,))


def _deleted_meanwhile(draw: random.Random, node: int, begin: float) -> Scene:
    """A pod that has ended is deleted while its node is disconnected."""
    name, away = f"pod-{node}-meanwhile", begin + draw.uniform(_UNTIL_ENDED, 40.0)
    cut = Fault(round(away, 3), FaultKind.CUT, node, round(draw.uniform(6.0, 30.0), 3))
    return Scene(_life(node, name, begin, away + draw.uniform(0.5, cut.seconds)), (cut,))


def _deleted_while_asked_for(draw: random.Random, node: int, begin: float) -> Scene:
    """A node that has lost its store asks for the pods that it runs, and one of them is deleted before the answer
    arrives.
    """
    name, lost = f"pod-{node}-asked-for", begin + draw.uniform(_UNTIL_ENDED, 30.0)
    faults = (
        Fault(round(lost - 1.0, 3), FaultKind.DELAY, node, 40.0, 3.0),
        Fault(round(lost - 0.5, 3), FaultKind.LATE_ANSWERS, node, 60.0, 20.0),
        Fault(round(lost, 3), FaultKind.STORE_LOST, node),
    )
    return Scene(_life(node, name, begin, lost + draw.uniform(12.0, 22.0)), faults)


def _written_meanwhile(draw: random.Random, node: int, begin: float) -> Scene:
    """Other writers change pods' statuses while the answers to the node's patches are under way."""
    names = [f"pod-{node}-written-{number}" for number in range(3)]
    late = Fault(round(begin, 3), FaultKind.LATE_ANSWERS, node, 40.0, 20.0)
    steps = [WorkloadStep(round(begin + draw.uniform(0.5, 5.0), 3), name, Shape.PLAIN, node) for name in names]
    writes = [
        Write(round(step.at + draw.uniform(2.0, 6.0), 3), step.name, draw.choice(_OF_STATUS), draw.randrange(1000))
        for step in steps
    ]
    return Scene(tuple(steps), (late,), tuple(writes))


def _life(node: int, name: str, begin: float, end: float) -> tuple[WorkloadStep, WorkloadStep]:
    made = WorkloadStep(round(begin, 3), name, Shape.FAILS_ONCE, node)
    return made, WorkloadStep(round(end, 3), name, Shape.FAILS_ONCE, node, revision=0)


_SCENES: tuple[tuple[Callable[[random.Random, int, float], Scene], frozenset[FaultKind]], ...] = (
    (_deleted_meanwhile, frozenset({FaultKind.CUT})),
    (_deleted_while_asked_for, frozenset({FaultKind.DELAY, FaultKind.LATE_ANSWERS, FaultKind.STORE_LOST})),
    (_written_meanwhile, frozenset({FaultKind.LATE_ANSWERS})),
)
"""Each scene with the faults that it needs."""
