"""Thresholds over a probe's results (doProbe of kubelet's prober worker). Pure."""

from typing import NamedTuple

from edged.probes.model import ProbeKind, ProbeOutcome, ProbeTiming


class ProbeHistory(NamedTuple):
    """The last outcome and how many times in a row it came. UNKNOWN is left out."""

    last: ProbeOutcome | None = None
    result_run: int = 0


class ProbeDecision(NamedTuple):
    """The state of a probe after one more outcome."""

    history: ProbeHistory
    passes: bool | None
    """Whether the probe passes from now on; None means no change."""
    on_hold: bool
    """Whether this container is not probed any more (kubelet's `onHold`)."""


def decide(kind: ProbeKind, timing: ProbeTiming, history: ProbeHistory, outcome: ProbeOutcome) -> ProbeDecision:
    """Return the state of a probe after one more outcome.

    The probe passes or fails after as many equal outcomes in a row as its threshold requires. A startup probe is then
    finished; a container whose liveness probe failed is about to be killed.
    """
    if outcome is ProbeOutcome.UNKNOWN:
        return ProbeDecision(history, None, on_hold=False)
    run = history.result_run + 1 if history.last is outcome else 1
    passed = outcome is ProbeOutcome.SUCCESS
    if run < (timing.successes if passed else timing.failures):
        return ProbeDecision(ProbeHistory(outcome, run), None, on_hold=False)
    on_hold = kind is ProbeKind.STARTUP or (kind is ProbeKind.LIVENESS and not passed)
    return ProbeDecision(ProbeHistory(outcome, run), passed, on_hold)


def is_due(kind: ProbeKind, *, started: bool, terminating: bool) -> bool:
    """Return whether a probe of this kind is made now.

    Args:
        kind: its kind.
        started: the container's startup probe has passed, or does not exist. Until then the other probes are held back.
        terminating: the pod is to end. Then only readiness still matters, to its clients.
    """
    if kind is ProbeKind.READINESS:
        return started
    return not terminating and started is (kind is ProbeKind.LIVENESS)
