"""The words of probing: which kind, what came of it, how often it is asked."""

from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from edged.api import Container, Pod
from edged.api.probes import Probe
from edged.pods.restart import is_sidecar


class ProbeKind(Enum):
    """What a probe is for; in the order in which they matter to a container that has just begun."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"


class Outcome(Enum):
    """What came of asking once."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"
    """It could not be asked; that says nothing about the container."""


class Answer(NamedTuple):
    """An outcome, and in a few words why. Never what the container itself has said: that may be a secret."""

    outcome: Outcome
    text: str = ""


class Timing(Struct, frozen=True, gc=False):
    """How a probe is asked: seconds, and answers in a row; Kubernetes' defaults stand for zeros (SetDefaults_Probe)."""

    delay: int = 0
    """After the container's start (`initialDelaySeconds`)."""
    period: int = 10
    limit: int = 1
    """For one answer (`timeoutSeconds`)."""
    successes: int = 1
    failures: int = 3

    @classmethod
    def of(cls, probe: Probe) -> "Timing":
        """The timing that a probe asks for."""
        return cls(
            delay=max(probe.initial_delay_seconds, 0),
            period=_or_default(probe.period_seconds, 10),
            limit=_or_default(probe.timeout_seconds, 1),
            successes=_or_default(probe.success_threshold, 1),
            failures=_or_default(probe.failure_threshold, 3),
        )


def probes_of(container: Container) -> dict[ProbeKind, Probe]:
    """The probes that a container has."""
    probes = {
        ProbeKind.STARTUP: container.startup_probe,
        ProbeKind.LIVENESS: container.liveness_probe,
        ProbeKind.READINESS: container.readiness_probe,
    }
    return {kind: probe for kind, probe in probes.items() if probe is not None}


def probed_containers(pod: Pod) -> tuple[Container, ...]:
    """The containers of a pod that are probed: those that stay, and have a probe.

    An init container that runs to its end is never probed (AddPod of kubelet's prober manager).
    """
    lasting = (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers)
    return tuple(c for c in lasting if c.startup_probe or c.liveness_probe or c.readiness_probe)


def _or_default(value: int, default: int) -> int:
    return value if value > 0 else default
