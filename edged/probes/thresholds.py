"""When a probe passes or fails: by as many equal results in a row as its threshold requires. Pure."""

import msgspec

from edged.probes.model import ProbeKind, ProbeOutcome, ProbeTiming


class ProbeHistory(msgspec.Struct, frozen=True):
    """The last outcome and how many times in a row it came. UNKNOWN is left out."""

    last: ProbeOutcome | None = None
    result_run: int = 0


class ProbeDecision(msgspec.Struct, frozen=True):
    """The state of a probe after one more outcome."""

    history: ProbeHistory
    passes: bool | None
    """Whether the probe passes from now on; None means no change."""
    on_hold: bool
    """Whether this container is no longer probed (kubelet's `onHold`)."""


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
