"""What the answers to a probe mean (doProbe of kubelet's prober worker). Pure."""

from typing import NamedTuple

from edged.probes.model import Outcome, ProbeKind, Timing


class History(NamedTuple):
    """The last outcome and how many times in a row it came; what could not be asked leaves no trace."""

    last: Outcome | None = None
    run: int = 0


class Judgement(NamedTuple):
    """What is known after one more answer."""

    history: History
    verdict: bool | None
    """Whether the probe passes from now on; None leaves it as it was."""
    rests: bool
    """Nothing more is asked of this container: a kubelet's `onHold`, until there is another one."""


def decide(kind: ProbeKind, timing: Timing, history: History, outcome: Outcome) -> Judgement:
    """Take one more answer into account.

    A verdict comes when as many answers in a row as the threshold says were the same. A startup probe has then done its
    work either way; a container whose liveness probe failed is about to be killed.
    """
    if outcome is Outcome.UNKNOWN:
        return Judgement(history, None, rests=False)
    run = history.run + 1 if history.last is outcome else 1
    passed = outcome is Outcome.SUCCESS
    if run < (timing.successes if passed else timing.failures):
        return Judgement(History(outcome, run), None, rests=False)
    rests = kind is ProbeKind.STARTUP or (kind is ProbeKind.LIVENESS and not passed)
    return Judgement(History(outcome, run), passed, rests)


def is_asked(kind: ProbeKind, *, started: bool, going: bool) -> bool:
    """Whether a probe of this kind is asked now.

    Args:
        kind: its kind.
        started: the container's startup probe has passed, or it has none. Until then the other probes are held back.
        going: the pod is to end. Only readiness still matters then, for those who send it requests.
    """
    if kind is ProbeKind.READINESS:
        return started
    return not going and started is (kind is ProbeKind.LIVENESS)
