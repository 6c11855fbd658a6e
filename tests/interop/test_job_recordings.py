"""The recorded cloud and edge of jobs (j1 to j7 of the captures), each with ours in the place of the other.

Ours differs on the node where KubeEdge's needs keadm, and in the time of a ConfigUpdateJob's actions, which KubeEdge
leaves empty. In j4 to j6 the edge was ours already: KubeEdge's reports no end of a ConfigUpdateJob. In j7 the edge is
KubeEdge's, and the cloud ours.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from beehive import Message, ModuleName
from beehive.decoding import convert
from beehive.testing import Harness
from tests.interop.traces import KUBEEDGE, lines_of
from tests.modules.edge.taskmanager.jobs import FakeConfiguration, Node
from tests.modules.processes.cloudcore.jobs import JobAuthors, next_job
from tests.modules.processes.cloudcore.stubs import Stub

Json = dict[str, Any]
NODE: Final = "cap-edge"
_CREATED: Final = "created: "
_STATUS: Final = "status of the job in the API server: "
JOBS: Final = [
    KUBEEDGE / f"{name}.jsonl"
    for name in (
        "j1-prepull", "j1-prepull-fails", "j2-configupdate", "j3-nodeupgrade", "j4-configupdate-done",
        "j5-nodeupgrade-done", "j7-nodeupgrade-go",
    )
]  # fmt: skip
GONE_BACK: Final = KUBEEDGE / "j6-configupdate-back.jsonl"


def _said(path: Path, direction: str) -> list[Json]:
    """The messages about the job in one direction."""
    return [
        line["msg"]
        for line in lines_of(path)
        if line.get("dir") == direction and line["msg"]["route"]["resource"].startswith("operations.")
    ]


def _marked(path: Path, beginning: str) -> Json:
    """The JSON that a mark ends with."""
    text = next(line["text"] for line in lines_of(path) if beginning in line.get("text", ""))
    found: Json = json.loads(text.partition(beginning)[2])
    return found


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_our_cloud_gives_a_recorded_edge_the_same_job_and_writes_the_same_status(path: Path, tmp_path: Path) -> None:
    """The job that was made then, the answers that the edge gave then."""
    assert _status_of_ours(path, tmp_path) == _marked(path, _STATUS)


def test_a_change_that_went_back_has_failed_for_our_cloud(tmp_path: Path) -> None:
    """For KubeEdge's it is Successful, as RollBack is the last action and has succeeded."""
    ours, [theirs] = _status_of_ours(GONE_BACK, tmp_path), _marked(GONE_BACK, _STATUS)["nodeStatus"]
    [task] = ours["nodeStatus"]
    assert task["actionFlow"] == theirs["actionFlow"]
    assert (theirs["phase"], task["phase"], ours["phase"]) == ("Successful", "Failure", "Failure")
    assert task["reason"] == "rolled back: the configuration ended 3 times"


def _status_of_ours(path: Path, tmp_path: Path) -> Json:
    """The status that our cloud writes of a recorded job, after it has sent the job as it was sent then."""
    job = _marked(path, _CREATED)
    kind, name = job["kind"], job["metadata"]["name"]
    with Stub(tmp_path) as stub, stub.edge(NODE) as edge:
        authors = JobAuthors(stub.client)
        authors.wait()
        authors.node(NODE)
        authors.create(kind, name, job["spec"])
        asked = next_job(edge)
        [recorded] = _said(path, "cloud->edge")
        route = asked.route
        found = {key: getattr(route, key) for key in ("source", "group", "operation", "resource")}
        assert found == recorded["route"]
        content = {key: value for key, value in recorded["content"].items() if value is not None}
        assert asked.content_as(dict[str, Any]) == content
        for message in _said(path, "edge->cloud"):
            edge.send(convert(message, Message))
        return authors.ended(kind, name)


@pytest.mark.parametrize("path", JOBS[:2], ids=lambda path: path.stem)
def test_our_node_answers_a_recorded_cloud_as_the_recorded_edge(path: Path) -> None:
    """But for times, and for what the runtime says of a failed pull."""
    with Harness() as bee:
        node = Node(bee, node=NODE)
        node.have("docker.io/library/busybox:latest")
        node.cannot_pull()
        [asked] = _said(path, "cloud->edge")
        bee.send(ModuleName.TASKMANAGER, convert(asked, Message))
        bee.run_for(60)
        ours = bee.sent_to(ModuleName.EDGEHUB)
        recorded = _said(path, "edge->cloud")
        assert [_of(message) for message in ours] == [_of(convert(message, Message)) for message in recorded]


def test_our_node_carries_out_a_recorded_change_of_the_configuration() -> None:
    """The recorded edge had no file that keadm could copy; the settings are KubeEdge's and ours alike."""
    with Harness() as bee:
        configuration = FakeConfiguration()
        fields = _marked(JOBS[2], _CREATED)["spec"]["updateFields"]
        node = Node(bee, node=NODE, configuration=configuration, keys=tuple(fields))
        [asked] = _said(JOBS[2], "cloud->edge")
        bee.send(ModuleName.TASKMANAGER, convert(asked, Message))
        bee.run_for(60)
        assert configuration.begun == [(fields, True), (fields, False)]
        ours = [_of(message) for message in bee.sent_to(ModuleName.EDGEHUB)]
        assert ours[0] == _of(convert(_said(JOBS[2], "edge->cloud")[0], Message))
        assert [each["action"] for each in ours] == ["Check", "BackUp", "Update"]
        assert node.ends()[-1] == ("Update", True, "")


def _of(message: Message) -> Json:
    """A report without its time and the reasons of images."""
    route, content = message.route, message.content_as(dict[str, Any])
    images = json.loads(content["extend"] or "[]")
    results = [(image["image"], image["status"], bool(image.get("reason"))) for image in images]
    what = {key: content[key] for key in ("action", "succ", "reason")}
    return {"route": (route.source, route.group, route.operation, route.resource), **what, "images": results}
