"""The steps between two statuses of a pod."""

import pytest

from edged.events.pods import StatusStep, steps_between
from modules.apimachinery.types import ContainerState, ContainerStatus, PodCondition, PodStatus, Time
from modules.apimachinery.types.pod_status import ContainerStateTerminated


def ended(code: int = 1, reason: str = "Error", identity: str = "c1", at: Time | None = None) -> ContainerState:
    terminated = ContainerStateTerminated(
        exit_code=code, reason=reason, container_id=identity, message="password", finished_at=at
    )
    return ContainerState(terminated=terminated)


def status(state: ContainerState | None = None, last: ContainerState | None = None, **more: object) -> PodStatus:
    one = ContainerStatus(name="app", state=state or ContainerState(), last_state=last or ContainerState())
    return PodStatus(container_statuses=(one,), **more)  # type: ignore[arg-type]


def ready(value: str) -> PodStatus:
    return status(conditions=(PodCondition(type="Ready", status=value),))


CRASHED = StatusStep("Ended", "container app ended with exit code 1", "app", is_warning=True)


@pytest.mark.parametrize(
    ("before", "after", "steps"),
    [
        (PodStatus(), status(), []),
        (status(), status(ended()), [CRASHED]),
        (status(ended()), status(ended()), []),
        (status(ended()), status(last=ended()), []),
        (status(), status(last=ended()), [CRASHED]),
        (status(ended()), status(ended(identity="c2"), ended()), [CRASHED]),
        (
            status(),
            status(ended(137, "OOMKilled")),
            [StatusStep("Ended", "container app ended with exit code 137 (OOMKilled)", "app", is_warning=True)],
        ),
        (
            status(),
            status(ended(0, "Completed"), phase="Succeeded"),
            [
                StatusStep("Ended", "container app ended with exit code 0", "app"),
                StatusStep("Succeeded", "all containers ended with exit code 0"),
            ],
        ),
        (
            status(phase="Running"),
            status(phase="Failed", reason="Evicted"),
            [StatusStep("Failed", "the pod has failed (Evicted)", is_warning=True)],
        ),
        (status(phase="Failed"), status(phase="Failed"), []),
        (status(ended(identity="")), status(last=ended(identity="")), []),
        (status(ended(identity="", at=Time("2026-01-01T00:00:01Z"))), status(ended(identity="")), [CRASHED]),
        (status(), ready("True"), [StatusStep("Ready", "the pod is ready")]),
        (ready("True"), ready("True"), []),
        (ready("True"), ready("False"), [StatusStep("NotReady", "the pod is no longer ready")]),
        (status(), ready("False"), []),
    ],
)
def test_steps(before: PodStatus, after: PodStatus, steps: list[StatusStep]) -> None:
    assert list(steps_between(before, after)) == steps
