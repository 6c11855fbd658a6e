"""Jobs of KubeEdge's cloud, as its recordings have them (v1.23), and what the node answers."""

from typing import Any

import pytest

from beehive import ModuleName
from beehive.names import CLOUD_CONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from edgehub import install
from edgehub.settings import EdgeHubSettings
from modules.edge.taskmanager.module import REASON, TaskManager, refusal_of
from modules.lab.doubles.memory_cloud import MemoryCloud

API = "operations.kubeedge.io/v1alpha2"
NOW = "2026-11-20T16:45:54Z"
PULL = {"imagePrePullTemplate": {"images": ["docker.io/library/busybox:latest"], "nodeNames": ["n1"], "retryTimes": 1}}
CONFIG = {"nodeNames": ["n1"], "timeoutSeconds": 60, "updateFields": {"modules.edgeHub.heartbeat": "20"}}
UPGRADE = {"version": "v1.24.0", "nodeNames": ["n1"], "imageDigestGatter": None, "requireConfirmation": True}


@pytest.mark.parametrize(
    ("job", "content"),
    [("imageprepulljob/pull-ok", PULL), ("configupdatejob/conf-1", CONFIG), ("nodeupgradejob/up-1", UPGRADE)],
)
def test_a_job_is_answered_with_a_failed_check(job: str, content: dict[str, Any]) -> None:
    """Once, in the form of KubeEdge's edge: source websocket, group hub, the job's own resource."""
    with Harness() as bee:
        bee.add(TaskManager, "n1")
        bee.start()
        resource = f"{API}/{job}/node/n1"
        bee.send(ModuleName.TASKMANAGER, bee.message(CONNECTION_RESOURCE, "connect", CLOUD_CONNECTED))
        asked = bee.message(resource, "Check", content, source="taskmanager", group="taskmanager")
        bee.send(ModuleName.TASKMANAGER, asked)
        [answer] = bee.sent_to(ModuleName.EDGEHUB)
    route = answer.route
    assert (route.source, route.group, route.operation) == ("websocket", "hub", "UpdateNodeActionStatus")
    assert route.resource == resource
    said = answer.content_as(dict[str, Any])
    assert said.pop("finishTime").endswith("Z")
    assert said == {"action": "Check", "succ": False, "reason": REASON, "extend": ""}


def test_the_answer_leaves_through_edgehub() -> None:
    """KubeEdge's cloud reads a job's answer by its operation and resource."""
    with Harness() as bee:
        cloud = MemoryCloud(bee.simulation)
        install(bee.hive, EdgeHubSettings(url="ws://cloud", node="n1"), make_link=cloud.make_link)
        bee.add(TaskManager, "n1")
        bee.start()
        resource = f"{API}/imageprepulljob/pull-ok/node/n1"
        cloud.send(bee.message(resource, "Check", PULL, source="taskmanager", group="taskmanager"))
        bee.run_for(1)
        answers = [each for each in cloud.messages() if each.route.operation == "UpdateNodeActionStatus"]
        assert [(each.route.resource, each.content_as(dict)["succ"]) for each in answers] == [(resource, False)]


@pytest.mark.parametrize(
    ("state", "event"), [("Checking", "Check"), ("Pulling", "Pull"), ("Init", "Init"), (["x"], "Init"), (None, "Init")]
)
def test_a_task_of_the_older_api_fails_in_its_present_state(state: object, event: str) -> None:
    found = refusal_of("prepull/pull-1/node/n1", "prepull", {"TaskID": "pull-1", "State": state}, "n1", NOW)
    assert found is not None
    assert (found.resource, found.operation) == ("task/pull-1/node/n1", "prepull")
    assert (found.content["Event"], found.content["Action"], found.content["Reason"]) == (event, "Failure", REASON)
    assert refusal_of("upgrade/u/node/n1", "upgrade", "no object", "n1", NOW) is not None


@pytest.mark.parametrize(
    ("resource", "operation"),
    [
        (f"{API}/imageprepulljob/pull-ok/node/n2", "Check"),
        (f"{API}/imageprepulljob/pull-ok/node/n1/more", "Check"),
        (f"{API}/secrets/pull-ok/node/n1", "Check"),
        (f"{API}/imageprepulljob/pull-ok/node/n1", ""),
        (f"{API}/imageprepulljob/pull-ok/node/n1", "x" * 1000),
        (f"{API}/imageprepulljob/{'x' * 1000}/node/n1", "Check"),
        ("prepull/pull-1/node/n2", "prepull"),
        ("prepull/pull-1/node/n1", "restart"),
        ("", ""),
    ],
    ids=range(9),
)
def test_jobs_of_other_nodes_are_not_answered(resource: str, operation: str) -> None:
    assert refusal_of(resource, operation, {}, "n1", NOW) is None
