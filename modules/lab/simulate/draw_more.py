"""Draws the rest of a plan: other writers, configmaps that are deleted and created again, static pods, changes of
address, and the first resourceVersion.
"""

import random
from collections.abc import Sequence

from modules.lab.simulate.plan import Fault, FaultKind, Shape, WorkloadStep, Write, Writer
from modules.lab.simulate.probe_watch import PROBED
from modules.lab.simulate.writers import OF_PODS

_FIRST_VERSIONS = (0, 1, 10, 100, 1000, 10_000, 2**31, 10**10)
"""The cloud's versions begin shortly below one of these numbers; for 0 see `Plan.first_version`."""
_SHORTLY = 150
"""Versions that a node with its pods uses up in less than half of a run."""
_CONFIGS = ((Shape.CONFIGMAP, "settings"), (Shape.SECRET, "keys"))
_AWAY = (0.05, 1.0, 8.0, 40.0, 80.0)
"""Seconds during which a configmap is deleted; some are longer than the cloud's latest answer."""
_SOON = (0.02, 0.1, 0.5, 1.5, 4.0, 10.0)
"""Seconds between a change of a pod and a write of another writer."""
_BETWEEN_WRITES = 10.0
_NODE_WRITERS = (*[Writer.NODE_LABEL] * 3, *[Writer.NODE_UNKNOWN] * 3, Writer.NODE_DELETED)
_AGAIN = (0.5, 2.0, 3.0, 6.0, 15.0)
"""Seconds until the file of a static pod is restored: while the pod terminates, and later."""


def first_version(draw: random.Random) -> int:
    """Draw the cloud's first resourceVersion."""
    bound = draw.choice(_FIRST_VERSIONS)
    return bound if bound <= 1 else max(1, bound - draw.randrange(min(bound, _SHORTLY)))


def config_lifetimes(draw: random.Random, node: int, seconds: float) -> list[WorkloadStep]:
    """Draw the deletion of a configmap or a secret, and its re-creation."""
    steps: list[WorkloadStep] = []
    for shape, name in _CONFIGS:
        if draw.random() < 0.5:
            at = draw.uniform(seconds / 6, seconds)
            back = at + draw.choice(_AWAY) * draw.uniform(0.8, 1.2)
            steps.append(WorkloadStep(round(at, 3), f"{name}-{node}", shape, node, revision=0))
            steps.append(WorkloadStep(round(back, 3), f"{name}-{node}", shape, node, revision=50))
    return steps


def static_pods(draw: random.Random, node: int, seconds: float) -> list[WorkloadStep]:
    """Draw, on half of the nodes, changes, removals and restorations of a static pod's file."""
    if draw.random() < 0.5:
        return []
    at, revision = draw.uniform(0, seconds / 3), 1
    steps = [_static(at, node, revision)]
    for _ in range(draw.randint(1, 4)):
        at += draw.uniform(4.0, seconds / 4)
        if draw.random() < 0.6:
            steps.append(_static(at, node, 0))
            at += draw.choice(_AGAIN)
        revision = draw.choice((revision, revision + 1))
        steps.append(_static(at, node, revision))
    return steps


def roaming(draw: random.Random, node: int, seconds: float) -> list[Fault]:
    """Draw changes of the node's address; `amount` is the time in seconds until the cloud notices that the old one is
    dead.
    """
    times = [draw.uniform(0, seconds) for _ in range(draw.choice((0, 0, 1, 3)))]
    return [Fault(round(at, 3), FaultKind.ROAM, node, 0.0, draw.choice((0.5, 3.0, 20.0))) for at in sorted(times)]


def lost_answers(draw: random.Random, node: int, seconds: float) -> list[Fault]:
    """Draw, on a third of the nodes, times when messages arrive and answers do not, until the node closes the
    connection.
    """
    times = [draw.uniform(0, seconds) for _ in range(draw.choice((0, 0, 4)))]
    return [Fault(round(at, 3), FaultKind.MUTE, node, round(draw.uniform(11.0, 30.0), 3)) for at in sorted(times)]


