"""Which pod and container a path means: the kubelet's rules, as tables."""

from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.http.errors import HttpStatusError
from beehive.trace_context import current_context
from edged.cri.contract import SERVER_ACTOR
from edged.cri.errors import CriError
from edged.server.pod_lookup import container_of_log, find_pod, find_status, only_container, running_container, runs
from edged.server.snapshots import Snapshots
from modules.apimachinery.types import Pod, from_value
from protos.status import StatusCode

RUNNING = {"running": {"startedAt": "2026-11-20T05:00:00Z"}}
LOST = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
WAITING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


def ended(number: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, "reason": "Error", "containerID": f"containerd://c{number}"}}


def pod(*statuses: dict[str, Any], name: str = "p", uid: str = "u", containers: tuple[str, ...] = ("app",)) -> Pod:
    value = {
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": {"containers": [{"name": each} for each in containers], "initContainers": [{"name": "init"}]},
        "status": {"containerStatuses": [{"name": "app", **status} for status in statuses]},
    }
    return from_value(Pod, value)


def test_a_pod_is_found_by_its_name_the_newest_of_two() -> None:
    pods = [pod(uid="1"), pod(uid="2"), pod(name="q", uid="3")]
    assert find_pod(pods, "ns", "p").metadata.uid == "2"
    assert find_pod(pods, "ns", "p", "1").metadata.uid == "1"


@pytest.mark.parametrize(("namespace", "name", "uid"), [("ns", "r", ""), ("other", "p", ""), ("ns", "p", "other")])
def test_a_pod_that_is_not_here(namespace: str, name: str, uid: str) -> None:
    with pytest.raises(HttpStatusError, match=f"{namespace}/{name}") as refusal:
        find_pod([pod()], namespace, name, uid)
    assert refusal.value.status == 404


def test_the_error_about_an_unknown_container_lists_the_pods_containers() -> None:
    with pytest.raises(HttpStatusError, match="it has init, app") as refusal:
        find_status(pod(), "other")
    assert refusal.value.status == 404


@pytest.mark.parametrize(
    ("status", "present", "previous"),
    [
        ({"state": RUNNING, "containerID": "containerd://c1"}, "c1", None),
        ({"state": RUNNING, "lastState": ended(1), "containerID": "containerd://c2"}, "c2", "c1"),
        ({"state": ended(1), "containerID": "containerd://c1"}, "c1", None),
        ({"state": ended(1)}, "c1", None),
        ({"state": LOST, "lastState": ended(1), "containerID": "containerd://c2"}, "c1", "c1"),
        ({"state": LOST, "containerID": "containerd://c2"}, None, None),
        ({"state": WAITING, "lastState": ended(1), "containerID": "containerd://c1"}, "c1", "c1"),
        ({"state": WAITING}, None, None),
        ({}, None, None),
    ],
)
def test_whose_log_is_meant(status: dict[str, Any], present: str | None, previous: str | None) -> None:
    one = pod(status)
    for wanted, before in ((present, False), (previous, True)):
        if wanted is None:
            with pytest.raises(HttpStatusError) as refusal:
                container_of_log(one, "app", previous=before)
            assert refusal.value.status == 400
        else:
            assert container_of_log(one, "app", previous=before) == wanted


def test_the_error_names_the_reason_why_a_container_waits() -> None:
    with pytest.raises(HttpStatusError, match="CrashLoopBackOff: back-off 10s"):
        container_of_log(pod({"state": WAITING}), "app")


@pytest.mark.parametrize(
    "status", [{}, {"state": WAITING}, {"state": RUNNING}, {"state": ended(1), "containerID": "containerd://c1"}]
)
def test_a_command_needs_a_container_that_runs(status: dict[str, Any]) -> None:
    with pytest.raises(HttpStatusError) as refusal:
        running_container(pod(status), "app")
    assert refusal.value.status == 400


def test_the_container_that_runs() -> None:
    one = pod({"state": RUNNING, "containerID": "containerd://c1"})
    assert running_container(one, "app") == running_container(one) == "c1"


def test_of_several_containers_one_has_to_be_named() -> None:
    with pytest.raises(HttpStatusError, match="app, other"):
        only_container(pod(containers=("app", "other")))


@pytest.mark.parametrize(
    ("status", "still"),
    [
        ({"state": RUNNING, "containerID": "containerd://c1"}, True),
        ({"state": RUNNING, "containerID": "containerd://c2"}, False),
        ({"state": ended(1), "containerID": "containerd://c1"}, False),
    ],
)
def test_whether_that_very_container_runs(status: dict[str, Any], still: bool) -> None:
    assert runs([pod(status)], "u", "app", running_container(pod({"state": RUNNING, "containerID": "x://c1"}))) is still
    assert not runs([], "u", "app", running_container(pod({"state": RUNNING, "containerID": "x://c1"})))


def test_a_container_that_was_added_to_look_into_the_pod_is_found() -> None:
    """`kubectl debug` attaches to it, and shows its log."""
    value = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [{"name": "app"}], "ephemeralContainers": [{"name": "debug"}]},
        "status": {
            "ephemeralContainerStatuses": [{"name": "debug", "state": RUNNING, "containerID": "containerd://c9"}]
        },
    }
    one = from_value(Pod, value)
    assert running_container(one, "debug") == container_of_log(one, "debug") == "c9"


def test_the_servers_own_calls_of_the_runtime_are_known_as_such() -> None:
    """A replay has their results, and does not make them."""
    snapshots, before = Snapshots(), current_context().actor
    snapshots.runtime = Mock()
    with suppress(HttpStatusError), snapshots.calling() as runtime:
        assert (runtime, current_context().actor) == (snapshots.runtime, SERVER_ACTOR)
        raise CriError("Exec", "c", StatusCode.NOT_FOUND, "of this test")
    assert current_context().actor == before
