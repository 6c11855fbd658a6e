"""A real pod goes the way on docs/architecture.md: from its manifest to a container that runs, and back."""

import pytest

from tests.architecture import PAGE, calls_in, first_wrong, steps_in
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import RUN, container, is_ready, pod
from tests.end_to_end.processes import wait_until


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_a_pod_goes_the_way_of_the_page(stopped_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = stopped_machine
    steps = steps_in(PAGE.read_text())
    follow, followed = machine.directory / "follow", machine.directory / "followed"
    follow.write_text("".join(f"{step.path} {step.function}\n" for step in dict.fromkeys(steps)))
    monkeypatch.setenv("FOLLOW", str(follow))
    monkeypatch.setenv("FOLLOWED", str(followed))
    machine.cloud.module = "tests.end_to_end.followed_cloudcore"
    machine.edge.module = "tests.end_to_end.followed_edgecore"
    machine.start()
    before = len(followed.read_text().splitlines())
    machine.cloud.apply(pod("followed", container(RUN)))
    machine.cloud.pods.wait("followed", is_ready)

    def wrong() -> str | None:
        return first_wrong(steps, calls_in(followed.read_text().splitlines()[before:]))

    wait_until(lambda: wrong() is None, f"the pod has gone the whole way of {PAGE.name}: {wrong()}")
