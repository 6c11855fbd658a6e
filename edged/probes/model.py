"""Kinds, results and timing of probes."""

from enum import Enum

import msgspec
from msgspec import Struct

from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Container, Pod
from modules.apimachinery.types.probes import Probe


class ProbeKind(Enum):
    """The three kinds of probes, in the order that matters to a new container."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"


class ProbeOutcome(Enum):
    """The outcome of one probe."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"
    """The probe could not be made, so the container's health is unknown."""


class ProbeResult(msgspec.Struct, frozen=True):
    """An outcome and a short reason. The reason never has output of the container, which may be a secret."""

    outcome: ProbeOutcome
    text: str = ""
    warns: bool = False
    """Whether a success has a reason that somebody should know (kubelet's `Warning`)."""


ProbeCounts = dict[tuple[str, ProbeKind, ProbeOutcome], int]
"""How often the probes of a pod had an outcome, by container, kind and outcome."""


class ProbeTiming(Struct, frozen=True, gc=False):
    """Times at which a probe is made. Zeros become Kubernetes' defaults (SetDefaults_Probe)."""

    delay: int = 0
    """Seconds after the container's start (`initialDelaySeconds`)."""
    period: int = 10
    """Seconds (`periodSeconds`)."""
    limit: int = 1
    """Seconds for one probe (`timeoutSeconds`)."""
    successes: int = 1
    """Successes in a row until it passes (`successThreshold`)."""
    failures: int = 3
    """Failures in a row until it fails (`failureThreshold`)."""

    @classmethod
    def of(cls, probe: Probe) -> "ProbeTiming":
        """Return the timing of a probe."""
        return cls(
            delay=max(probe.initial_delay_seconds, 0),
            period=_or_default(probe.period_seconds, 10),
            limit=_or_default(probe.timeout_seconds, 1),
            successes=_or_default(probe.success_threshold, 1),
            failures=_or_default(probe.failure_threshold, 3),
        )


def probes_of(container: Container) -> dict[ProbeKind, Probe]:
    """Return the probes of a container."""
    probes = {
        ProbeKind.STARTUP: container.startup_probe,
        ProbeKind.LIVENESS: container.liveness_probe,
        ProbeKind.READINESS: container.readiness_probe,
    }
    return {kind: probe for kind, probe in probes.items() if probe is not None}


def probed_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the regular containers and sidecars that have a probe.

    An ordinary init container is never probed (AddPod of kubelet's prober manager).
    """
    lasting = (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers)
    return tuple(c for c in lasting if c.startup_probe or c.liveness_probe or c.readiness_probe)


def _or_default(value: int, default: int) -> int:
    return value if value > 0 else default
