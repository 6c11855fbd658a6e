"""edged alone on the bus, on a machine that shuts down."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beehive.names import SHUTDOWN_RESOURCE, ModuleName
from edged.shutdown.plan import groups
from tests.edged.conftest import Bench, OpenEdged, pod, unavailable


class Source:
    """A machine that a test shuts down; it remembers whether it was held up."""

    def __init__(self) -> None:
        self.released = 0
        self.tell: Callable[[bool], None] = lambda _imminent: None

    def run(self, notify: Callable[[bool], None]) -> None:
        """Its one thread is the simulation's: it must not wait otherwise."""
        self.tell = notify

    def release(self) -> None:
        self.released += 1

    def close(self) -> None:
        self.tell = lambda _imminent: None


class Node(Bench):
    """A plain pod and one of the system run; 20 s for all others, 10 s for the system's."""

    def __init__(self, root: Path) -> None:
        self.source = Source()
        super().__init__(root, machine=self.source, shutdown=groups(30, 10))
        self.start(named("plain"), named("system", priority=2_000_000_000))

    def shut_down(self, *, imminent: bool = True, wait: float = 0.0) -> None:
        """The machine says so, and `wait` more seconds pass."""
        self.source.tell(imminent)
        self.run(0.1)
        self.run(wait)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """See there."""
    return Node(tmp_path)


def named(name: str, **changes: Any) -> dict[str, Any]:
    containers = [{"name": name, "image": "busybox:1.36", "command": ["sleep", "inf"]}]
    return pod(name, **{"containers": containers, **changes})


def deleted(value: dict[str, Any], grace: int) -> dict[str, Any]:
    """The pod while the cloud deletes it."""
    dying = {"deletionTimestamp": "2026-11-20T07:00:00Z", "deletionGracePeriodSeconds": grace}
    return {**value, "metadata": {**value["metadata"], **dying}}


def test_components_of_the_system_end_last_and_then_the_machine_may_go(node: Node) -> None:
    node.runtime.obeys = 5.0
    node.shut_down(wait=4.5)
    assert node.running() == ["plain", "system"]
    assert node.running(after=1.5) == ["system"]
    assert node.source.released == 0
    assert node.running(after=5.5) == []
    assert node.source.released == 1
    status = node.meta.statuses("plain")[-1]
    assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
    assert status["message"] == "Pod was terminated in response to imminent node shutdown."
    assert any(each["type"] == "DisruptionTarget" for each in status["conditions"])


def test_who_does_not_end_is_killed_when_its_time_is_over(node: Node) -> None:
    node.runtime.obeys = float("inf")
    node.shut_down(wait=19)
    assert node.running() == ["plain", "system"]
    assert node.running(after=2) == ["system"]
    assert node.running(after=11) == []
    assert node.source.released == 1


def test_pods_that_cannot_be_stopped_hold_the_machine_up_for_their_seconds_only(node: Node) -> None:
    node.runtime.fail("stop_container", unavailable(), times=1000)
    node.shut_down(wait=29)
    assert node.source.released == 0
    node.run(2)
    assert node.source.released == 1


def test_pods_that_the_cloud_is_ending_are_waited_for(node: Node) -> None:
    node.runtime.obeys = 8.0
    for doomed in (named("plain"), named("system", priority=2_000_000_000)):
        node.tell("update", deleted(doomed, grace=60))
    node.shut_down(wait=6)
    assert node.source.released == 0
    assert node.running(after=3) == []
    assert node.source.released == 1


def test_a_long_time_to_end_is_cut_short(node: Node) -> None:
    node.runtime.obeys = float("inf")
    node.tell("update", deleted(named("plain"), grace=600), wait=30)
    node.shut_down(wait=19)
    assert node.running() == ["plain", "system"]
    assert node.running(after=2) == ["system"]


def test_the_node_is_not_ready_and_takes_no_pod(node: Node) -> None:
    node.shut_down()
    node.tell("insert", named("late"), wait=1)
    assert "Ready" not in node.conditions
    status = OpenEdged.started[-1].assembly.node.status()
    assert next(each.message for each in status.conditions if each.type == "Ready") == "node is shutting down"
    late = node.meta.statuses("late")[-1]
    assert (late["phase"], late["reason"]) == ("Failed", "NodeShutdown")
    node.run(1)
    assert ("Shutdown", "Shutdown manager detected shutdown event") in node.meta.told("n1")


def test_a_shutdown_that_is_cancelled_ends_no_more_pods(node: Node) -> None:
    node.runtime.obeys = 5.0
    node.shut_down()
    node.shut_down(imminent=False, wait=40)
    assert node.running() == ["system"], "the plain one was told before"
    assert "Ready" in node.conditions
    assert ("Shutdown", "Shutdown manager detected shutdown cancellation") in node.meta.told("n1")
    node.tell("insert", named("late"))
    assert node.running() == ["late", "system"]
    node.shut_down(wait=20)
    assert node.running() == []


def test_a_second_word_of_it_changes_nothing(node: Node) -> None:
    node.runtime.obeys = 5.0
    node.shut_down(wait=3)
    node.shut_down(wait=9)
    assert node.running() == []
    assert node.source.released == 1


def test_without_time_for_pods_a_shutdown_is_nobodys_business(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.start(named("plain"))
    bench.bee.send(ModuleName.EDGED, bench.bee.message(SHUTDOWN_RESOURCE, "update", content=True, source="SIGPWR"))
    assert bench.running(after=30) == ["plain"]
    assert "Ready" in bench.conditions
