"""Draws what a plan has beside a node's own people: others who write into pods and Node objects, configmaps that go and
come again, static pods, addresses that change, and the number from which the cloud counts versions.
"""

import random
from collections.abc import Sequence

from modules.simulate.plan import Fault, FaultKind, Shape, Step, Write, Writer
from modules.simulate.writers import OF_PODS

_FIRST_VERSIONS = (0, 1, 10, 100, 1000, 10_000, 2**31, 10**10)
"""Numbers shortly below which the cloud's versions begin; see `Plan.first_version` for 0."""
_SHORTLY = 150
"""Versions that a node with its pods passes in less than half of a run."""
_CONFIGS = ((Shape.CONFIGMAP, "settings"), (Shape.SECRET, "keys"))
_AWAY = (0.05, 1.0, 8.0, 40.0, 80.0)
"""Seconds for which a configmap is gone: longer than the cloud's latest answer takes, too."""
_SOON = (0.02, 0.1, 0.5, 1.5, 4.0, 10.0)
"""Seconds after a change of a pod at which somebody writes."""
_BETWEEN_WRITES = 10.0
_NODE_WRITERS = (*[Writer.NODE_LABEL] * 3, *[Writer.NODE_UNKNOWN] * 3, Writer.NODE_DELETED)
_AGAIN = (0.5, 2.0, 3.0, 6.0, 15.0)
"""Seconds after which the file of a static pod is there again: while the pod ends, and later."""


def first_version(draw: random.Random) -> int:
    """From where the cloud counts versions."""
    bound = draw.choice(_FIRST_VERSIONS)
    return bound if bound <= 1 else max(1, bound - draw.randrange(min(bound, _SHORTLY)))


def config_lives(draw: random.Random, node: int, seconds: float) -> list[Step]:
    """A configmap or a secret is deleted, and made anew."""
    steps: list[Step] = []
    for shape, name in _CONFIGS:
        if draw.random() < 0.5:
            at = draw.uniform(seconds / 6, seconds)
            back = at + draw.choice(_AWAY) * draw.uniform(0.8, 1.2)
            steps.append(Step(round(at, 3), f"{name}-{node}", shape, node, revision=0))
            steps.append(Step(round(back, 3), f"{name}-{node}", shape, node, revision=50))
    return steps


def static_pods(draw: random.Random, node: int, seconds: float) -> list[Step]:
    """On half of the nodes a file that is changed, taken away, and put back as it was."""
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
    """Now and then the node gets another address; `amount`: seconds until the cloud knows that the old one is dead."""
    times = [draw.uniform(0, seconds) for _ in range(draw.choice((0, 0, 1, 3)))]
    return [Fault(round(at, 3), FaultKind.ROAM, node, 0.0, draw.choice((0.5, 3.0, 20.0))) for at in sorted(times)]


def lost_answers(draw: random.Random, node: int, seconds: float) -> list[Fault]:
    """On a third of the nodes, what they say arrives and the answers do not, until they give the connection up."""
    times = [draw.uniform(0, seconds) for _ in range(draw.choice((0, 0, 4)))]
    return [Fault(round(at, 3), FaultKind.MUTE, node, round(draw.uniform(11.0, 30.0), 3)) for at in sorted(times)]


def flapping(draw: random.Random, node: int, seconds: float) -> list[Step]:
    """On half of the nodes, pods whose status is now this and now that."""
    names = [f"pod-{node}-flaps-{number}" for number in range(draw.choice((0, 2)))]
    return [Step(round(draw.uniform(0, seconds / 2), 3), name, Shape.CRASHES, node) for name in names]


def late_answers(draw: random.Random, node: int, seconds: float) -> list[Fault]:
    """On a third of the nodes, while pods begin, answers are long under way: what others write comes before them."""
    if draw.randrange(3):
        return []
    begin, amount = draw.uniform(0, seconds / 4), draw.choice((2.0, 20.0))
    return [Fault(round(begin, 3), FaultKind.LATE_ANSWERS, node, round(draw.uniform(30.0, 60.0), 3), amount)]


def writes(draw: random.Random, steps: Sequence[Step], seconds: float) -> tuple[Write, ...]:
    """What others write into pods: at any time, and soon after a pod was changed, when its node is to speak."""
    pods = [step for step in steps if step.name.startswith(("pod-", "init-"))]
    found = []
    for number in range(int(seconds / _BETWEEN_WRITES) if pods else 0):
        step = draw.choice(pods)
        at = step.at + draw.choice(_SOON) if draw.random() < 0.6 else draw.uniform(0, seconds)
        found.append(Write(round(at, 3), step.name, draw.choice(OF_PODS), number))
    return tuple(sorted(found, key=lambda write: write.at))


def node_writes(draw: random.Random, node: int, seconds: float) -> list[Write]:
    """What others write into the Node object of two nodes in three; now and then the same again and again, more often
    than the node puts it right at once.
    """
    writes: list[Write] = []
    for begin in [draw.uniform(0, seconds) for _ in range(draw.choice((0, 2, 4)))]:
        writer, times, pause = draw.choice(_NODE_WRITERS), draw.choice((1, 1, 6)), draw.choice(_SOON)
        moments = [begin + number * pause for number in range(times)]
        writes += [Write(round(at, 3), f"node-{node}", writer, draw.randrange(1000)) for at in moments]
    return writes


def _static(at: float, node: int, revision: int) -> Step:
    return Step(round(at, 3), f"static-{node}", Shape.STATIC, node, revision)