def database_faults(draw: random.Random, seconds: float) -> list[Fault]:
    """Draw, for half of the runs, times when the database of cloudcore fails."""
    found = []
    for _ in range(draw.choice((0, 0, 1, 3))):
        kind = draw.choice((FaultKind.DATABASE_FAILS, FaultKind.DATABASE_LOSES_ANSWERS))
        at, lasts = (
            round(draw.uniform(0, seconds), 3),
            round(draw.choice((1.0, 10.0, 40.0)) * draw.uniform(0.5, 1.5), 3),
        )
        found.append(Fault(at, kind, 0, lasts, draw.choice((0.1, 0.5, 1.0))))
    return found


def lockouts(draw: random.Random, nodes: int, seconds: float) -> list[Fault]:
    """Draw, for most nodes, times when an administrator locks the node out; with an `amount` it joins anew with another
    key after that.
    """
    faults: list[Fault] = []
    for node in range(nodes):
        at = draw.uniform(0, seconds)
        while at < seconds:
            lasts, amount = draw.choice((0.5, 5.0, 30.0, 90.0)) * draw.uniform(0.5, 1.5), draw.choice((0.0, 0.0, 1.0))
            faults.append(Fault(round(at, 3), FaultKind.LOCKED_OUT, node, round(lasts, 3), amount))
            at += lasts + draw.uniform(1.0, seconds)
    return faults


def flapping(draw: random.Random, node: int, seconds: float) -> list[WorkloadStep]:
    """Draw, on half of the nodes, pods whose status keeps changing."""
    names = [f"pod-{node}-flaps-{number}" for number in range(draw.choice((0, 2)))]
    return [WorkloadStep(round(draw.uniform(0, seconds / 2), 3), name, Shape.CRASHES, node) for name in names]


def probed_pods(
    draw: random.Random, node: int, seconds: float, *, fail: bool
) -> tuple[list[WorkloadStep], list[Fault]]:
    """Draw, on half of the nodes, a pod with probes and, with `fail`, times when they fail."""
    begin, times = draw.uniform(0, seconds / 4), draw.choice((1, 2, 4))
    if draw.random() < 0.5:
        return [], []
    faults = [
        Fault(
            round(draw.uniform(begin, seconds), 3),
            draw.choice((FaultKind.PROBES_UNREADY, FaultKind.PROBES_DEAD)),
            node,
            draw.choice((3.0, 12.0)),
        )
        for _ in range(times)
    ]
    return [WorkloadStep(round(begin, 3), f"{PROBED}-{node}", Shape.PROBED, node)], faults if fail else []


def late_answers(draw: random.Random, node: int, seconds: float) -> list[Fault]:
    """Draw, on a third of the nodes, a period of late answers while pods are created: other writers' changes overtake
    them.
    """
    if draw.randrange(3):
        return []
    begin, amount = draw.uniform(0, seconds / 4), draw.choice((2.0, 20.0))
    return [Fault(round(begin, 3), FaultKind.LATE_ANSWERS, node, round(draw.uniform(30.0, 60.0), 3), amount)]


def writes(draw: random.Random, steps: Sequence[WorkloadStep], seconds: float) -> tuple[Write, ...]:
    """Draw other writers' changes of pods: at any time, and soon after a pod's change, when its node is about to
    report.
    """
    pods = [step for step in steps if step.name.startswith(("pod-", "init-"))]
    found = []
    for number in range(int(seconds / _BETWEEN_WRITES) if pods else 0):
        step = draw.choice(pods)
        at = step.at + draw.choice(_SOON) if draw.random() < 0.6 else draw.uniform(0, seconds)
        found.append(Write(round(at, 3), step.name, draw.choice(OF_PODS), number))
    return tuple(sorted(found, key=lambda write: write.at))


def node_writes(draw: random.Random, node: int, seconds: float) -> list[Write]:
    """Draw other writers' changes of the Node object, on two nodes in three. Some are repeated, more often than the
    node corrects them immediately.
    """
    writes: list[Write] = []
    for begin in [draw.uniform(0, seconds) for _ in range(draw.choice((0, 2, 4)))]:
        writer, times, pause = draw.choice(_NODE_WRITERS), draw.choice((1, 1, 6)), draw.choice(_SOON)
        moments = [begin + number * pause for number in range(times)]
        writes += [Write(round(at, 3), f"node-{node}", writer, draw.randrange(1000)) for at in moments]
    return writes


def _static(at: float, node: int, revision: int) -> WorkloadStep:
    return WorkloadStep(round(at, 3), f"static-{node}", Shape.STATIC, node, revision)
