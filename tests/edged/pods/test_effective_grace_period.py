"""The grace period: which of several counts, and its bounds."""

from typing import Any

import pytest

from edged.pods.effective_grace_period import grace_seconds
from edged.pods.unhealthy import KillReason
from modules.apimachinery.types import Container, Probe
from tests.edged.pods.builders import a_container, a_pod

PLAIN = a_container("plain")
PROBED = a_container(
    "probed",
    liveness_probe=Probe(termination_grace_period_seconds=3),
    startup_probe=Probe(termination_grace_period_seconds=0),
)


@pytest.mark.parametrize(
    ("spec", "deletion", "grace"),
    [
        ({}, {}, 30),
        ({"termination_grace_period_seconds": 5}, {}, 5),
        ({"termination_grace_period_seconds": 5}, {"deletion_grace_period_seconds": 2}, 2),
        ({"termination_grace_period_seconds": 5}, {"deletion_grace_period_seconds": 0}, 1),
        ({"termination_grace_period_seconds": 0}, {}, 1),
        ({"termination_grace_period_seconds": 10**18}, {}, 2**31 - 1),
    ],
)
def test_the_deletions_counts_before_the_pods(spec: dict[str, Any], deletion: dict[str, int], grace: int) -> None:
    """Then 30 s; never none, and none beyond gRPC's calendar."""
    assert grace_seconds(a_pod(meta=deletion, **spec)) == grace


@pytest.mark.parametrize(
    ("container", "reason", "deletion", "grace"),
    [
        (PROBED, KillReason.LIVENESS_PROBE, {}, 3),
        (PROBED, KillReason.STARTUP_PROBE, {}, 1),
        (PROBED, KillReason.DEFINITION_CHANGED, {}, 20),
        (PROBED, None, {}, 20),
        (PROBED, KillReason.LIVENESS_PROBE, {"deletion_grace_period_seconds": 9}, 9),
        (PLAIN, KillReason.LIVENESS_PROBE, {}, 20),
        (None, KillReason.NOT_IN_POD, {}, 20),
    ],
)
def test_a_probe_states_the_grace_period_of_its_container(
    container: Container | None, reason: KillReason | None, deletion: dict[str, int], grace: int
) -> None:
    """Unless the deletion of the pod does."""
    pod = a_pod(PROBED, PLAIN, meta=deletion, termination_grace_period_seconds=20)
    assert grace_seconds(pod, container, reason) == grace
